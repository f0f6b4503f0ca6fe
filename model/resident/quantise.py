#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Norm and dynamic int8 of a vector: what stands before every matrix.

A norm multiplies a vector by one number, and the int8 that follows divides by another, its largest value. So the int8 depend on
neither: only their step does. The square root is taken while the matrix already runs.

    z = X·gain    m = max|z|    q = z·(about 127/m)    step = (about m/127)·√n/√(ΣX² + n·eps)

"About" is one of 16 reciprocals, chosen by the leading bits of m, so that no division is needed; the largest |q| lies in 119 … 127.
"""

from dataclasses import dataclass

import numpy as np

from litetern.model.resident.fixed import bit_length, rsqrt, shift_round

GAIN_BITS     = 12       # Gains are int16 in units of 2**-12: ±7.99.
INDEX_BITS    = 4        # Bits of m below its leading one that choose the reciprocal.
RSQRT_OF_NONE = (1 << 16, -15)  # 1 in the form of `rsqrt`, where there is no norm.

# q = (z·RECIPROCAL[i]) >> (L + 5), rounded, for a maximum of L bits whose next bits are i: never above 127. 13 bits.
RECIPROCAL = (127 << 10)//(np.arange(16, 32) + 1)
# The step of q in units of z is STEP[i]·2**(L + 5 − 27): 16 bits.
STEP       = np.rint(2.0**27/RECIPROCAL).astype(np.int64)

NORMS = ("none", "rms", "layer")


@dataclass
class Quantised:
    """int8 of vectors [..., n] and their step.

    q        : int64 [..., n] of −127 … 127.
    mantissa : int64 [...], below 2**17.
    exponent : int64 [...]: the step is mantissa·2**(exponent − 38), apart from √n, and in units of X where there is no norm.
    """
    q        : np.ndarray
    mantissa : np.ndarray
    exponent : np.ndarray


def inverse_of(n):
    """(integer of at most 24 bits, shift): 1/n ≈ integer/2**shift."""
    shift = 23 + (n - 1).bit_length()
    return round(2**shift/n), shift


def center(x):
    """x [..., n] minus its mean, which is rounded: Σx·inverse >> shift."""
    inverse, shift = inverse_of(x.shape[-1])
    return x - shift_round(x.sum(axis=-1, keepdims=True)*inverse, shift)


def quantise(x, gain=None, norm="none", eps=1):
    """`Quantised` of integers x [..., n] of at most 18 bits.

    gain : int64 [n] in units of 2**-GAIN_BITS; None without a norm.
    norm : of NORMS; "layer" subtracts the mean first.
    eps  : int ≥ 1, n·epsilon in units of x²: keeps the square root away from 0.
    """
    x = np.asarray(x, np.int64)
    if norm == "layer":
        x = center(x)
    z = x if norm == "none" else shift_round(x*gain, GAIN_BITS)
    m = np.abs(z).max(axis=-1)
    L = np.maximum(bit_length(m), INDEX_BITS + 1)
    i = np.maximum(m >> (L - INDEX_BITS - 1), 16) - 16  # A maximum below 16 is treated as 16.
    q = shift_round(z*RECIPROCAL[i][..., None], (L + 5)[..., None])
    y, k = RSQRT_OF_NONE if norm == "none" else rsqrt((x*x).sum(axis=-1) + eps)
    return Quantised(q, (STEP[i]*y) >> 15, L - k)
