#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The fp32 operations of a token, exactly: IEEE single, each product and each sum rounded once, no contraction.

Every function works on the last axis, so that any number of vectors (a batch) passes through at once. Sums run in four lanes
(lane j adds elements j, j + 4, …, in order), then (0 + 1) + (2 + 3).

No input, intermediate or result is subnormal, because ARMv7 NEON flushes subnormals and other units do not: stored values below
`TINY` become 0, denominators have a floor, and the argument of exp is bounded.
"""

import numpy as np

from litetern.model.formats.stream import EXPONENT_MAX, SHIFT_MAX, SHIFT_STEP
from litetern.model.numerics.rope import plain

F = np.float32

TINY           = F(2.0**-40)   # Smaller results are stored as 0: their squares and products stay normal.
QUANTISE_FLOOR = F(1e-5)       # Smallest absolute maximum: the BitNet family's rule.
EXP_LIMIT      = F(30.0)       # exp(±30) times two values of TINY is still a normal number.
ROUND_MAGIC    = F(12582912.0) # 1.5·2**23: adding and subtracting it rounds to an integer, half to even.

LOG2_E         = F(1.44269504)
LN2_HIGH       = F(0.693359375)       # 10 bits: n·LN2_HIGH is exact.
LN2_LOW        = F(-2.12194440e-4)
EXP_TERMS      = tuple(F(c) for c in (1/720, 1/120, 1/24, 1/6, 1/2, 1.0, 1.0))  # Taylor: |r| ≤ ln(2)/2.

# Building blocks ----------------------------------------------------------------------------------


def flush(x):
    """Values below `TINY` become 0."""
    return np.where(np.abs(x) < TINY, F(0), x)


def round_even(x):
    """Rounds |x| < 2**22 to the nearest integer, half to even; float32 in and out."""
    return (x + ROUND_MAGIC) - ROUND_MAGIC


def sum_lanes(x):
    """Sum over the last axis (a multiple of 4 long) in four lanes."""
    lanes = np.add.accumulate(x.reshape(*x.shape[:-1], -1, 4), axis=-2, dtype=F)[..., -1, :]
    return (lanes[..., 0] + lanes[..., 1]) + (lanes[..., 2] + lanes[..., 3])


def exp(x):
    """exp of float32, the argument limited to ±30."""
    x = np.minimum(np.maximum(x, -EXP_LIMIT), EXP_LIMIT)
    n = round_even(x*LOG2_E)
    r = (x - n*LN2_HIGH) - n*LN2_LOW
    p = np.full_like(r, EXP_TERMS[0])
    for term in EXP_TERMS[1:]:
        p = p*r + term
    return (np.ascontiguousarray(p).view(np.int32) + (n.astype(np.int32) << 23)).view(F)

# Operations ---------------------------------------------------------------------------------------


def rms_norm(x, gain, eps):
    """x·gain/√(mean(x²) + eps); float32 [..., n], gain float32 [n]."""
    mean  = sum_lanes(x*x)/F(x.shape[-1])
    scale = F(1)/np.sqrt(mean + F(eps))
    return (x*scale[..., None])*gain


def quantise(x):
    """Per-vector absmax int8: (int8 [..., n], float32 [...] step); x ≈ int8·step."""
    maximum = np.maximum(np.abs(x).max(axis=-1), QUANTISE_FLOOR)
    scale   = F(127)/maximum
    return round_even(x*scale[..., None]).astype(np.int8), maximum/F(127)


def quantise_fixed(x, step):
    """int8 of x with a fixed step (KV cache); `step` broadcasts against x."""
    scaled = x*(F(1)/step)
    return round_even(np.minimum(np.maximum(scaled, F(-128)), F(127))).astype(np.int8)


def leaves_int8(x, step):
    """Where `quantise_fixed` clips: bool, true for what rounds to less than −128 or more than 127."""
    scaled = x*(F(1)/step)
    return (scaled < F(-128.5)) | (scaled >= F(127.5))


def dequantise(accumulators, scale):
    """float32(int32)·scale."""
    return accumulators.astype(F)*scale


def residual(x, y):
    return flush(x + y)


def rope(x, cosine, sine):
    """Rotates half-split heads: x float32 [..., heads, head_dim], cosine and sine float32 [head_dim/2] of the position."""
    half = x.shape[-1]//2
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low*cosine - high*sine, high*cosine + low*sine], axis=-1)


def rope_tables(context, head_dim, theta, angles=None):
    """(cosine, sine) float32 [context, head_dim/2]; computed once by the packer and stored in the image.

    angles: `litetern.model.numerics.rope.Angles` where RoPE is scaled; plain ones of theta where None.
    """
    angles       = angles or plain(theta, head_dim)
    cosine, sine = (np.empty((context, head_dim//2), F) for _ in range(2))
    for first in range(0, context, 4096):  # In float64, all at once would take several times the tables.
        tables = angles.tables(range(first, min(first + 4096, context)))
        cosine[first:first + 4096], sine[first:first + 4096] = (flush(table.astype(F)) for table in tables)
    return cosine, sine


def silu(gate, up):
    """gate·sigmoid(gate)·up."""
    sigmoid = F(1)/(F(1) + exp(-gate))
    return flush((gate*sigmoid)*up)


def relu2(gate, up):
    """max(gate, 0)²·up."""
    positive = np.maximum(gate, F(0))
    return flush((flush(positive*positive))*up)


ACTIVATION = {"silu": silu, "relu2": relu2}


def score_multiplier(q_step, k_factor, limit):
    """(int32 mantissa, int32 exponent) of query heads: q_step·k_factor = mantissa·2**(SHIFT_STEP·exponent), rounded.

    The exponent is the smallest with which the mantissa is at most `limit` before it is rounded; where none is large enough, the
    mantissa is `limit` (`multiplier_clips`). k_factor is `k_factor()` of the KV head.
    """
    m        = q_step*k_factor
    exponent = np.zeros(m.shape, np.int32)
    for _ in range(EXPONENT_MAX):
        large     = m > F(limit)
        m         = np.where(large, m*F(2.0**-SHIFT_STEP), m)
        exponent += large
    return round_even(np.minimum(m, F(limit))).astype(np.int32), exponent


def multiplier_clips(q_step, k_factor, limit):
    """Where `score_multiplier` clips: bool."""
    return (q_step*k_factor)*F(2.0**-(SHIFT_STEP*EXPONENT_MAX)) > F(limit)


def k_factor(k_step, head_dim, steps_per_nat):
    """float32 factor of `score_multiplier`: k_step·steps_per_nat·2**SHIFT_MAX/√head_dim."""
    return k_step*F(steps_per_nat*2.0**SHIFT_MAX/np.sqrt(head_dim))


def attention_output(numerators, denominator, v_step):
    """int32 [..., head_dim] numerators over the int32 [...] denominator, in units of v_step."""
    factor = v_step/denominator.astype(F)
    return flush(numerators.astype(F)*factor[..., None])
