#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Attention of the resident path: q, K and V are int8 with steps that are fixed for a head, weights come from a table.

    s[t] = (q·K[t]·m) >> SCORE_SHIFT      m: 17 bits, constant of the query head: both steps, 1/√head_dim, 32 steps a natural unit
    e[t] = EXP[min(max(s) − s[t], 255)]   8 bits
    o    = (Σ e·V)·(1/Σ e)                in units of 2**-7 of the layer's largest step of V, 16 bits
"""

import numpy as np

from litetern.model.resident.fixed import reciprocal, shift_round

FRACTION        = 6   # q, k and v leave their matrices in 1/64 of their steps, 16 bits, and are rounded once, after RoPE.
BITS            = 16
SCORE_SHIFT     = 18
STEPS_PER_NAT   = 32
EXP_BITS        = 8
EXP             = np.rint((2**EXP_BITS - 1)*np.exp(-np.arange(256)/STEPS_PER_NAT)).astype(np.int64)
OUTPUT_FRACTION = 7
OUTPUT_BITS     = 16
RATIO_BITS      = 16  # Steps of V relative to the layer's largest: 1 … 2**16.


def attend(q, keys, values, multiplier, ratio):
    """int64 [..., head_dim] outputs of one query each over T positions.

    q            : int64 [..., head_dim].
    keys, values : int64 [..., T, head_dim], of T ≤ 2**16 positions.
    multiplier   : int64 [...], m of the query head.
    ratio        : int64 [...], step of V of its KV head, in 2**-16 of the layer's largest.
    """
    exact       = np.float32 if q.shape[-1] < 1024 else np.float64  # Sums of products below 2**24.
    dots        = (keys.astype(exact) @ q.astype(exact)[..., None])[..., 0].astype(np.int64)
    s           = (dots*multiplier[..., None]) >> SCORE_SHIFT
    e           = EXP[np.minimum(s.max(axis=-1, keepdims=True) - s, len(EXP) - 1)]
    numerators  = (e.astype(np.float64)[..., None, :] @ values.astype(np.float64))[..., 0, :].astype(np.int64)
    r, exponent = reciprocal(e.sum(axis=-1))
    factor      = (r*ratio) >> RATIO_BITS
    return shift_round(numerators*factor[..., None], (46 - OUTPUT_FRACTION + exponent)[..., None])
