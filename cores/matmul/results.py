#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The way out of the matmul core: rows of accumulators → int32 results, two a beat."""

from migen import *

from litex.gen import LiteXModule
from litex.soc.interconnect import stream

from litetern.cores.common import data_layout, sign_extended

RESULT_WIDTH = 32


def row_layout(vectors, width, reductions=False):
    """A finished row: one value a vector. The last row of a group carries `last`."""
    layout = [("values", vectors*width)]
    if vectors > 1:
        layout += [("vectors_log2", 2)]
    if reductions:
        layout += [("reduce", 2), ("topk", 9)]
    return layout

# Row Packer ---------------------------------------------------------------------------------------


class RowPacker(LiteXModule):
    """Packs rows into beats: ``y[row, vector]`` in row-major order, two a beat, the last beat of a group zero-padded.

    One vector: a beat every second row. 2, 4, 8 vectors: 1, 2, 4 beats a row.
    """
    def __init__(self, vectors, width, reductions=False):
        self.sink   = sink   = stream.Endpoint(row_layout(vectors, width, reductions))
        self.source = source = stream.Endpoint(data_layout())
        self.idle   = idle   = Signal()  # No half of a beat waits for the next row.

        # # #

        values = [sign_extended(sink.values[width*v:width*(v + 1)], RESULT_WIDTH) for v in range(vectors)]
        first  = Signal(RESULT_WIDTH)
        comb   = self.comb
        comb  += first.eq(values[0])

        # One vector: hold every other row ----------------------------------------------------------

        half   = Signal()
        held   = Signal(width, reset_less=True)
        single = [
            source.valid.eq(sink.valid & (half | sink.last)),
            source.last.eq(sink.last),
            source.data.eq(Cat(first, C(0, RESULT_WIDTH))),
            If(half, source.data.eq(Cat(sign_extended(held, RESULT_WIDTH), first))),
            sink.ready.eq(source.ready | ~(half | sink.last)),
        ]
        one        = C(1) if vectors == 1 else (sink.vectors_log2 == 0)
        self.sync += If(sink.valid & sink.ready & one,
            held.eq(sink.values[:width]),
            half.eq(~half & ~sink.last),
        )
        comb      += idle.eq(~half)
        if vectors == 1:
            comb += single
            return

        # Several: a beat for each pair of vectors --------------------------------------------------

        pairs = vectors//2
        pair  = Signal(max=max(pairs, 2))
        final = Signal()
        data  = Signal(2*RESULT_WIDTH)
        comb += [
            final.eq(pair == (1 << sink.vectors_log2)[1:] - 1) if pairs > 1 else final.eq(1),
            Case(pair, {p: data.eq(Cat(values[2*p], values[2*p + 1])) for p in range(pairs)}),
            If(one,
                *single,
            ).Else(
                source.valid.eq(sink.valid),
                source.last.eq(sink.last & final),
                source.data.eq(data),
                sink.ready.eq(source.ready & final),
            ),
        ]
        self.sync += If(source.valid & source.ready & ~one,
            pair.eq(pair + 1),
            If(final, pair.eq(0)),
        )
