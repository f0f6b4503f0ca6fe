#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteTern on the Digilent PYNQ-Z1.

    python soc/pynqz1.py --report                            what an accelerator for a model costs and brings
    python soc/pynqz1.py --report --batch 4 --model model.tern
    python soc/pynqz1.py --build                             netlist of the PL, processing system included (no bitstream yet)
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex")

import argparse
import dataclasses
import json
import sys

from pathlib import Path

from migen import *
from migen.genlib.resetsync import AsyncResetSynchronizer

from litex.gen import *

from litetern.model.common.printable import printable
from litetern.model.formats.head import HEADS
from litetern.model.formats.shapes import SHAPES
from litetern.model.paths import BUILD
from litetern.soc.accelerator import FORMATS, OPTIONS, AcceleratorConfig, accelerator_argdict, accelerator_args
from litetern.soc.boards import BOARDS
from litetern.soc.generator.design import BATCHES, STRATEGIES, convert
from litetern.soc.platforms.digilent_pynqz1 import Platform
from litetern.soc.tools.verilate import self_contained
from litetern.soc.tools.yosys import find_yosys, synthesize
from litetern.soc.zynq.pl import PL, export_csrs, quiet
from litetern.soc.zynq.ps7 import PS7

BOARD = BOARDS["pynqz1"]
FOLDER = BUILD/"pynqz1"

# CRG ----------------------------------------------------------------------------------------------


class _CRG(LiteXModule):
    """The clock comes from the PS, whose firmware sets its frequency and lifts the reset."""
    def __init__(self, ps7):
        self.cd_sys = ClockDomain()

        # # #

        self.specials += [
            Instance("BUFG", i_I=ps7.fclk[0], o_O=self.cd_sys.clk),
            AsyncResetSynchronizer(self.cd_sys, ~ps7.fclk_resetn[0]),
        ]

# BaseSoC ------------------------------------------------------------------------------------------


class BaseSoC(PL):
    """The PL that the virtual board runs, wired to the processing system."""
    def __init__(self, config=AcceleratorConfig()):
        platform = Platform()

        # PS7 --------------------------------------------------------------------------------------
        self.ps7 = ps7 = PS7()
        ps7.add_pins(platform)

        # CRG --------------------------------------------------------------------------------------
        self.crg = _CRG(ps7)

        # PL ---------------------------------------------------------------------------------------
        PL.__init__(self, config, platform)
        ps7.add_gp_master(0, self.gp0)
        for port, interface in zip(BOARD.ports, self.hp):
            ps7.add_hp_slave(int(port.removeprefix("HP")), interface)
        self.comb += ps7.irqs.eq(self.irqs)

    def verilog(self, name="pynqz1"):
        """Verilog text of the whole, module `name`."""
        with quiet():
            fragment = self.get_fragment()
            self.platform.finalize(fragment)
            return self_contained(self.platform.get_verilog(fragment, name=name))

# Build --------------------------------------------------------------------------------------------


def build(config, folder):
    """Writes Verilog, netlist and register description; returns (`litetern.soc.tools.yosys.Netlist`, {what: Path})."""
    gateware, software = Path(folder)/"gateware", Path(folder)/"software"/"include"
    find_yosys()
    text    = BaseSoC(config).verilog()
    netlist = synthesize("pynqz1", text)
    gateware.mkdir(parents=True, exist_ok=True)
    (gateware/"pynqz1.v").write_text(text)
    (gateware/"pynqz1.json").write_bytes(netlist.path.read_bytes())
    export_csrs(config, software)
    return netlist, {"Verilog": gateware/"pynqz1.v", "netlist": gateware/"pynqz1.json", "registers": software/"csr.json"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = parser.add_argument_group("target options")
    target.add_argument("--model",      default="bitnet_b1_58-large",  help=f"Image, checkpoint or shape ({', '.join(SHAPES)}).")
    target.add_argument("--batch",      default=1, type=int,           help="Vectors that share a pass over the weights "
                                                                            f"({', '.join(map(str, BATCHES))}).")
    target.add_argument("--head",       default=None,                  help=f"Head ({', '.join(HEADS)}; default: the model's own, "
                                                                            "or int8 where there is int8).")
    target.add_argument("--context",    default=None, type=int,        help="Positions (default: the model's, up to 2,048).")
    target.add_argument("--strategy",   default="streamed",            help=f"Where the weights stay ({', '.join(STRATEGIES)}).")
    accelerator_args(parser, **{option.name: None for option in OPTIONS})  # What the model asks for.
    report = parser.add_argument_group("report options")
    report.add_argument("--report",     action="store_true",           help="Print resources, cycles, bytes, tokens per second.")
    report.add_argument("--estimate",   action="store_true",           help="Cycles by formula and no synthesis: seconds instead of minutes.")
    report.add_argument("--json",       action="store_true",           help="Print the report as one JSON object.")
    builds = parser.add_argument_group("build options")
    builds.add_argument("--build",      action="store_true",           help="Synthesise the PL (Yosys).")
    builds.add_argument("--output-dir", default=FOLDER, type=Path,      help="Folder of what is built (default: build/pynqz1).")
    args = parser.parse_args()
    if not (args.report or args.build):
        parser.error("nothing to do: give --report or --build")
    if args.json and args.build:
        parser.error("--json goes with --report alone")
    try:
        asked  = accelerator_argdict(args)
        design = convert(args.model, "pynqz1", args.strategy, args.batch, asked.get("formats", tuple(FORMATS)), args.context, args.head)
        design = dataclasses.replace(design, accelerator=dataclasses.replace(design.accelerator, **asked))
        if args.report:
            if not args.estimate:
                find_yosys()  # Before Verilator takes its minute.
                print("Yosys and Verilator run: minutes, the first time", file=sys.stderr, flush=True)
            report = design.report(synthesise=not args.estimate, simulate=not args.estimate)
            print(json.dumps(report.data(), indent=1) if args.json else report, flush=True)
        if args.build:
            print("Yosys runs: minutes, the first time", file=sys.stderr, flush=True)
            netlist, files = build(design.accelerator, args.output_dir)
            for name, path in files.items():
                print(f"{name:10}{path}")
            print(", ".join(f"{value:g} {figure}" for figure, value in netlist.resources().items()))
            print("No bitstream was written: the flow ends in the netlist.")
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"pynqz1.py: {printable(str(error))}")
    except KeyboardInterrupt:
        sys.exit("pynqz1.py: stopped; what was built stays in build/")


if __name__ == "__main__":
    main()
