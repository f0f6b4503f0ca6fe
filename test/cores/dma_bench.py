#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A lane whose core hands on what it gets, in front of a memory.

    memory ──► reader ──► copy | stalling copy | probe ──► writer ──► memory
       ▲  random gaps         random stalls                  random stalls ▲
       └────────────────── AXI3 rules checked on every cycle ──────────────┘
"""

import numpy as np
import pytest

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from litetern.cores.probe import Probe
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import MemoryParameters, RtlPL
from litetern.soc.zynq.pl import PL

# Cores --------------------------------------------------------------------------------------------


class Copy(LiteXModule):
    """Hands on every beat; with `stalling`, a shift register withholds ready half of the time, and every fourth beat ends a group."""
    def __init__(self, stalling=False):
        self.sink   = stream.Endpoint([("data", 64)])
        self.source = stream.Endpoint([("data", 64)])
        self.idle   = Signal(reset=1)
        self.error  = Signal()

        # # #

        self.fifo = fifo = stream.SyncFIFO([("data", 64)], 4)
        lfsr      = Signal(16, reset=0xACE1)
        go        = Signal(reset=1)
        if stalling:
            self.sync += lfsr.eq(Cat(lfsr[1:], lfsr[0] ^ lfsr[2] ^ lfsr[3] ^ lfsr[5]))
            self.comb += go.eq(lfsr[0] ^ lfsr[7])
        self.comb += [
            self.sink.connect(fifo.sink, omit={"valid", "ready"}),
            fifo.sink.valid.eq(self.sink.valid & go),
            self.sink.ready.eq(fifo.sink.ready & go),
            fifo.source.connect(self.source, omit={"last"}),
            self.source.last.eq(fifo.source.last | (stalling & (fifo.source.data[:2] == 0))),
            self.idle.eq(~fifo.source.valid),
        ]


def copy_cores(config):
    return {"matmul": (Copy(), ()), "attention": (Copy(stalling=True), ()), "probe": (Probe(), ())}

# Bench --------------------------------------------------------------------------------------------

BASE    = 0x0010_0000
SIZE    = 4 << 20
LIST    = BASE + 0x100
SOURCE  = BASE + 0x10_0000  # A multiple of 4,096, as is …
TARGET  = BASE + 0x20_0000
GUARD   = 256
TIMEOUT = 1024
CONFIG  = AcceleratorConfig(ports=1, timeout=TIMEOUT)


class Bench:
    def __init__(self, **parameters):
        self.memory = np.zeros(SIZE, dtype=np.uint8)
        self.rng    = np.random.default_rng(1)
        self.pl     = RtlPL(self.memory, CONFIG, BASE, MemoryParameters(**parameters), PL(CONFIG, cores=copy_cores), "dma")
        self.driver = Driver(self.pl)

    def at(self, address, bytes):
        return self.memory[address - BASE:address - BASE + bytes]

    def fill(self, address, bytes):
        self.at(address, bytes)[:] = self.rng.integers(0, 256, bytes, dtype=np.uint8)

    def start(self, pieces, target=TARGET, core="matmul", limit=None, list_address=LIST, irq=()):
        """Writes random data to the pieces, their list, guard bytes around the target; rings the doorbell. Returns what must land."""
        for address, bytes in pieces:
            self.fill(address, bytes)
        expected = np.concatenate([self.at(*piece) for piece in pieces])
        self.at(target - GUARD, len(expected) + 2*GUARD)[:] = 0xA5
        self.driver.put_list(list_address, pieces, irq)
        self.driver.start(0, core, list_address, target, len(expected) if limit is None else limit)
        return expected

    def check(self, expected, target=TARGET):
        """The expected bytes are at the target and nothing around it has changed."""
        assert (self.at(target, len(expected)) == expected).all()
        assert (self.at(target - GUARD, GUARD) == 0xA5).all()
        assert (self.at(target + len(expected), GUARD) == 0xA5).all()

    def copy(self, pieces, target=TARGET, core="matmul", list_address=LIST):
        expected = self.start(pieces, target, core, list_address=list_address)
        outcome  = self.driver.wait(0)
        assert outcome.flags == {"done"}
        assert outcome.results == len(expected) and outcome.beats == len(expected)//8
        self.check(expected, target)
        return outcome


@pytest.fixture(scope="module")
def bench():
    return Bench()


@pytest.fixture(autouse=True)
def clean(request):
    """Tests share a bench: each begins and ends without injected faults and broken rules."""
    yield
    if "bench" in request.fixturenames:
        bench = request.getfixturevalue("bench")
        assert bench.pl.fault is None
        bench.pl.inject()
        bench.pl.stall(ar=0, r=0, aw=0, w=0, b=0)
        bench.pl.set_hook(None)
        bench.driver.allow(bench.pl.regions, bench.pl.regions)


def draw_pieces(rng, entries, longest):
    """Pieces of 1 … longest beats at random places of the source."""
    beats = rng.integers(1, longest + 1, entries)
    return [(SOURCE + 8*int(rng.integers(0, 4000)), 8*int(length)) for length in beats]
