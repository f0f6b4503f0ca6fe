#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the exact path clips, counted for whoever asks: a packer, a table of perplexities, a test.

    saturation = Saturation()
    exact      = ExactModel(model, saturation=saturation)
    …
    print(*saturation.lines() or ["nothing"], sep="\\n")
"""

from collections import Counter

import numpy as np

# What may clip, and what it means: names of `Saturation.see` and of its counts.
KINDS = {
    "multipliers" : "the scores of a query head count in steps larger than its multiplier can say: they come out too small",
    "scores"      : "scores of a query leave the range of score_bits: they no longer differ",
    "keys"        : "elements of K leave the range of their head's fixed step",
    "values"      : "elements of V leave the range of their head's fixed step",
}

# Saturation ---------------------------------------------------------------------------------------


class Saturation:
    """Counts of clipped values.

    clipped, seen : {(kind, layer): number}, of `KINDS`; what was never seen counts 0.
    counted       : None, or bool [batch]: the sessions that count from now on.
    """
    def __init__(self):
        self.clipped, self.seen, self.counted = Counter(), Counter(), None

    def see(self, kind, layer, clipped):
        """Adds bool [batch, …] values, true where one was clipped. Raises ValueError for a kind that is not of `KINDS`."""
        if kind not in KINDS:
            raise ValueError(f"saturation of {kind!r}: must be of {', '.join(KINDS)}")
        clipped = np.asarray(clipped) if self.counted is None else np.asarray(clipped)[self.counted]
        self.clipped[kind, layer] += int(np.count_nonzero(clipped))
        self.seen[kind, layer]    += clipped.size

    def total(self, kind):
        """(clipped, seen) of all layers."""
        return tuple(sum(number for (name, _), number in counts.items() if name == kind) for counts in (self.clipped, self.seen))

    def lines(self):
        """A line for each kind of which something was clipped; none where nothing was."""
        lines = []
        for kind, meaning in KINDS.items():
            clipped, seen = self.total(kind)
            if clipped:
                layers = sorted(layer for (name, layer), number in self.clipped.items() if name == kind and number)
                where  = f"layer {layers[0]}" if len(layers) == 1 else f"{len(layers)} layers, {layers[0]} to {layers[-1]}"
                lines.append(f"{kind}: {clipped:,} of {seen:,} clipped ({100*clipped/seen:.2g} %; {where}): {meaning}")
        return lines
