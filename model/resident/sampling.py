#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Sampling of the resident path: greedy, or a draw from the best logits by integer weights.

    weight[j] = EXP[min(((L[0] − L[j])·inverse) >> (10 + 12 − 6), 1023)]   logits best first, the lower token first where two are equal
    draw      = (32 bits of the generator · Σ weight) >> 32                the first token whose running sum exceeds it
"""

from dataclasses import dataclass

import numpy as np

LOGIT_FRACTION   = 10      # Logits count in 2**-10 of a natural unit, 20 bits.
LOGIT_BITS       = 20
TOPK_MAX         = 32      # Candidates that the fabric keeps, best first.
INVERSE_FRACTION = 12      # Of 1/temperature, which has at most 17 bits.
STEPS_PER_NAT    = 64
EXP              = np.rint((2**16 - 1)*np.exp(-np.arange(1024)/STEPS_PER_NAT)).astype(np.int64)
MASK             = 2**64 - 1

TEMPERATURE_MIN  = 2.0**-4


@dataclass(frozen=True)
class SamplingSettings:
    """temperature 0 is greedy; top_k 0 means all TOPK_MAX candidates."""
    temperature : float = 0.0
    top_k       : int   = 0
    seed        : int   = 0

    def __post_init__(self):
        if self.temperature != 0 and not TEMPERATURE_MIN <= self.temperature <= 100:
            raise ValueError(f"temperature = {self.temperature}: must be 0 (greedy) or lie in {TEMPERATURE_MIN} … 100")
        for name, high in (("top_k", TOPK_MAX), ("seed", MASK)):
            if not 0 <= getattr(self, name) <= high:
                raise ValueError(f"{name} = {getattr(self, name)}: must lie in 0 … {high}")

    @property
    def inverse(self):
        """1/temperature as the fabric gets it; 0 is greedy."""
        return max(1, round(2**INVERSE_FRACTION/self.temperature)) if self.temperature else 0

    @property
    def candidates(self):
        return self.top_k or TOPK_MAX


class Xorshift64:
    """Marsaglia's generator (13, 7, 17): three shifts, no product. The seed is mixed once by SplitMix64, so that near seeds differ."""
    def __init__(self, seed):
        z = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30))*0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27))*0x94D049BB133111EB) & MASK
        self.state = (z ^ (z >> 31)) or 0x9E3779B97F4A7C15  # 0 would stay 0.

    def next(self):
        """The next state; its upper half are the 32 bits of a draw."""
        s  = self.state
        s ^= (s << 13) & MASK
        s ^= s >> 7
        s ^= (s << 17) & MASK
        self.state = s
        return s


def best(logits, count):
    """int64 [count]: tokens of the largest of int64 logits [vocab], best first."""
    return np.argsort(-logits, kind="stable")[:count]


class Sampler:
    """Chooses the tokens of one session; a greedy choice draws nothing."""
    def __init__(self, settings):
        self.settings, self.random = settings, Xorshift64(settings.seed)

    def choose(self, logits):
        """The next token (int) of int64 [vocab] logits."""
        if not self.settings.inverse:
            return int(np.argmax(logits))
        tokens  = best(logits, self.settings.candidates)
        below   = logits[tokens[0]] - logits[tokens]
        weights = EXP[np.minimum((below*self.settings.inverse) >> (LOGIT_FRACTION + INVERSE_FRACTION - 6), len(EXP) - 1)]
        sums    = np.cumsum(weights)
        draw    = ((self.random.next() >> 32)*int(sums[-1])) >> 32
        return int(tokens[np.searchsorted(sums, draw, side="right")])
