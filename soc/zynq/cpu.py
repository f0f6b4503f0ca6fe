#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The Zynq-7000 as a CPU of LiteX, by its primitive.

LiteX's own class wraps Vivado's processing system IP, which no other tool knows, hands HP ports out in order and leaves them disabled. The
primitive takes any port, and every tool takes the primitive.
"""

from migen import *
from migen.genlib.resetsync import AsyncResetSynchronizer

from litex.soc.cores import cpu
from litex.soc.cores.cpu.zynq7000.core import Zynq7000
from litex.soc.interconnect import axi

from litetern.soc.zynq.memory_map import FIRMWARE_BASE
from litetern.soc.zynq.ps7 import PS7

# CPU ----------------------------------------------------------------------------------------------


class ZynqPS7(Zynq7000):
    """interrupt : of the PL, 0 to 7 are the GIC's 61 to 68, 8 to 15 its 84 to 91. cd_ps7: FCLK0 and its reset."""
    name       = "zynq_ps7"
    human_name = "Zynq-7000 (PS7 primitive)"
    reset_address = FIRMWARE_BASE  # The boot loader's to reach.

    @property
    def mem_map(self):
        return {**Zynq7000.mem_map.fget(self), "rom": FIRMWARE_BASE}  # The firmware lies in the DDR; the boot loader puts it there.

    def __init__(self, platform, variant, *args, **kwargs):
        cpu.CPU.__init__(self, *args, **kwargs)  # Zynq7000's wires the IP.
        self.platform       = platform
        self.reset          = Signal()
        self.interrupt      = Signal(16)
        self.periph_buses   = []  # The PL brings its own way to its registers.
        self.memory_buses   = []
        self.axi_gp_masters = []
        self.axi_hp_slaves  = []
        self.cd_ps7         = ClockDomain()

        # # #

        self.ps7 = ps7 = PS7()
        ps7.add_pins(platform)
        self.specials += [
            Instance("BUFG", i_I=ps7.fclk[0], o_O=self.cd_ps7.clk),
            AsyncResetSynchronizer(self.cd_ps7, ~ps7.fclk_resetn[0]),
        ]
        self.comb += ps7.irqs.eq(self.interrupt)

    def add_axi_gp_master(self, number=0):
        """AXIInterface (axi3, 32 bit) of a GP master port: the CPU's way into the PL."""
        interface = axi.AXIInterface(data_width=32, address_width=32, id_width=12, version="axi3", name=f"gp{number}")
        self.ps7.add_gp_master(number, interface)
        self.axi_gp_masters.append(interface)
        return interface

    def add_axi_hp_slave(self, number):
        """AXIInterface (axi3, 64 bit) of an HP slave port: the PL's way to the DDR, past the CPU's caches."""
        interface = axi.AXIInterface(data_width=64, address_width=32, id_width=6, version="axi3", name=f"hp{number}")
        self.ps7.add_hp_slave(number, interface)
        self.axi_hp_slaves.append(interface)
        return interface

    def do_finalize(self):
        """Nothing of the IP's: the primitive is an instance like any other."""


cpu.CPUS[ZynqPS7.name] = ZynqPS7  # SoCCore finds CPUs by name.
