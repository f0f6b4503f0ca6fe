#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The integer circuits, exactly: what the gateware and the C cores compute, in numpy."""

from dataclasses import dataclass

import numpy as np

from model.stream import REDUCE_ARGMAX, REDUCE_NONE, REDUCE_TOPK

SCORE_SHIFT     = 22  # Scores are (q·K × m) >> 22: with steps of 1/32 nat the multipliers of real models fill 12 to 17 bits.
MULTIPLIER_BITS = 17  # m is unsigned and feeds the 18-bit signed input of a DSP48.

# Attention parameters -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionParameters:
    """Resolution of the softmax.

    score_bits     : scores are signed integers of so many bits (clamped).
    steps_per_nat  : score steps per natural unit: weight = exp(−steps/steps_per_nat).
    exp_bits       : table entries are unsigned, the largest is 2**exp_bits − 1.
    """
    score_bits    : int = 12
    steps_per_nat : int = 32
    exp_bits      : int = 8

    def __post_init__(self):
        for name, low, high in (("score_bits", 2, 16), ("steps_per_nat", 1, 4096), ("exp_bits", 1, 16)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} = {getattr(self, name)}: must lie in {low} … {high}")

    def exp_table(self):
        """uint16 [256]: weight of a score that lies so many steps below the maximum; further ones take the last entry (0)."""
        table = np.rint((2**self.exp_bits - 1)*np.exp(-np.arange(256)/self.steps_per_nat)).astype(np.uint16)
        if table[-1]:
            raise ValueError(f"exp table of {self}: entry 255 is {table[-1]}, must be 0 (fewer steps_per_nat or exp_bits)")
        return table


ATTENTION = AttentionParameters()

# Matmul -------------------------------------------------------------------------------------------


def matmul(weights, x):
    """int32 [rows, N] = int8 [rows, columns] · int8 [N, columns]ᵀ. Rows are short enough for float64 to be exact."""
    y = np.asarray(weights, dtype=np.float64) @ np.asarray(x, dtype=np.float64).T
    return y.astype(np.int32)


def reduce_rows(y, reduce=REDUCE_NONE, topk=1):
    """Rows that a reduction returns, for each vector: int64 [N, K] indices, best first, of equal values the lower row first."""
    y = np.asarray(y)
    if reduce not in (REDUCE_ARGMAX, REDUCE_TOPK):
        raise ValueError(f"reduction {reduce}: must be {REDUCE_ARGMAX} (arg-max) or {REDUCE_TOPK} (top-K)")
    count = 1 if reduce == REDUCE_ARGMAX else min(topk, len(y))
    return np.argsort(-y.astype(np.int64), axis=0, kind="stable")[:count].T

# Attention ----------------------------------------------------------------------------------------


def scores(q, keys, multiplier, parameters=ATTENTION):
    """int32 [T]: scores of one query. q int8 [head_dim], keys int8 [T, head_dim], multiplier 0 … 2**17 − 1."""
    if not 0 <= multiplier < 2**MULTIPLIER_BITS:
        raise ValueError(f"multiplier {multiplier}: must lie in 0 … {2**MULTIPLIER_BITS - 1}")
    limit = 1 << (parameters.score_bits - 1)
    dots  = np.asarray(keys, dtype=np.int64) @ np.asarray(q, dtype=np.int64)
    return np.clip((dots*int(multiplier)) >> SCORE_SHIFT, -limit, limit - 1).astype(np.int32)


def attention(q, keys, values, multiplier, parameters=ATTENTION):
    """One query over its causal positions: (int32 [head_dim] numerators, int32 denominator, int32 maximum score).

    q int8 [head_dim]; keys, values int8 [T, head_dim], T being the causal length of the query.
    """
    s       = scores(q, keys, multiplier, parameters)
    maximum = s.max()
    e       = parameters.exp_table()[np.minimum(maximum - s, 255)].astype(np.int64)
    return (e @ np.asarray(values, dtype=np.int64)).astype(np.int32), np.int32(e.sum()), np.int32(maximum)
