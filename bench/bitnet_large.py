#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The fabric's part of a token of bitnet_b1_58-large (synthetic weights, ternary head), in the real order.

One doorbell per lane and step, each lane half of the rows or heads: per layer q+k+v, attention, o, gate+up, down; then the head.
Times are cycles of the virtual board at 125 MHz, writes of results included; every result is compared with numpy. Rows with _ocm
write results to the on-chip memory (256 KB), which takes nothing from the DDR's bandwidth.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from model import environment; environment.enter("numpy", "litex")

import sys

import numpy as np

from bench.table import Row, parser, show
from soc.accelerator import AcceleratorConfig
from soc.virtual.driver import Driver
from soc.virtual.pl import OCM_BASE, OCM_BYTES, RtlPL
from soc.virtual.steps import Step
from soc.virtual.workload import Arena, Group, Head

HIDDEN, FFN, LAYERS, HEADS, HEAD_DIM, VOCABULARY = 1536, 4096, 24, 16, 96, 32002

# (rows, columns) of a layer's matmul groups.
LAYER = ((3*HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (2*FFN, HIDDEN), (HIDDEN, FFN))

SIZE = 64 << 20

# Token --------------------------------------------------------------------------------------------


class Token:
    """The steps of a token. One layer's memory serves for all of them: addresses are all that the fabric could tell apart."""
    def __init__(self, pl, context, on_chip=False):
        driver, arena = Driver(pl), Arena(pl.memory, pl.base)
        rng = np.random.default_rng(1)

        def results():
            return Arena(pl.ocm, OCM_BASE) if on_chip else None  # Each step's results may take all of it.

        def matmul(rows, columns):
            return Step.of_groups(driver, arena, [[Group(arena, rng, rows//2, columns)] for _ in range(2)], results())
        self.pl        = pl
        self.matmuls   = [matmul(rows, columns) for rows, columns in LAYER]
        self.head      = matmul(VOCABULARY, HIDDEN)
        self.attention = Step.of_heads(driver, arena, [[Head(arena, rng, context, HEAD_DIM, buffer=i % 2) for i in range(HEADS//2)]
            for _ in range(2)], results())

    def milliseconds(self, cycles):
        return cycles/self.pl.config.clock_hz*1e3

    def run(self, progress=lambda text: None):
        """Milliseconds (matmul, attention, whole): the parts from doorbell to last acknowledged result, the whole with all between."""
        cycles  = {"matmul": 0, "attention": 0}
        elapsed = 0
        for layer in range(LAYERS):
            progress(f"layer {layer + 1} of {LAYERS}")
            for step in (self.matmuls[0], self.attention, *self.matmuls[1:], *([self.head] if layer == LAYERS - 1 else [])):
                cycles[step.core] += max(outcome.cycles for outcome in step.run())
                elapsed           += step.elapsed
        return tuple(map(self.milliseconds, (cycles["matmul"], cycles["attention"], elapsed)))

    def attention_only(self):
        """Milliseconds of the attention part."""
        return self.milliseconds(sum(max(outcome.cycles for outcome in self.attention.run()) for _ in range(LAYERS)))

# Rows ---------------------------------------------------------------------------------------------


def measure(progress=lambda text: None):
    pl   = RtlPL(np.zeros(SIZE, dtype=np.uint8), AcceleratorConfig(), ocm=np.zeros(OCM_BYTES, dtype=np.uint8))
    rows = []
    for suffix, on_chip in (("", False), ("_ocm", True)):
        matmul, attention, whole = Token(pl, 512, on_chip).run(progress)
        rows += [
            Row(f"bitnet_large.matmul{suffix}_ms",        "ms", 76.87, matmul),
            Row(f"bitnet_large.attention_512{suffix}_ms", "ms", 20.22, attention),
            Row(f"bitnet_large.attention_64{suffix}_ms",  "ms", None,  Token(pl, 64, on_chip).attention_only()),
            Row(f"bitnet_large.token_512{suffix}_ms",     "ms", 98.57, whole),
        ]
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    return rows


def main():
    args = parser(__doc__).parse_args()
    show(measure(lambda text: args.json or print(f"{text} …", file=sys.stderr)), args.json)


if __name__ == "__main__":
    main()
