#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""RoPE's angles, plain and scaled: how fast each pair of a head turns. The image holds their cosines and sines, the board knows no kinds.

A pair's angle is position × frequency; what scales RoPE changes the frequencies, and YaRN lets cosines and sines grow by a factor, too.
Plain frequencies are theta**(−2i/head_dim) of pair i.
"""

import math

from dataclasses import dataclass

import numpy as np

FACTORS       = (1e-3, 1e6)   # Of scaled positions.
GAINS         = (1e-3, 1e3)   # Of cosines and sines.
ROTATIONS     = (1e-3, 1e6)   # That bound YaRN's and Llama 3's ranges.
BETA_FAST, BETA_SLOW = 32.0, 1.0


@dataclass(frozen=True, eq=False)
class Angles:
    """frequencies: float64 [head_dim/2], radians a position. gain: of cosines and sines."""
    frequencies : np.ndarray
    gain        : float = 1.0

    def divided(self, divisors):
        """Angles whose frequencies are divided by a float [head_dim/2] array, a number each."""
        return Angles(self.frequencies/np.asarray(divisors, np.float64), self.gain)

    def tables(self, positions):
        """(cosine, sine) float64 [positions, head_dim/2] of a range or an int array."""
        angle = np.asarray(positions, np.float64)[:, None]*self.frequencies
        return np.cos(angle)*self.gain, np.sin(angle)*self.gain


def plain(theta, head_dim):
    return Angles(float(theta)**(-np.arange(0, head_dim, 2, dtype=np.float64)/head_dim))


def linear(theta, head_dim, factor):
    """All frequencies by a factor: positions lie that much closer."""
    return plain(theta, head_dim).divided(factor)


def llama3(theta, head_dim, factor, low, high, original):
    """Pairs that turn less than `low` times in the `original` positions are slowed by a factor, those that turn more than `high` times
    are not, those between partly. ValueError unless low < high."""
    if not low < high:
        raise ValueError(f"low_freq_factor {low:g}: must be less than high_freq_factor {high:g}")
    angles = plain(theta, head_dim)
    turns  = original*angles.frequencies/(2*math.pi)
    kept   = np.clip((turns - low)/(high - low), 0, 1)
    return Angles(angles.frequencies*(kept + (1 - kept)/factor))


def yarn_gain(factor, scale=1.0):
    """By how much YaRN lets cosines and sines grow."""
    return 1 + 0.1*scale*math.log(factor) if factor > 1 else 1.0


def yarn(theta, head_dim, factor, original, gain=None, fast=BETA_FAST, slow=BETA_SLOW, truncate=True):
    """Pairs are slowed by a factor along a ramp: from the one that turns `fast` times in the `original` positions (not at all) to the one that
    turns `slow` times. truncate: the ramp begins and ends at whole pairs. gain: `yarn_gain` where None. ValueError unless theta > 1."""
    if theta <= 1:
        raise ValueError(f"rope_theta {theta:g}: YaRN needs one beyond 1")
    pair      = lambda turns: head_dim*math.log(original/(turns*2*math.pi))/(2*math.log(theta))
    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp      = np.clip((np.arange(head_dim//2) - low)/(high - low or 1e-3), 0, 1)
    plainly   = plain(theta, head_dim).frequencies
    return Angles(plainly*(1 - ramp) + plainly/factor*ramp, yarn_gain(factor) if gain is None else float(gain))
