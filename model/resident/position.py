#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""RoPE of the resident path: an angle is 24 bits of a turn, sine and cosine come from a quarter wave of 1,024 entries.

No table grows with the window: the image holds one increment per pair of elements, the angle is position·increment.
"""

import numpy as np

from litetern.model.resident.fixed import shift_round

ANGLE_BITS = 24
INDEX_BITS = 12                     # Of a turn; the last 10 address the quarter wave.
QUARTER    = 1 << (INDEX_BITS - 2)
WAVE_BITS  = 14                     # Entries are in units of 2**-14.
WAVE       = np.rint(2**WAVE_BITS*np.sin((np.arange(QUARTER) + 0.5)*np.pi/(2*QUARTER))).astype(np.int64)


def increments(head_dim, theta):
    """int64 [head_dim/2]: angle per position of each pair, in 2**-24 turns."""
    return np.rint(2**ANGLE_BITS/(2*np.pi)*float(theta)**(-np.arange(0, head_dim, 2)/head_dim)).astype(np.int64)


def sine(index):
    """Sine at (index + 1/2)/4096 turns, of the low 12 bits of `index`."""
    quarter, i = (index >> (INDEX_BITS - 2)) & 3, index & (QUARTER - 1)
    value      = WAVE[np.where(quarter & 1, QUARTER - 1 - i, i)]
    return np.where(quarter & 2, -value, value)


def rotation(position, steps):
    """(cosine, sine) int64 [head_dim/2] of a position ≥ 0; steps from `increments`."""
    index = ((position*steps) & ((1 << ANGLE_BITS) - 1)) >> (ANGLE_BITS - INDEX_BITS)
    return sine(index + QUARTER), sine(index)


def rotate(x, cosine, sine, shift):
    """Half-split rotation of int64 x [..., head_dim] of 16 bits, divided by 2**shift and rounded once."""
    half      = x.shape[-1]//2
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([shift_round(low*cosine - high*sine, WAVE_BITS + shift),
        shift_round(high*cosine + low*sine, WAVE_BITS + shift)], axis=-1)
