#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Matrices of the resident path: small integers, a scale per row (or per group of a row), results in fixed point.

    acc[r] = Σ w[r, i]·q[i]                             exact
    c[r]   = mantissa·scale[r] / 2**(shift − exponent)  rounded, at most 17 bits: what one of acc is worth in the result
    y[r]   = acc[r]·c[r] / 2**result_shift              rounded, saturated to the register that takes it

mantissa and its exponent are the step of q (`quantise.Quantised`). A ternary matrix has equal scales in all its rows, so that c is
computed once, by the unit that computes the step; rows with scales of their own cost one multiplier in the stream.
"""

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.planes import levels
from litetern.model.resident.fixed import shift_round
from litetern.model.resident.quantise import RECIPROCAL

# Planes of balanced trits in a weight (model/formats/planes.py), and the largest weight of each format.
PLANES  = {"ternary": 1, "trits2": 2, "trits3": 3}
FORMATS = {**{name: levels(planes) for name, planes in PLANES.items()}, "int4": 7, "int8": 127}

SCALE_BITS        = 16  # Scales are unsigned.
MULTIPLIER_BITS   = 17  # c is unsigned and feeds the 18-bit signed input of a DSP48.
RESULT_SHIFT_MAX  = 24
GROUP_BITS        = 8   # Scales of groups are unsigned, relative to their row's.
STEP_SHIFT        = 38  # Of `Quantised.exponent`.


@dataclass
class Matrix:
    """A matrix and what its results count in.

    weights      : int8 [rows, columns] within ±FORMATS[format].
    format       : of FORMATS.
    scale        : int64 [rows], 1 … 2**16 − 1.
    shift        : int; c = mantissa·scale/2**(shift − exponent).
    result_shift : int, 0 … RESULT_SHIFT_MAX.
    groups       : None, or int64 [rows, columns/group] of 1 … 255: acc is then Σ over groups of groups·Σ w·q.
    """
    weights      : np.ndarray
    format       : str
    scale        : np.ndarray
    shift        : int
    result_shift : int
    groups       : np.ndarray = None

    def __post_init__(self):
        if self.format not in FORMATS:
            raise ValueError(f"format {self.format!r}: must be one of {', '.join(FORMATS)}")
        if np.abs(self.weights.astype(np.int64)).max(initial=0) > FORMATS[self.format]:
            raise ValueError(f"weights beyond ±{FORMATS[self.format]}: format {self.format!r} does not hold them")
        if self.scale.shape != (len(self.weights),) or self.scale.min() < 1 or self.scale.max() >= 1 << SCALE_BITS:
            raise ValueError(f"scales {list(self.scale.shape)}: must be [{len(self.weights)}] of 1 … {(1 << SCALE_BITS) - 1}")
        if not 0 <= self.result_shift <= RESULT_SHIFT_MAX:
            raise ValueError(f"result_shift {self.result_shift}: must lie in 0 … {RESULT_SHIFT_MAX}")
        if self.groups is not None and (self.weights.shape[1] % self.groups.shape[1] or self.groups.shape[0] != len(self.weights)
            or self.groups.min() < 1 or self.groups.max() >= 1 << GROUP_BITS):
            raise ValueError(f"groups {list(self.groups.shape)} of {list(self.weights.shape)} weights: must divide the columns, "
                f"each 1 … {(1 << GROUP_BITS) - 1}")
        rows, columns = self.weights.shape
        # Products of small integers are exact in float, and fast.
        limit      = FORMATS[self.format]*127*columns*(1 if self.groups is None else 1 << GROUP_BITS)
        self.float = np.float32 if limit < 2**24 else np.float64
        weights    = self.weights.astype(self.float)
        if self.groups is not None:
            weights = weights*np.repeat(self.groups, columns//self.groups.shape[1], axis=1).astype(self.float)
        self.transposed = np.ascontiguousarray(weights.T)

    def accumulate(self, q):
        """int64 [..., rows] of q int64 [..., columns]."""
        return (q.astype(self.float) @ self.transposed).astype(np.int64)

    def multiplier(self, mantissa, exponent, clip):
        """c: int64 [..., rows] of a vector's step, int64 [...] each."""
        c = shift_round(mantissa[..., None]*self.scale, (self.shift - exponent)[..., None])
        return clip(c, MULTIPLIER_BITS + 1, "multiplier")

    def results(self, quantised, clip):
        """int64 [..., rows] in the matrix's unit, for the `Quantised` vectors [..., columns]; not yet saturated."""
        c = self.multiplier(quantised.mantissa, quantised.exponent, clip)
        return shift_round(self.accumulate(quantised.q)*c, self.result_shift)


def make_matrix(weights, format, scale, unit, largest, groups=None):
    """Matrix whose results count in `unit`.

    weights : int8 [rows, columns].
    scale   : float [rows] or float: what one weight is worth; √n of the norm before it included.
    unit    : float [rows] or float: what one of y is worth.
    largest : float: an upper bound of the step of q (see `largest_step`), so that c never saturates.
    groups  : see Matrix.
    """
    worth = np.broadcast_to(np.asarray(scale, np.float64)/unit, len(weights))  # Of acc·step, in units of y.
    if not np.all(np.isfinite(worth)) or worth.min() <= 0:
        raise ValueError(f"scales from {worth.min()} to {worth.max()}: must be positive numbers")
    top          = (1 << MULTIPLIER_BITS) - 1
    result_shift = int(np.clip(np.floor(np.log2(top/(worth.max()*largest))), 0, RESULT_SHIFT_MAX))
    fraction     = int(np.floor(np.log2(((1 << SCALE_BITS) - 1)/worth.max())))
    integers     = np.maximum(np.rint(worth*2.0**fraction), 1).astype(np.int64)
    return Matrix(weights, format, integers, fraction + STEP_SHIFT - result_shift, result_shift, groups)


def largest_step(gain_max=None, bits=None):
    """Upper bound of the step of int8 vectors without √n: behind a norm with gains up to `gain_max`, or of integers of `bits` bits."""
    smallest = (RECIPROCAL*np.arange(16, 32)).min()/1024  # The largest |q| is at least this.
    return gain_max*1.01/smallest if bits is None else 2.0**(bits - 1)/smallest
