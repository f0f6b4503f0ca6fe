#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LUTs, flip-flops, DSPs and block RAM of the cores, beside the reference's on the same ruler (Yosys)."""

import argparse
import json
import sys

from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from migen import Signal, Module

from cores.attention import Attention
from cores.matmul    import Matmul
from soc.verilate    import to_verilog
from soc.yosys       import synthesize

# Cores --------------------------------------------------------------------------------------------

# Name: (module, {figure: the reference's}).
CORES = {
    "ternary"      : (lambda: Matmul(1, formats=("ternary",)), {"lut": 1279, "ff": 1389, "bram36": 5, "dsp": 0}),
    "matmul"       : (lambda: Matmul(1), {}),
    "ternary_n4"   : (lambda: Matmul(4, formats=("ternary",)), {}),
    "ternary_n8"   : (lambda: Matmul(8, formats=("ternary",)), {}),
    "matmul_n4"    : (lambda: Matmul(4), {}),
    "matmul_n8"    : (lambda: Matmul(8), {}),
    "matmul_top256": (lambda: Matmul(1, topk_max=256), {}),
    "attention"    : (lambda: Attention(head_dim_max=96, queries_max=1, rows_max=2048), {"lut": 1860, "ff": 3253, "dsp": 18, "bram36": 0.5}),
}
FIGURES = ("lut", "ff", "dsp", "bram36", "levels")


def core_verilog(core, name):
    """Verilog of a core whose ports are all those that its neighbours see."""
    top = Module()
    top.submodules.core = core
    ios = set()
    for endpoint in (core.sink, core.source):
        ios |= {endpoint.valid, endpoint.ready, endpoint.last, endpoint.data}
    ios |= {core.idle, core.error}
    for signal, text in zip((core.sink, core.source), ("sink", "source")):
        for part in ("valid", "ready", "last", "data"):
            getattr(signal, part).name_override = f"{text}_{part}"
    core.idle.name_override, core.error.name_override = "idle", "error"
    return to_verilog(top, ios, name)


def measure(name):
    """({figure: value}, deepest paths) of a core."""
    build, _ = CORES[name]
    netlist  = synthesize(f"core_{name}", core_verilog(build(), f"core_{name}"))
    paths    = netlist.deepest()
    return {**netlist.resources(), "levels": paths[0].levels}, paths


def rows(names):
    for name in names:
        figures, paths = measure(name)
        for figure in FIGURES:
            reference = CORES[name][1].get(figure)
            yield {
                "row"       : f"core.{name}.{figure}",
                "unit"      : figure,
                "reference" : reference,
                "ours"      : figures[figure],
                "ratio"     : round(figures[figure]/reference, 3) if reference else None,
            }, paths

# Main ---------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json",  action="store_true",              help="Print one JSON array of rows.")
    parser.add_argument("--paths", action="store_true",              help="Also print the ten deepest paths of each core.")
    parser.add_argument("cores",   nargs="*", metavar="CORE",        help=f"Cores to measure (default: all): {', '.join(CORES)}.")
    args = parser.parse_args()
    for name in args.cores:
        if name not in CORES:
            parser.error(f"unknown core {name!r}: must be one of {', '.join(CORES)}")
    try:
        table = []
        if not args.json:
            print(f"{'row':<28}{'reference':>10}{'ours':>10}{'ratio':>8}")
        for name in args.cores or CORES:
            for row, paths in rows([name]):
                table.append(row)
                if not args.json:
                    text = lambda value: "-" if value is None else f"{value:g}"
                    print(f"{row['row']:<28}{text(row['reference']):>10}{text(row['ours']):>10}{text(row['ratio']):>8}", flush=True)
            if args.paths and not args.json:
                for path in paths:
                    print(f"    {path.luts} LUT + {path.chains} carry  {path.end}")
        if args.json:
            print(json.dumps(table, indent=2))
    except ValueError as e:
        print(f"resources: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
