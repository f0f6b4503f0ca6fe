#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Steps of a token on all lanes at once: run, timed, and compared with numpy."""

import numpy as np

from litetern.soc.virtual.pl.workload import interleave

STEP_TIMEOUT = 1 << 26  # Cycles.

# Step ---------------------------------------------------------------------------------------------


class Step:
    """One list per lane, all started together; may be run many times.

    lists    : per lane (pieces, bytes of results).
    expected : per lane what must land (uint8), or None for results that nobody checks.
    results  : Arena of the results, where that is not `arena`.
    """
    def __init__(self, driver, arena, core, lists, expected=None, results=None):
        self.driver, self.core, self.expected = driver, core, expected
        self.results = results = results or arena
        self.lists   = []  # Per lane (list address, target address, bytes of results).
        self.elapsed = 0   # Cycles of the last run, from the first register access until nothing moves.
        for pieces, bytes in lists:
            where  = arena.take(8*len(pieces), 32)
            driver.put_list(where, pieces)
            self.lists.append((where, results.take(bytes), bytes))

    @classmethod
    def of_groups(cls, driver, arena, groups, results=None):
        """A step of matmul groups: per lane a list of `Group`."""
        lists = [([piece for group in part for piece in group.pieces], sum(group.result_bytes for group in part)) for part in groups]
        return cls(driver, arena, "matmul", lists, [np.concatenate([group.expected() for group in part]) for part in groups], results)

    @classmethod
    def of_heads(cls, driver, arena, heads, results=None):
        """A step of attention heads: per lane a list of `Head`."""
        return cls(driver, arena, "attention", [(interleave(part), sum(head.result_bytes for head in part)) for part in heads],
            [np.concatenate([head.expected() for head in part]) for part in heads], results)

    def run(self):
        """Runs the lists; returns an `Outcome` per lane. Raises RuntimeError where a lane fails or a result differs from numpy."""
        pl = self.driver.pl
        for _, target, bytes in self.lists:
            self.results.view((target, bytes))[:] = 0xA5
        begin = pl.cycles
        for lane, (where, target, bytes) in enumerate(self.lists):
            self.driver.start(lane, self.core, where, target, bytes)
        pl.run(STEP_TIMEOUT)
        self.elapsed = pl.cycles - begin
        outcomes = [self.driver.wait(lane) for lane in range(len(self.lists))]
        for lane, outcome in enumerate(outcomes):
            if outcome.flags != {"done"}:
                raise RuntimeError(f"lane {lane}: {', '.join(sorted(outcome.flags))}")
        for (_, target, bytes), expected in zip(self.lists, self.expected or []):
            if not np.array_equal(self.results.view((target, bytes)), expected):
                raise RuntimeError(f"{self.core}: results differ from numpy")
        return outcomes
