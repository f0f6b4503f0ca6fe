#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The whole accelerator in front of a memory: doorbell → lists → cores → results, compared with numpy word for word."""

import numpy as np

from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import MemoryParameters, RtlPL
from litetern.soc.virtual.pl.workload import Arena, Group, Head

BASE   = 0x0800_0000
SIZE   = 8 << 20
GUARD  = 128
CONFIG = AcceleratorConfig(queries_max=3)

# Bench --------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, **parameters):
        self.memory = np.zeros(SIZE, dtype=np.uint8)
        self.pl     = RtlPL(self.memory, CONFIG, BASE, MemoryParameters(**parameters))
        self.driver = Driver(self.pl)
        self.clear(1)

    def clear(self, seed):
        self.rng   = np.random.default_rng(seed)
        self.arena = Arena(self.memory, BASE)

    def start(self, lane, core, jobs, pieces=None):
        """Lists the pieces (by default those of the jobs) and rings; returns the target's address and its expected bytes."""
        pieces   = pieces or [piece for job in jobs for piece in job.pieces]
        expected = np.concatenate([np.zeros(0, np.uint8), *(job.expected() for job in jobs)])
        guard    = np.full(len(expected) + 2*GUARD, 0xA5, dtype=np.uint8)
        target   = self.arena.put(guard)[0] + GUARD
        where    = self.arena.take(8*len(pieces), 32)
        self.driver.put_list(where, pieces)
        self.driver.start(lane, core, where, target, len(expected))
        return target, expected

    def check(self, target, expected):
        found = self.arena.view((target - GUARD, len(expected) + 2*GUARD))
        assert (found[:GUARD] == 0xA5).all() and (found[-GUARD:] == 0xA5).all()
        assert (found[GUARD:-GUARD] == expected).all()

    def run(self, lane, core, jobs, pieces=None, flags=("done",)):
        target, expected = self.start(lane, core, jobs, pieces)
        outcome = self.driver.wait(lane)
        assert outcome.flags == set(flags) and outcome.results == len(expected)
        self.check(target, expected)
        return outcome

    def group(self, columns=None, format=None, rows=None):
        format = int(self.rng.choice([FORMAT_TERNARY, FORMAT_INT8])) if format is None else format
        return Group(self.arena, self.rng, rows or int(self.rng.integers(1, 40)), columns or int(self.rng.integers(1, 700)), format)

    def heads(self, count, rows=None, head_dim=None, queries=None):
        rows     = rows or int(self.rng.integers(1, 150))
        head_dim = head_dim or 8*int(self.rng.integers(1, 17))
        queries  = queries or int(self.rng.integers(1, CONFIG.queries_max + 1))
        return [Head(self.arena, self.rng, rows, head_dim, queries, i % 2) for i in range(count)]


class Words:
    """Any beats as a job without results."""
    result_bytes = 0

    def __init__(self, arena, words):
        self.pieces = [arena.put(np.array(words, dtype="<u8"))]

    def expected(self):
        return np.zeros(0, dtype=np.uint8)


def noise(bench, beats):
    return [int(word) for word in bench.rng.integers(0, 2**63, beats)]
