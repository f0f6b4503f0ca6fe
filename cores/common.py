#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Layouts and small circuits that several cores share."""

from migen import *

from litex.gen import LiteXModule

from litetern.model.formats.stream import BEAT_BYTES

# Layouts ------------------------------------------------------------------------------------------

DATA_WIDTH = 8*BEAT_BYTES


def data_layout():
    """A beat of every stream between memory and a core."""
    return [("data", DATA_WIDTH)]

# Helpers ------------------------------------------------------------------------------------------


def signed_bits(low, high):
    """Bits of a two's complement number that holds low … high."""
    return 1 + max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length())


def delayed(module, signal, cycles):
    """`signal` so many cycles later; without a reset, so that it fits a shift-register LUT."""
    for _ in range(cycles):
        later        = Signal.like(signal, reset_less=True)
        module.sync += later.eq(signal)
        signal       = later
    return signal


def sign_extended(signal, width):
    """`signal` repeated at its sign to `width` bits, as an unsigned expression."""
    return Cat(signal, Replicate(signal[-1], width - len(signal))) if width > len(signal) else signal[:width]


def add_or_subtract(module, left, right, negate, width):
    """Signal(width) = left ± right (two's complement) on one carry chain, one LUT a bit.

    The carry enters through an extra lowest bit (1 + negate), which every tool maps to the chain.
    """
    total = Signal(width + 1)
    module.comb += total.eq(
        Cat(C(1, 1), sign_extended(left, width)) + Cat(negate, sign_extended(right, width) ^ Replicate(negate, width)))
    return total[1:]

# Adder Tree ---------------------------------------------------------------------------------------


class AdderTree(LiteXModule):
    """Sum of signed terms, a register after each level; a term may come with a sign of its own.

    Negating a term costs nothing: a node holds ``value`` and ``negate``, adds or subtracts by whether the signs of its two terms
    differ, and hands on the sign of the left one. Only the last consumer has to apply the sign that comes out.

    terms  : list of signed Signals.
    ranges : (low, high) of each term.
    signs  : list of Signals (1: subtract the term), or None where there are none.

    value, negate : result ``-value`` where `negate`, else ``value``, `latency` cycles after the terms; `negate` is 0 without signs.
    """
    def __init__(self, terms, ranges, signs=None):
        nodes        = [(terms[i], *ranges[i], signs[i] if signs else None) for i in range(len(terms))]
        self.latency = 0

        # # #

        while len(nodes) > 1:
            level = []
            for i in range(0, len(nodes) - 1, 2):
                level.append(self._add(nodes[i], nodes[i + 1]))
            if len(nodes) % 2:
                level.append(self._hold(nodes[-1]))
            nodes         = level
            self.latency += 1
        self.value, self.low, self.high, negate = nodes[0]
        self.negate = negate if signs else C(0, 1)

    def _add(self, left, right):
        (a, a_low, a_high, a_sign), (b, b_low, b_high, b_sign) = left, right
        low, high = a_low + b_low, a_high + b_high
        if a_sign is not None:
            low, high = min(low, a_low - b_high), max(high, a_high - b_low)
        width = signed_bits(low, high)
        value = Signal((width, True), reset_less=True)
        if a_sign is None:
            self.sync += value.eq(a + b)
            return value, low, high, None
        self.sync += value.eq(add_or_subtract(self, a, b, a_sign ^ b_sign, width))
        return value, low, high, delayed(self, a_sign, 1)

    def _hold(self, node):
        value, low, high, sign = node
        return delayed(self, value, 1), low, high, None if sign is None else delayed(self, sign, 1)
