#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The integer circuits, exactly: what the gateware and the C cores compute, in numpy."""

import functools

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.stream import EXPONENT_MAX, MANTISSA_BITS_MAX, REDUCE_ARGMAX, REDUCE_NONE, REDUCE_TOPK, SHIFT_MAX, SHIFT_STEP

EXP_ENTRIES  = 256
EXP_FRACTION = 32  # Bits behind the point of the powers that the exp table is made of …
EXP_GUARD    = 24  # … and further ones of their ratio's series.

# Attention parameters -----------------------------------------------------------------------------


ATTENTION_LIMITS = {"score_bits": (2, 16), "steps_per_nat": (1, 4096), "exp_bits": (1, 16), "mantissa_bits": (8, MANTISSA_BITS_MAX)}


@dataclass(frozen=True)
class AttentionParameters:
    """Resolution of the softmax.

    score_bits     : scores are signed integers of so many bits (clamped).
    steps_per_nat  : score steps per natural unit: weight = exp(−steps/steps_per_nat).
    exp_bits       : table entries are unsigned, the largest is 2**exp_bits − 1.
    mantissa_bits  : mantissas of multipliers are unsigned; 17 bits feed the 18-bit signed input of one DSP48.
    """
    score_bits    : int = 16
    steps_per_nat : int = 32
    exp_bits      : int = 8
    mantissa_bits : int = 17

    def __post_init__(self):
        for name, (low, high) in ATTENTION_LIMITS.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} = {getattr(self, name)}: must lie in {low} … {high}")
        last = self.exp_table()[-1]
        if last:
            raise ValueError(f"exp table of {self}: entry {EXP_ENTRIES - 1} is {last}, must be 0 (fewer steps_per_nat or exp_bits)")

    @property
    def mantissa_max(self):
        return 2**self.mantissa_bits - 1

    @functools.cache
    def exp_table(self):
        """uint16 [256]: weight of a score that lies so many steps below the maximum; further ones take the last entry (0).

        Powers of exp(−1/steps_per_nat), whose series is summed in integers: no library's exp decides a bit, and firmware/numerics/softmax.c
        computes the same.
        """
        one, ratio, term, k = 1 << EXP_FRACTION, 0, 1 << EXP_FRACTION + EXP_GUARD, 0
        while term:
            ratio += -term if k % 2 else term
            k     += 1
            term //= k*self.steps_per_nat
        ratio >>= EXP_GUARD
        table, power = np.zeros(EXP_ENTRIES, np.uint16), one
        for i in range(EXP_ENTRIES):
            table[i] = (power*(2**self.exp_bits - 1) + one//2) >> EXP_FRACTION
            power    = (power*ratio + one//2) >> EXP_FRACTION
        table.flags.writeable = False  # It is kept.
        return table


ATTENTION = AttentionParameters()

# Matmul -------------------------------------------------------------------------------------------


def matmul(weights, x, largest=128):
    """int32 [rows, N] = [rows, columns] · int8 [N, columns]ᵀ.

    weights: whole numbers up to `largest` in any type; float32 ones are spared a copy where its 24 bits hold every sum. Rows are short
    enough for float64 to be exact.
    """
    x     = np.asarray(x)
    exact = np.float32 if x.shape[-1]*128*largest < 2**24 else np.float64
    return (x.astype(exact) @ np.asarray(weights).astype(exact, copy=False).T).astype(np.int32).T


def reduce_rows(y, reduce=REDUCE_NONE, topk=1):
    """Rows that a reduction returns, for each vector: int64 [N, K] indices, best first, of equal values the lower row first."""
    y = np.asarray(y)
    if reduce not in (REDUCE_ARGMAX, REDUCE_TOPK):
        raise ValueError(f"reduction {reduce}: must be {REDUCE_ARGMAX} (arg-max) or {REDUCE_TOPK} (top-K)")
    count = 1 if reduce == REDUCE_ARGMAX else min(topk, len(y))
    keys  = np.arange(len(y)) - y.T.astype(np.int64)*len(y)  # No two are equal: the best are found without sorting all.
    rows  = np.argpartition(keys, count - 1, axis=-1)[..., :count]
    return np.take_along_axis(rows, np.argsort(np.take_along_axis(keys, rows, axis=-1), axis=-1), axis=-1)

# Attention ----------------------------------------------------------------------------------------


# Axes before the last ones are batches, with the rules of numpy's matmul: one query is q [head_dim], and several of one KV head are
# q [queries, head_dim].


def products(q, keys, mantissa, exponent=0, parameters=ATTENTION):
    """int64 [..., T]: what the scores are before they are clamped.

    q int8 [..., head_dim], keys int8 [..., T, head_dim]; mantissa and exponent [...] of each query: its multiplier. Raises ValueError.
    """
    mantissa, exponent = (np.asarray(part, np.int64)[..., None] for part in (mantissa, exponent))
    for name, values, high in (("mantissa", mantissa, parameters.mantissa_max), ("exponent", exponent, EXPONENT_MAX)):
        bad = values[(values < 0) | (values > high)]
        if bad.size:
            raise ValueError(f"{name} {bad[0]}: must lie in 0 … {high}")
    # float32 holds sums of HEAD_DIM_MAX products of int8, and has the fast matrix routines.
    dots = np.asarray(q, np.float32) @ np.asarray(keys, np.float32).swapaxes(-1, -2)
    return (dots.astype(np.int64)*mantissa) >> (SHIFT_MAX - SHIFT_STEP*exponent)


def clamp(products, parameters=ATTENTION):
    """int32 scores of `products`."""
    limit = 1 << (parameters.score_bits - 1)
    return np.clip(products, -limit, limit - 1).astype(np.int32)


def scores(q, keys, mantissa, exponent=0, parameters=ATTENTION):
    """int32 [..., T]; arguments as for `products`."""
    return clamp(products(q, keys, mantissa, exponent, parameters), parameters)


def weigh(scores, values, parameters=ATTENTION):
    """(int32 [..., head_dim] numerators, int32 [...] denominators, int32 [...] maximum scores) of scores [..., T], values int8 [..., T, head_dim]."""
    maximum = scores.max(axis=-1)
    e       = parameters.exp_table()[np.minimum(maximum[..., None] - scores, EXP_ENTRIES - 1)].astype(np.float64)
    return (e @ np.asarray(values, np.float64)).astype(np.int32), e.sum(axis=-1).astype(np.int32), maximum


def attention(q, keys, values, mantissa, exponent=0, parameters=ATTENTION):
    """Queries over their causal positions: what `weigh` returns. T is the causal length; arguments: those of `products` and `weigh`."""
    return weigh(scores(q, keys, mantissa, exponent, parameters), values, parameters)
