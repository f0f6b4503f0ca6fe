#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Digilent PYNQ-Z1: litex-boards' platform, its one wrong list of pins mended, and Yosys alone beside LiteX's toolchains."""

import re

from litex.build.generic_platform import Pins

from litex_boards.platforms import digilent_pynq_z1

from litetern.soc.tools.toolchains import YosysToolchain, guard_timing

MIO_PINS = 54


def _mended(io):
    """The pads with 54 MIO pins: where a comma is missing, two stand there as one word."""
    for name, number, *constraints in io:
        for pins in constraints:
            if name == "ps7_mio" and isinstance(pins, Pins) and len(pins.identifiers) != MIO_PINS:
                constraints = [Pins(" ".join(re.findall(r"[A-Z]+\d+", " ".join(pins.identifiers))))]
        yield (name, number, *constraints)

# Platform -----------------------------------------------------------------------------------------


class Platform(digilent_pynq_z1.Platform):
    """toolchain: one of LiteX's, or "yosys", which ends in the netlist. No clock comes from a pin: that of the PL is the processing system's."""
    default_clk_name = None

    def __init__(self, toolchain="vivado"):
        digilent_pynq_z1.Platform.__init__(self, "vivado" if toolchain == "yosys" else toolchain)
        self.device = "xc7z020clg400-1"  # As Vivado and prjxray spell it.
        self.constraint_manager.available = list(_mended(self.constraint_manager.available))
        if toolchain == "yosys":
            self.toolchain = YosysToolchain()
        if toolchain == "vivado":
            guard_timing(self.toolchain)

    @classmethod
    def toolchains(cls, device):
        """Those of LiteX that were tried, and ours."""
        return ["vivado", "openxc7", "yosys+nextpnr", "yosys"]

    def do_finalize(self, fragment):
        """Without the packaged constraint of the 125 MHz pin, which nobody asks for."""
