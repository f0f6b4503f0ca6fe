#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Int8 lanes: 8 weights a beat times 8 int8 of x, on DSP48s."""

from migen import *

from litex.gen import LiteXModule

from litetern.model.formats.stream import INT8_PER_BEAT

from litetern.cores.common import DATA_WIDTH, AdderTree

# Int8 Lanes ---------------------------------------------------------------------------------------


class Int8Lanes(LiteXModule):
    """One vector's 8 products and their sum.

    Operands, product and sum have registers that the DSP48 absorbs: A and B, M, P.

    x       : Signal(64), 8 int8, lane 0 lowest.
    weights : Signal(64), 8 int8, in the same cycle.
    value   : the sum, `latency` cycles later.
    """
    def __init__(self, weights):
        self.x = x = Signal(DATA_WIDTH)

        # # #

        terms = []
        for lane in range(INT8_PER_BEAT):
            a            = Signal(( 8, True), reset_less=True, name=f"a{lane}")
            b            = Signal(( 8, True), reset_less=True, name=f"b{lane}")
            m            = Signal((16, True), reset_less=True, name=f"m{lane}")
            p            = Signal((16, True), reset_less=True, name=f"p{lane}")
            self.sync   += [
                a.eq(x[8*lane:8*(lane + 1)]),
                b.eq(weights[8*lane:8*(lane + 1)]),
                m.eq(a*b),
                p.eq(m),
            ]
            terms.append(p)
        self.tree    = tree = AdderTree(terms, [(-128*127, 128*128)]*INT8_PER_BEAT)
        self.value   = tree.value
        self.latency = 3 + tree.latency
