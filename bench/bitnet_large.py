#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The fabric's part of a token of bitnet_b1_58-large (synthetic weights, ternary head), in the real order.

One doorbell per lane and step, each lane half of the rows or heads: per layer q+k+v, attention, o, gate+up, down; then the head.
Times are cycles of the virtual board at 125 MHz, writes of results included; every result is compared with numpy. Results go to the
on-chip memory, as the firmware has it where they fit (all of this model's do): that takes nothing from the DDR's bandwidth. In rows
with _ddr they go to the DDR.

The _ratio rows tell what eight vectors cost that share one pass over the weights: matmuls of N = 8 over those of N = 1 on the same
gateware (without the attention core). With _acp, results go to coherent memory beside the DDR: it holds 256 KB, as the on-chip memory
does and half of the L2 cache; a step with more results (the head's, 1 MB) takes several doorbells.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex")

import sys

import numpy as np

from litetern.bench.table import Row, parser, show
from litetern.model.formats.shapes import SHAPES
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import OCM_BASE, OCM_BYTES, RtlPL
from litetern.soc.virtual.pl.workload import Arena, Group, Head
from litetern.soc.virtual.steps import Step

HIDDEN, FFN, LAYERS, HEADS, HEAD_DIM, VOCABULARY = (getattr(SHAPES["bitnet_b1_58-large"], name)
    for name in ("hidden", "ffn", "layers", "heads", "head_dim", "vocab"))

# (rows, columns) of a layer's matmul groups.
LAYER = ((3*HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (2*FFN, HIDDEN), (HIDDEN, FFN))

SIZE         = 64 << 20
BATCH_CONFIG = AcceleratorConfig(vectors_max=8, formats=("ternary",), attention=None)

# Steps --------------------------------------------------------------------------------------------


def results_arena(pl, on_chip):
    """Where the results of a step go: each may take all of the on-chip memory."""
    return Arena(pl.ocm, OCM_BASE) if on_chip else None


def matmul_steps(driver, arena, rng, rows, columns, vectors=1, on_chip=False):
    """Steps of a matrix, each lane half of its rows; several where the results do not fit into the on-chip memory at once."""
    parts = -(-4*rows*vectors//OCM_BYTES) if on_chip else 1
    cuts  = np.linspace(0, rows//2, parts + 1).astype(int)
    return [Step.of_groups(driver, arena, [[Group(arena, rng, int(count), columns, vectors=vectors)] for _ in range(2)],
        results_arena(driver.pl, on_chip)) for count in np.diff(cuts)]

# Token --------------------------------------------------------------------------------------------


class Token:
    """The steps of a token. One layer's memory serves for all of them: addresses are all that the fabric could tell apart."""
    def __init__(self, pl, context, on_chip=False):
        driver, arena  = Driver(pl), Arena(pl.memory, pl.base)
        rng            = np.random.default_rng(1)
        self.pl        = pl
        self.matmuls   = [step for rows, columns in LAYER for step in matmul_steps(driver, arena, rng, rows, columns, on_chip=on_chip)]
        self.head      = matmul_steps(driver, arena, rng, VOCABULARY, HIDDEN, on_chip=on_chip)
        self.attention = Step.of_heads(driver, arena, [[Head(arena, rng, context, HEAD_DIM, buffer=i % 2) for i in range(HEADS//2)]
            for _ in range(2)], results_arena(pl, on_chip))

    def milliseconds(self, cycles):
        return cycles/self.pl.config.clock_hz*1e3

    def run(self, progress=lambda text: None):
        """Milliseconds (matmul, attention, whole): the parts from doorbell to last acknowledged result, the whole with all between."""
        cycles  = {"matmul": 0, "attention": 0}
        elapsed = 0
        for layer in range(LAYERS):
            progress(f"layer {layer + 1} of {LAYERS}")
            for step in (self.matmuls[0], self.attention, *self.matmuls[1:], *(self.head if layer == LAYERS - 1 else [])):
                cycles[step.core] += max(outcome.cycles for outcome in step.run())
                elapsed           += step.elapsed
        return tuple(map(self.milliseconds, (cycles["matmul"], cycles["attention"], elapsed)))

    def attention_only(self):
        """Milliseconds of the attention part."""
        return self.milliseconds(sum(max(outcome.cycles for outcome in self.attention.run()) for _ in range(LAYERS)))

# Batch --------------------------------------------------------------------------------------------


def matmul_cycles(pl, vectors, on_chip):
    """Cycles of all matmuls of a pass for so many vectors. Layers are all the same to the fabric: one is run, and counted 24 times."""
    driver, arena = Driver(pl), Arena(pl.memory, pl.base)
    rng   = np.random.default_rng(2)
    total = 0
    for rows, columns, times in (*((*shape, LAYERS) for shape in LAYER), (VOCABULARY, HIDDEN, 1)):
        for step in matmul_steps(driver, arena, rng, rows, columns, vectors, on_chip):
            total += times*max(outcome.cycles for outcome in step.run())
    return total


def measure_batch(progress=lambda text: None):
    """The _ratio rows."""
    pl   = RtlPL(np.zeros(SIZE, dtype=np.uint8), BATCH_CONFIG, ocm=np.zeros(OCM_BYTES, dtype=np.uint8), name="pl_batch")
    rows = []
    for suffix, on_chip in (("", False), ("_acp", True)):
        progress(f"one vector and eight, results to {'on-chip memory' if on_chip else 'DDR'}")
        one, eight = (matmul_cycles(pl, vectors, on_chip) for vectors in (1, 8))
        rows.append(Row(f"bitnet_large.matmul_n8_ratio{suffix}", "of N = 1", None, eight/one))
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    return rows

# Rows ---------------------------------------------------------------------------------------------


def measure(progress=lambda text: None):
    """All rows."""
    pl   = RtlPL(np.zeros(SIZE, dtype=np.uint8), AcceleratorConfig(), ocm=np.zeros(OCM_BYTES, dtype=np.uint8))
    rows = []
    for suffix, on_chip in (("", True), ("_ddr", False)):
        matmul, attention, whole = Token(pl, 512, on_chip).run(progress)
        rows += [
            Row(f"bitnet_large.matmul{suffix}_ms",        "ms", 76.87, matmul),
            Row(f"bitnet_large.attention_512{suffix}_ms", "ms", 20.22, attention),
            Row(f"bitnet_large.attention_64{suffix}_ms",  "ms", None,  Token(pl, 64, on_chip).attention_only()),
            Row(f"bitnet_large.token_512{suffix}_ms",     "ms", 98.57, whole),
        ]
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    return rows + measure_batch(progress)


def main():
    p    = parser(__doc__)
    p.add_argument("--batch", action="store_true", help="Only the rows of eight vectors against one.")
    args = p.parse_args()

    def progress(text):
        if not args.json:
            print(f"{text} …", file=sys.stderr)
    show((measure_batch if args.batch else measure)(progress), args.json)


if __name__ == "__main__":
    main()
