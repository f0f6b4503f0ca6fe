#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Heads of bitnet_b1_58-large on the gateware: int8 rows, ternary rows, and a shortlist that int8 rows score.

Verilated lanes beside the model of the memory (bench/wall.py), synthetic weights, every result compared with numpy. The reference streams a
ternary head of 10 MB, which takes 5 ms at the memory's wall.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex")

import sys

import numpy as np

from litetern.bench.bitnet_large import HIDDEN, VOCABULARY
from litetern.bench.table import Row, parser, show
from litetern.model.formats.head import head_bytes, shortlist_of
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, MATMUL_HEADER, TOPK_MAX, row_beats
from litetern.model.numerics import circuits
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import DDR_BYTES_PER_SECOND, RtlPL
from litetern.soc.virtual.pl.workload import Arena, Group
from litetern.soc.virtual.steps import Step

SIZE = 96 << 20

# Steps --------------------------------------------------------------------------------------------


class ScatteredRows:
    """int8 rows from all over a head, a descriptor each: the interface of `Group`."""
    def __init__(self, arena, rng, head, count, columns):
        x      = rng.integers(-127, 128, columns, dtype=np.int8)
        header = MATMUL_HEADER.pack(rows=count, beats=row_beats(columns, FORMAT_INT8), format=FORMAT_INT8, vectors=1)
        rows   = rng.choice(head[1]//columns, count, replace=False)
        self.pieces       = [arena.put(np.concatenate([np.array([header], "<u8").view(np.int8), x]))]
        self.pieces      += [(head[0] + int(row)*columns, columns) for row in rows]
        self.result_bytes = -(-count*4//BEAT_BYTES)*BEAT_BYTES
        weights           = arena.view(head).view(np.int8).reshape(-1, columns)[rows]
        self._words       = np.zeros(self.result_bytes//4, "<i4")
        self._words[:count] = circuits.matmul(weights, x[None])[:, 0]

    def expected(self):
        return self._words.view(np.uint8)


def measure(progress=lambda text: None, vocabulary=VOCABULARY):
    """Rows of the table, for so many rows of the head."""
    pl     = RtlPL(np.zeros(SIZE, dtype=np.uint8), AcceleratorConfig(topk_max=TOPK_MAX))
    driver = Driver(pl)
    count  = shortlist_of(vocabulary)
    rng    = np.random.default_rng(1)

    def milliseconds(name, make):
        progress(name)
        arena = Arena(pl.memory, pl.base)
        step  = Step.of_groups(driver, arena, [[make(arena)] for _ in range(2)])
        return max(outcome.cycles for outcome in step.run())/pl.config.clock_hz*1e3

    def scattered(arena):
        head = arena.put(rng.integers(-127, 128, (vocabulary//2, HIDDEN), dtype=np.int8))
        return ScatteredRows(arena, rng, head, count//2, HIDDEN)

    half   = vocabulary//2
    scores = milliseconds("scores", scattered)
    rows   = []
    for name, bytes, time in (
        ("int8", head_bytes(vocabulary, HIDDEN), milliseconds("int8 head", lambda arena: Group(arena, rng, half, HIDDEN, FORMAT_INT8))),
        ("ternary, 1 plane", head_bytes(vocabulary, HIDDEN, "ternary"), milliseconds("ternary head", lambda arena: Group(arena, rng, half, HIDDEN))),
        *((f"hybrid, {planes} plane{'s'*(planes > 1)}", head_bytes(vocabulary, HIDDEN, "hybrid", planes),
            scores + milliseconds(f"shortlist by {planes}", lambda arena: Group(arena, rng, half, planes*HIDDEN, topk=count)))
            for planes in (1, 2, 3)),
    ):
        wall  = 1e3*bytes/DDR_BYTES_PER_SECOND
        rows += [Row(f"bitnet_large.head {name}: bytes", "MB", None, bytes/1e6), Row(f"bitnet_large.head {name}: time", "ms", wall, time)]
    rows.append(Row(f"bitnet_large.head: of that, {count//2*2} scores", "ms", None, scores))
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    return rows


def main():
    args = parser(__doc__ + "\nThe reference of each time is the memory's wall.").parse_args()
    show(measure(lambda text: print(text, file=sys.stderr)), args.json)


if __name__ == "__main__":
    main()
