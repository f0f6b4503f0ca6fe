#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Ranges of memory: what a lane may touch is checked before it is asked for, in blocks of a full burst."""

from migen import *

from litex.gen import *

from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS, DESCRIPTOR

# Layouts ------------------------------------------------------------------------------------------

ADDRESS_BITS = DESCRIPTOR["address"].width    # Addresses count beats of 8 bytes.
OFFSET_BITS  = log2_int(BURST_BEATS)          # Place of a beat in its block of BURST_BEATS beats.
BLOCK_BITS   = ADDRESS_BITS - OFFSET_BITS
BLOCK_BYTES  = BEAT_BYTES*BURST_BEATS


def range_layout():
    """Blocks `first` … `last`; none where the first lies behind the last."""
    return [("first", BLOCK_BITS), ("last", BLOCK_BITS)]

# Range Check --------------------------------------------------------------------------------------


class RangeCheck(LiteXModule):
    """Tells whether the blocks `first` … `first + more` lie within one of some ranges.

    The sum is a bit wider than an address: what runs over the end of the address space lies in no range.

    Parameters
    ----------
    ranges    : Records of `range_layout()`.
    more_bits : width of `more`, which stays 0 for single blocks.

    first, more : the blocks asked for.
    inside      : the answer, from registers of the cycle after `first` and `more` have come, by comparators and a LUT.
    """
    def __init__(self, ranges, more_bits=1):
        self.first  = first = Signal(BLOCK_BITS)
        self.more   = more  = Signal(more_bits)
        self.inside = Signal()

        # # #

        last = Signal(max(BLOCK_BITS, more_bits) + 1)
        fits = []
        self.sync += last.eq(first + more)
        for range in ranges:
            above = Signal()
            self.sync += above.eq(first >= range.first)
            fits.append(above & (last <= range.last))
        self.comb += self.inside.eq(Reduce("OR", fits))
