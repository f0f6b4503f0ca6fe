#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteTern on the Digilent PYNQ-Z1.

    python soc/pynqz1.py --report                            what an accelerator for a model costs and brings
    python soc/pynqz1.py --report --batch 4 --model model.tern
    python soc/pynqz1.py --build                             a bitstream by Vivado or openXC7, or where neither is there the netlist by Yosys
    python soc/pynqz1.py --build --toolchain yosys           the netlist alone
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex")

import dataclasses
import json
import os
import subprocess
import sys

from pathlib import Path

from migen import *

from litex.gen import *

from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.build.parser import LiteXArgumentParser  # Behind soc_core: LiteX imports it in a circle.

from litetern.model.common import console
from litetern.model.formats.head import HEADS
from litetern.model.formats.shapes import SHAPES
from litetern.model.paths import BUILD
from litetern.soc.accelerator import FORMATS, OPTIONS, AcceleratorConfig, accelerator_argdict, accelerator_args
from litetern.soc.boards import BOARDS
from litetern.soc.generator.design import BATCHES, STRATEGIES, convert
from litetern.soc.litex.builder import FirmwareBuilder
from litetern.soc.platforms.digilent_pynqz1 import Platform
from litetern.soc.tools import toolchains
from litetern.soc.tools.yosys import find_yosys
from litetern.soc.zynq.cpu import ZynqPS7
from litetern.soc.zynq.memory_map import DDR_END, FIRMWARE_BASE
from litetern.soc.zynq.pl import CSR_BASE, PLInstance, quiet

BOARD  = BOARDS["pynqz1"]
NAME   = "pynqz1"
FOLDER = BUILD/NAME

# CRG ----------------------------------------------------------------------------------------------


class _CRG(LiteXModule):
    """The clock comes from the PS, whose firmware sets its frequency and lifts the reset."""
    def __init__(self, platform, ps7, sys_clk_freq):
        self.cd_sys = ClockDomain()

        # # #

        self.comb += [
            self.cd_sys.clk.eq(ps7.clk),
            self.cd_sys.rst.eq(ps7.rst),
        ]
        platform.add_period_constraint(ps7.clk, 1e9/sys_clk_freq)

# BaseSoC ------------------------------------------------------------------------------------------


class BaseSoC(SoCCore):
    """The processing system around the PL that the virtual board runs: the same Verilog, byte for byte."""
    def __init__(self, config=AcceleratorConfig(), toolchain="vivado", **kwargs):
        platform     = Platform(toolchain)
        sys_clk_freq = config.clock_hz

        # SoCCore ----------------------------------------------------------------------------------
        kwargs |= dict(cpu_type=ZynqPS7.name, integrated_rom_size=0, integrated_sram_size=0, with_uart=False, with_timer=False, with_ctrl=False)
        SoCCore.__init__(self, platform, sys_clk_freq, ident="", **kwargs)
        self.bus.add_region("rom", SoCRegion(origin=FIRMWARE_BASE, size=DDR_END - FIRMWARE_BASE, linker=True))  # The DDR.

        # CRG --------------------------------------------------------------------------------------
        self.crg = _CRG(platform, self.cpu.cd_ps7, sys_clk_freq)

        # PL ---------------------------------------------------------------------------------------
        self.pl = pl = PLInstance(config)
        self.comb += [
            self.cpu.add_axi_gp_master(0).connect(pl.gp0),
            *(port.connect(self.cpu.add_axi_hp_slave(int(name.removeprefix("HP")))) for name, port in zip(BOARD.ports, pl.hp)),
            self.cpu.interrupt[:len(pl.irqs)].eq(pl.irqs),
        ]

        for lane in range(len(pl.irqs)):
            self.irq.add(f"accelerator_lane{lane}", lane)

    def add_csr_bridge(self, name="csr", origin=None, register=False):
        """The bridge is the PL's own: here are its addresses."""
        self.bus.add_region(name, SoCRegion(origin=CSR_BASE, size=1 << 16, cached=False, linker=True))

    def finalize(self):
        if not self.finalized:
            with quiet():
                for name, region in self.pl.regions.items():
                    self.csr.add_region(name, region)
                SoCCore.finalize(self)

    def add_pl(self, folder):
        """Puts the PL's Verilog into a folder and among the sources."""
        path = Path(folder)/"pl.v"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.pl.verilog)
        self.platform.add_source(str(path.resolve()))

# Build --------------------------------------------------------------------------------------------


def build(config=AcceleratorConfig(), toolchain=None, output_dir=FOLDER, soc={}, builder={}, **options):
    """Builds the SoC; returns {"toolchain", "bitstream": path or None, "files": {what: path}, and of Yosys "resources"}. Raises ValueError.

    toolchain : of `Platform.toolchains`; None: the first that this machine has and that ends in a bitstream, else "yosys".
    soc, builder, options : of SoCCore, of LiteX's builder, of the toolchain; run=False: only what it would read.
    """
    toolchain = toolchain or toolchains.choose()
    missing   = toolchains.lacking(toolchain) if options.setdefault("run", True) else ""
    if missing:
        raise ValueError(f"toolchain {toolchain}: {missing}")
    with quiet():
        soc     = BaseSoC(config, toolchain, **soc)
        builder = FirmwareBuilder(soc, **{"output_dir": str(output_dir), **builder})
    gateware = Path(builder.gateware_dir)
    soc.add_pl(gateware)
    folder = os.getcwd()
    try:
        with quiet():
            builder.build(build_name=NAME, **options)
    except (OSError, subprocess.SubprocessError) as error:
        os.chdir(folder)  # LiteX leaves the caller in its own.
        report = gateware/f"{NAME}_worst.rpt"
        paths  = toolchains.worst_paths(report.read_text()) if report.exists() else []
        raise ValueError("; ".join([f"{toolchain} failed: {error}", *(f"{path}" for path in paths if path.slack < 0)])) from None
    result = {"toolchain": toolchain, "bitstream": None, "files": {"PL": gateware/"pl.v", "SoC": gateware/f"{NAME}.v"}}
    if not options["run"]:
        return result
    if toolchain == "yosys":
        result["files"]["netlist"] = gateware/f"{NAME}.json"
        result["resources"] = soc.platform.toolchain.netlist.resources()
    else:
        result["bitstream"] = gateware/f"{NAME}.bit"
        if not result["bitstream"].exists():
            raise ValueError(f"{toolchain} ended without an error and without {result['bitstream']}")
    return result


def tell(result):
    """Lines for people."""
    for name, path in result["files"].items():
        print(f"{name:10}{path}")
    if "resources" in result:
        print(", ".join(f"{value:g} {figure}" for figure, value in result["resources"].items()))
    print(f"bitstream: {result['bitstream'] or f'none ({toolchains.INSTALL})'}")


def parse():
    parser = LiteXArgumentParser(platform=Platform)
    parser.prog, parser.description = "pynqz1.py", __doc__  # LiteX's class takes keywords for the program's name.
    parser.set_defaults(output_dir=str(FOLDER), log_level="warning", toolchain=None, cpu_type=ZynqPS7.name)
    parser.add_target_argument("--sys-clk-freq", default=BOARD.clock_hz, type=float, help="Clock of the PL.")
    parser.add_target_argument("--model",        default="bitnet_b1_58-large", help=f"Image, checkpoint or shape ({', '.join(SHAPES)}).")
    parser.add_target_argument("--batch",        default=1, type=int,          help="Vectors that share a pass over the weights "
                                                                                    f"({', '.join(map(str, BATCHES))}).")
    parser.add_target_argument("--head",         default=None,                 help=f"Head ({', '.join(HEADS)}; default: the model's own, or int8 "
                                                                                    "where there is int8).")
    parser.add_target_argument("--context",      default=None, type=int,       help="Positions (default: the model's, up to 2,048).")
    parser.add_target_argument("--strategy",     default="streamed",           help=f"Where the weights stay ({', '.join(STRATEGIES)}).")
    accelerator_args(parser, **{option.name: None for option in OPTIONS})  # What the model asks for.
    report = parser.add_argument_group("report options")
    report.add_argument("--report",   action="store_true", help="Print resources, cycles, bytes, tokens per second.")
    report.add_argument("--estimate", action="store_true", help="Cycles by formula and no synthesis: seconds instead of minutes.")
    report.add_argument("--json",     action="store_true", help="Print the report, or what was built, as one JSON object.")
    args = parser.parse_args()
    if not (args.report or args.build or args.load):
        parser.error("nothing to do: give --report, --build or --load")
    if args.json and args.report + args.build != 1:
        parser.error("--json goes with --report or --build, one of them")
    return parser, args


def run(parser, args):
    asked  = accelerator_argdict(args)
    design = convert(args.model, NAME, args.strategy, args.batch, asked.get("formats", tuple(FORMATS)), args.context, args.head)
    design = dataclasses.replace(design, accelerator=dataclasses.replace(design.accelerator, clock_hz=args.sys_clk_freq, **asked))
    if args.report:
        if not args.estimate:
            find_yosys()  # Before Verilator takes its minute.
            print("Yosys and Verilator run: minutes, the first time", file=sys.stderr, flush=True)
        report = design.report(synthesise=not args.estimate, simulate=not args.estimate)
        print(json.dumps(report.data(), indent=1) if args.json else report, flush=True)
    if args.build:
        toolchain = args.toolchain or toolchains.choose()
        print(f"{toolchain} runs: minutes, the first time", file=sys.stderr, flush=True)
        result = build(design.accelerator, toolchain, args.output_dir, parser.soc_argdict, parser.builder_argdict,
            **(parser.toolchain_argdict if toolchain == "vivado" else {}))
        if args.json:
            print(json.dumps({**result, "install": None if result["bitstream"] else toolchains.INSTALL}, indent=1, default=str))
        else:
            tell(result)
    if args.load:
        Platform().create_programmer().load_bitstream(str(Path(args.output_dir)/"gateware"/f"{NAME}.bit"))


def main():
    run(*parse())


if __name__ == "__main__":
    console.run(main)
