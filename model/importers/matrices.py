#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Matrices of files as (int8 [out, in], scale): floats by the rule of their family, and packed trits.

Rules for floats:

"absmean" : the BitNet family's own, applied to the latent weights on every pass of training.
"trits"   : they already are scale × −1, 0, +1, with one scale or several (`any_ternary`); anything else is an error.
"int8"    : each row by its absolute maximum.
"float"   : as they are, to state what the others cost.
"""

from dataclasses import dataclass

import numpy as np

from litetern.model.numerics.quantised import absmax_rows, absmean_ternary

TWO_BIT_INVALID = 3  # Codes of two bits are w + 1: 0, 1, 2.

# Floats -------------------------------------------------------------------------------------------


def exact_ternary(weights):
    """(int8, float32 scale) of floats that are scale × −1, 0, +1 to the bit; None for others."""
    scale = np.float32(np.abs(weights).max())
    trits = np.sign(weights).astype(np.int8)
    return (trits, scale) if scale and np.array_equal(trits*scale, weights) else None


@dataclass(frozen=True)
class Columns:
    """float32 [in] scales of a matrix whose columns have them: `litetern.model.importers.assemble` gives them to what stands before it."""
    scales : np.ndarray


def ternary_rows(weights):
    """(int8, float32 [out] scales) of floats whose rows each are scale × −1, 0, +1 to the bit; None for others."""
    scales = np.abs(weights).max(axis=1, initial=0)
    trits  = np.sign(weights).astype(np.int8)
    if not scales.any() or not np.array_equal(trits*scales[:, None], weights):
        return None
    return trits, np.where(scales > 0, scales, scales.max()).astype(np.float32)


def any_ternary(weights):
    """(int8, scale) of floats that are ternary to the bit: one float32 scale, float32 [out] of rows, or `Columns`; None for others.

    Models trained on several devices have a scale for the share of each: blocks of rows or, of o and down, of columns.
    """
    result = exact_ternary(weights) or ternary_rows(weights)
    if result is None and (columns := ternary_rows(weights.T)) is not None:
        result = np.ascontiguousarray(columns[0].T), Columns(columns[1])
    return result


def from_float(weights, rule, name):
    """(int8, scale) of a float32 [out, in] matrix by a rule ("float": float32 and 1); `name` is for the error."""
    if rule == "absmean":
        return absmean_ternary(weights)
    if rule == "int8":
        return absmax_rows(weights)
    if rule == "float":
        return weights, np.float32(1)
    result = any_ternary(weights)
    if result is None:
        sizes = len(np.unique(np.abs(weights[weights != 0])))
        raise ValueError(f"tensor {name} has weights of {sizes} sizes: those of a ternary checkpoint "
            "are all -s, 0 or +s, or those of each row or column")
    return result

# Packed -------------------------------------------------------------------------------------------


def from_two_bits(packed, rows, name):
    """int8 [rows, in] of uint8 [⌈rows/4⌉, in]: bits 2i, 2i + 1 of packed[r] hold row i·⌈rows/4⌉ + r."""
    quarter = -(-rows//4)
    trits   = np.empty((4, quarter, packed.shape[1]), np.int8)
    for i in range(4):
        codes = (packed >> (2*i)) & 3
        if (codes == TWO_BIT_INVALID).any():
            raise ValueError(f"tensor {name} holds the code 3: two bits of a ternary weight are 0, 1 or 2")
        np.subtract(codes.view(np.int8), 1, out=trits[i])
    return trits.reshape(4*quarter, -1)[:rows]


def from_i2_s(data, shape, name):
    """(int8 [out, in], float32 scale) of an I2_S tensor: 128 weights in 32 bytes, its scale (float32) behind the last.

    The bit pairs of byte j, highest first, are elements j, j + 32, j + 64, j + 96; codes are w + 1.
    """
    count  = shape[0]*shape[1]
    blocks = np.asarray(data[:count//4], np.uint8).reshape(-1, 1, 32)
    codes  = (blocks >> np.array([6, 4, 2, 0], np.uint8)[:, None]) & 3
    if (codes == TWO_BIT_INVALID).any():
        raise ValueError(f"tensor {name} holds the code 3: two bits of a ternary weight are 0, 1 or 2")
    scale = np.frombuffer(np.asarray(data[count//4:count//4 + 4], np.uint8).tobytes(), "<f4")[0]
    return codes.reshape(shape).view(np.int8) - np.int8(1), check_scale(scale, name)


def check_scale(scale, name):
    """float32 of a stored scale; ValueError for what cannot be one."""
    scale = np.float32(np.asarray(scale).reshape(-1)[0]) if np.size(scale) == 1 else None
    if scale is None or not np.isfinite(scale) or scale <= 0:
        raise ValueError(f"scale of tensor {name}: must be one positive number")
    return scale
