#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Ternary lanes: 40 weights a beat times 40 int8 of x, without a multiplier."""

from migen import *

from litex.gen import LiteXModule

from litetern.model.formats.stream import BEAT_BYTES, TERNARY_PER_BEAT, TRITS_PER_BYTE
from litetern.model.formats.trits import DECODE

from litetern.cores.common import DATA_WIDTH, AdderTree

# Ternary Decoder ----------------------------------------------------------------------------------


class TernaryDecoder(LiteXModule):
    """Beat of 8 bytes → 40 × (zero, sign), one cycle later, for all vectors.

    The table of `litetern.model.formats.trits` sits in block RAM, one dual-port ROM for two bytes: in LUTs it would be a third of the core.
    """
    def __init__(self):
        self.beat = beat = Signal(DATA_WIDTH)
        self.zero = zero = Signal(TERNARY_PER_BEAT)  # The weight is 0.
        self.sign = sign = Signal(TERNARY_PER_BEAT)  # The weight is −1.

        # # #

        table = [sum((int(t == 0) << i) | (int(t < 0) << (TRITS_PER_BYTE + i)) for i, t in enumerate(trits)) for trits in DECODE.tolist()]
        for pair in range(BEAT_BYTES//2):
            rom      = Memory(2*TRITS_PER_BYTE, len(table), init=table, name=f"decode{pair}")
            rom.attr = {("ram_style", "block")}
            self.specials += rom
            for byte in (2*pair, 2*pair + 1):
                port           = rom.get_port(mode=READ_FIRST)
                lanes          = slice(byte*TRITS_PER_BYTE, (byte + 1)*TRITS_PER_BYTE)
                self.specials += port
                self.comb     += [
                    port.adr.eq(beat[8*byte:8*(byte + 1)]),
                    zero[lanes].eq(port.dat_r[:TRITS_PER_BYTE]),
                    sign[lanes].eq(port.dat_r[TRITS_PER_BYTE:]),
                ]

# Ternary Lanes ------------------------------------------------------------------------------------


class TernaryLanes(LiteXModule):
    """One vector's 40 products and their sum.

    A zero weight clears the register behind its x (the flip-flop's own reset, no LUT), a −1 turns additions of the tree into
    subtractions (see `AdderTree`): the tree costs one LUT a bit, and the lanes nothing.

    x             : Signal(320), 40 int8, lane 0 lowest.
    zero, sign    : from the decoder, in the same cycle as `x`.
    value, negate : the sum, `latency` cycles later.
    """
    def __init__(self, zero, sign):
        self.x = x = Signal(8*TERNARY_PER_BEAT)

        # # #

        terms, signs = [], []
        for lane in range(TERNARY_PER_BEAT):
            term         = Signal((8, True), reset_less=True, name=f"term{lane}")
            negative     = Signal(reset_less=True, name=f"negative{lane}")
            self.sync   += [
                term.eq(x[8*lane:8*(lane + 1)]),
                If(zero[lane], term.eq(0)),
                negative.eq(sign[lane]),
            ]
            terms.append(term)
            signs.append(negative)
        self.tree    = tree = AdderTree(terms, [(-128, 127)]*TERNARY_PER_BEAT, signs)
        self.value   = tree.value
        self.negate  = tree.negate
        self.latency = 1 + tree.latency
