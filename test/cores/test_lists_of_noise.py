#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Lists and streams that no driver writes, on the gateware and on its C model: both end, say the same and write nowhere else.

Groups and heads with members out of range, flipped bits, missing and surplus beats, noise without a header, descriptors of no length or
outside of the memory or of the ranges that lanes may touch, destinations without room or outside.
"""

import random

import numpy as np
import pytest

from litetern.firmware.build import load_host_library
from litetern.model.formats.stream import K_HEADER, MATMUL_HEADER, QUERY_HEADER, V_HEADER, descriptor, x_beats
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.cmodel import CModelPL
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import MemoryParameters, RtlPL

SIZE, LIST, STREAM, DESTINATION = 1 << 20, 0x8000, 0x1_0000, 0x8_0000
HOLE   = 2*SIZE  # May be read, but nothing is there.
CONFIG = AcceleratorConfig()  # The virtual board's: no build of our own.
ROUNDS = 500
CYCLES = 1 << 20  # Many times what the longest of these streams needs.

# The C model holds more rows, queries and vectors than the gateware, and reduces: what only it can do is not compared.
FLIPPED  = (*range(16, 21), 32, *range(48, 64))
CAPACITY = {"attention_rows", "attention_queries", "matmul_vectors", "matmul_reduce"}

# They end the run: how far the core has come by then differs.
LANE_ERRORS = {"reader_descriptor", "reader_range", "reader_response", "writer_overrun", "writer_range"}

# Streams ------------------------------------------------------------------------------------------


def words(draw, count):
    return [draw.getrandbits(64) for _ in range(max(count, 0))]


def odd(draw, value, *others):
    """Mostly the value, now and then another."""
    return draw.choice([value]*12 + list(others))


def group(draw):
    """A matmul group."""
    form, beats, rows = odd(draw, draw.randrange(2), draw.randrange(16)), draw.randint(1, 20), draw.randint(1, 40)
    header = MATMUL_HEADER.pack(rows=odd(draw, rows, 0, draw.getrandbits(24)), beats=odd(draw, beats, 0, draw.getrandbits(12)), format=form,
        vectors=odd(draw, 1, 0, 3, 15), reduce=odd(draw, 0, 3))
    return [header, *words(draw, x_beats(beats, min(form, 1)) + rows*beats + odd(draw, 0, -1, 5))]


def head(draw):
    """K and V record."""
    rows, beats, queries, buffer = draw.randint(1, 40), draw.randint(1, 16), draw.randint(1, CONFIG.queries_max), draw.randrange(2)
    shape  = lambda: dict(rows=odd(draw, rows, 0, draw.getrandbits(16)), beats=odd(draw, beats, 0, draw.getrandbits(5)),
        queries=odd(draw, queries, 0, 31), buffer=odd(draw, buffer, 1 - buffer))
    stream = [K_HEADER.pack(**shape())]
    for _ in range(queries):
        length  = odd(draw, draw.randint(1, rows), 0, draw.getrandbits(16))
        stream += [QUERY_HEADER.pack(mantissa=odd(draw, draw.getrandbits(17), draw.getrandbits(20)), exponent=draw.getrandbits(2),
            length=length), *words(draw, beats)]
    return [*stream, *words(draw, rows*beats), V_HEADER.pack(**shape()), *words(draw, rows*beats + odd(draw, 0, -1, 1))]


def stream(draw, core):
    parts = [word for _ in range(draw.randint(1, 4)) for word in (group if core == "matmul" else head)(draw)]
    if draw.random() < 0.2:
        parts[draw.randrange(len(parts))] ^= 1 << draw.choice(FLIPPED)
    if draw.random() < 0.1:
        parts = words(draw, draw.randint(1, 60))
    return parts[:draw.randint(1, len(parts))] if draw.random() < 0.1 else parts


def descriptors(draw, count):
    """The list of a stream of `count` beats, in pieces."""
    pieces, at = [], 0
    while at < count:
        beats = draw.randint(1, count - at) if draw.random() < 0.5 else count - at
        pieces.append((STREAM + 8*at, 8*beats))
        at += beats
    if draw.random() < 0.08:
        pieces[draw.randrange(len(pieces))] = draw.choice([(HOLE, 64), (HOLE + 4096, 64), (SIZE - 64, 128), (2**32 - 8, 2**32 - 8)])
    listed = [descriptor(*piece, last=piece is pieces[-1], irq=False) for piece in pieces]
    if draw.random() < 0.04:
        listed[draw.randrange(len(listed))] &= (1 << 35) - 1  # Of no beats.
    return listed

# Test ---------------------------------------------------------------------------------------------


class Board:
    def __init__(self, make):
        self.memory = np.zeros(SIZE, np.uint8)
        self.pl     = make(self.memory)
        self.driver = Driver(self.pl)

        self.driver.allow([(0, SIZE), (HOLE, 4096)], [(DESTINATION, SIZE - DESTINATION)])

    def run(self, core, stream, listed, destination, limit):
        """(flags, bytes of results, memory)."""
        self.memory[:] = 0xA5
        for address, content in ((STREAM, stream), (LIST, listed)):
            content = np.array(content, "<u8").view(np.uint8)
            self.memory[address:address + len(content)] = content
        before = self.memory.copy()
        self.driver.start(0, core, LIST, destination, limit)
        outcome = self.driver.wait(0, CYCLES)
        outside = np.flatnonzero(self.memory != before)
        assert outcome.results <= limit and ((outside >= destination) & (outside < destination + limit)).all()
        return outcome.flags, outcome.results, self.memory


@pytest.fixture(scope="module")
def boards():
    return (Board(lambda memory: RtlPL(memory, CONFIG, parameters=MemoryParameters(seed=3))),
        Board(lambda memory: CModelPL(memory, load_host_library(), CONFIG)))


@pytest.mark.parametrize("stall", [0, 0.3])
@pytest.mark.parametrize("core", ["matmul", "attention"])
def test_gateware_and_c_model_agree(boards, core, stall):
    boards[0].pl.stall(ar=stall, r=stall, aw=stall, w=stall, b=stall)
    seen = set()
    for seed in range(ROUNDS):
        draw   = random.Random(seed)
        data   = stream(draw, core)
        listed = descriptors(draw, len(data))
        limit  = draw.choice([SIZE - DESTINATION]*8 + [0, 8, 64])
        target = draw.choice([DESTINATION]*40 + [DESTINATION - 8, DESTINATION + 8, 2**32 - 8])
        (rtl, results, memory), (c, c_results, c_memory) = (board.run(core, data, listed, target, limit) for board in boards)
        assert boards[0].pl.fault is None and "done" in rtl & c, seed
        assert ("error" in rtl) == ("error" in c), (seed, rtl, c)
        seen |= rtl
        if not (rtl | c) & LANE_ERRORS and not rtl & CAPACITY:
            assert rtl == c, seed
            if f"{core}_truncated" not in rtl:  # The row that lacks its end may leave as it is.
                assert results == c_results and (memory == c_memory).all(), seed
    assert seen >= {*LANE_ERRORS, *(f"{core}_{name}" for name in ("magic", "rows", "beats", "truncated"))}
