#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""From logits to the next token, exactly: the definition that the firmware's sampler equals.

All comparisons and products are fp32 in a stated order and all sums of probabilities are integers, so that the choice depends on
logits, settings and seed alone.
"""

from dataclasses import dataclass

import numpy as np

from litetern.model.numerics.ops import F, exp

CANDIDATES_MAX  = 256        # Sampling looks at no more than the best 256 logits.
PENALTY_WINDOW  = 64         # The repetition penalty applies to the last 64 tokens of the session.
WEIGHT_ONE      = F(2.0**22) # Integer weight of the best candidate: 256 of them fit 32 bits.
TOP_P_ONE       = 1 << 16    # top_p is compared in 1/65536.


@dataclass(frozen=True)
class SamplingSettings:
    """temperature 0 is greedy; top_k 0 means all `CANDIDATES_MAX`; top_p 1 and penalty 1 change nothing."""
    temperature        : float = 0.0
    top_k              : int   = 0
    top_p              : float = 1.0
    repetition_penalty : float = 1.0
    seed               : int   = 0

    def __post_init__(self):
        for name, low, high in (("temperature", 0, 100), ("top_k", 0, CANDIDATES_MAX), ("top_p", 0, 1),
            ("repetition_penalty", 0.1, 10), ("seed", 0, 2**64 - 1)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} = {getattr(self, name)}: must lie in {low} … {high}")
        if 0 < self.temperature < 0.01:
            raise ValueError(f"temperature = {self.temperature}: must be 0 (greedy) or at least 0.01")

# Random numbers -----------------------------------------------------------------------------------


class SplitMix64:
    """The 64-bit generator of Steele, Lea and Flood (2014): a counter and a mixing function."""
    MASK = 2**64 - 1

    def __init__(self, seed):
        self.state = seed & self.MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30))*0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27))*0x94D049BB133111EB) & self.MASK
        return z ^ (z >> 31)

# Sampler ------------------------------------------------------------------------------------------


class Sampler:
    """Chooses tokens of one session; `recent` are the tokens that the repetition penalty sees."""
    def __init__(self, settings):
        self.settings, self.random = settings, SplitMix64(settings.seed)

    def penalise(self, logits, recent):
        """logits float32 [vocab] with the tokens of the last `PENALTY_WINDOW` of `recent` made less likely."""
        logits  = logits.copy()
        penalty = F(self.settings.repetition_penalty)
        inverse = F(1)/penalty
        for token in set(recent[-PENALTY_WINDOW:]):
            logits[token] = logits[token]*(inverse if logits[token] > 0 else penalty)
        return logits

    def choose(self, logits, recent=()):
        """The next token (int) of float32 [vocab] logits."""
        settings = self.settings
        if settings.repetition_penalty != 1:
            logits = self.penalise(logits, list(recent))
        if settings.temperature == 0:
            return int(np.argmax(logits))
        # Best first; of equal logits the lower token first.
        order   = np.argsort(-logits, kind="stable")[:settings.top_k or CANDIDATES_MAX]
        inverse = F(1)/F(settings.temperature)
        weights = (exp((logits[order] - logits[order[0]])*inverse)*WEIGHT_ONE).astype(np.int64)
        sums    = np.cumsum(weights)
        # The smallest head of the list whose share reaches top_p.
        share = int(F(settings.top_p)*F(TOP_P_ONE))
        kept  = int(np.searchsorted(sums*TOP_P_ONE, int(sums[-1])*share)) + 1
        kept  = min(kept, len(order))
        draw  = ((self.random.next() >> 32)*int(sums[kept - 1])) >> 32
        return int(order[np.searchsorted(sums[:kept], draw, side="right")])
