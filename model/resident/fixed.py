#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Integers of the resident path: rounding, clipping that is counted, square root and reciprocal.

Everything is numpy int64 here; the widths that the gateware needs stand with each function. Every function works on arrays of any shape.
"""

import numpy as np

SHIFT_MAX = 62  # Larger shifts give what this one gives.

RSQRT_INDEX_BITS = 8
RSQRT_ONE        = 1 << 31
# The first guess of 1/√v by the top 8 bits of v in [2**30, 2**32): uint16, entries 64 … 255 are used.
RSQRT_TABLE = np.zeros(1 << RSQRT_INDEX_BITS, np.int64)
RSQRT_TABLE[64:] = np.rint(RSQRT_ONE/np.sqrt((np.arange(64, 256) + 0.5)*2.0**24))

# Rounding -----------------------------------------------------------------------------------------


def shift_round(x, shift):
    """x/2**shift, rounded to nearest, half up; a negative shift goes left. `shift` broadcasts against x."""
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    right    = np.clip(shift, 0, SHIFT_MAX)
    half     = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    return np.where(shift < 0, x << np.clip(-shift, 0, SHIFT_MAX), (x + half) >> right)


def bit_length(x):
    """Bits of x ≥ 0 (below 2**53): 0 for 0, 3 for 4 … 7."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


class Clip:
    """Limits values to a width and counts what it had to cut.

    counts : {place: values cut}, of all places that were asked for.
    """
    def __init__(self):
        self.counts = {}

    def __call__(self, x, bits, place):
        """x limited to ±(2**(bits − 1) − 1): what a signed register of `bits` holds, but for its most negative value."""
        limit = (1 << (bits - 1)) - 1
        y     = np.clip(x, -limit, limit)
        self.counts[place] = self.counts.get(place, 0) + int(np.count_nonzero(y != x))
        return y

    @property
    def total(self):
        return sum(self.counts.values())

# Square root --------------------------------------------------------------------------------------


def rsqrt(u):
    """1/√u of integers 1 ≤ u < 2**52 as (y, k): 1/√u ≈ y·2**(−31 − k), y in 2**15 − 1 … 2**16 − 1 (16 bits), k signed.

    u is shifted by the even 2k to v in [2**30, 2**32), cut; a table of 192 entries and one Newton step, whose products are 16 × 16,
    17 × 24 and 16 × 18 bits. The relative error stays below 2**-14.
    """
    u = np.asarray(u, np.int64)
    k = (bit_length(u) - 31) >> 1
    v = np.where(k >= 0, u >> np.maximum(2*k, 0), u << np.maximum(-2*k, 0))
    y = RSQRT_TABLE[v >> 24]
    p = ((y*y) >> 15)*(v >> 8)           # ≈ 2**39.
    d = (3*(1 << 39) - p) >> 24          # ≈ 2**16.
    return (y*d) >> 16, k


def reciprocal(d):
    """1/d of integers 1 ≤ d < 2**52 as (r, e): 1/d ≈ r·2**(−46 − e), r in 2**14 − 1 … 2**16 − 1: the square of `rsqrt`."""
    y, k = rsqrt(d)
    return (y*y) >> 16, 2*k
