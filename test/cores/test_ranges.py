#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What software has not allowed no lane asks for: each port, each end of each range, the wrap at 2**32; gateware and C model alike.

    LIST      FIRST ─────────── LAST      TARGET                 TOP
    │ list │  │ range under test   │      │ results │  …  on chip │ 0 …
          ◄ a beat before      a beat behind ►               over the end ►
"""

import numpy as np
import pytest

from migen import Record, run_simulation

from litex.soc.interconnect import axi

from litetern.cores.dma.ranges import range_layout
from litetern.cores.dma.writer import DMAWriter
from litetern.firmware.build import load_host_library
from litetern.model.formats.stream import BURST_BEATS, FORMAT_INT8, MATMUL_HEADER, descriptor
from litetern.soc.accelerator import READS, WRITES, AcceleratorConfig
from litetern.soc.virtual.pl.cmodel import CModelPL
from litetern.soc.virtual.pl.driver import NOTHING, Driver
from litetern.soc.virtual.pl.verilated import OCM_BASE, OCM_BYTES, RtlPL

BLOCK       = 8*BURST_BEATS
SIZE        = 1 << 20
LIST        = 0x0_8000
FIRST, LAST = 0x4_0000, 0x4_0FFF
TARGET      = 0x8_0000
ROOM        = 4096        # At LIST and TARGET.
TOP         = 2**32
WHOLE       = (LAST + 1 - FIRST)//8
CONFIG      = AcceleratorConfig()  # The virtual board's: no build of our own.
ONES        = 0x0101010101010101

# Bench --------------------------------------------------------------------------------------------


class Bench:
    """A PL with on-chip memory that ends at TOP; every burst is seen, and lies in what the registers allow."""
    def __init__(self, make, driver=Driver):
        self.memory, self.ocm = np.zeros(SIZE, np.uint8), np.zeros(OCM_BYTES, np.uint8)
        self.pl     = make(self.memory, self.ocm)
        self.driver = driver(self.pl)
        self.seen   = []
        self.pl.set_hook(lambda write, address, bytes: self.seen.append((bool(write), address, address + bytes)))

    def at(self, address, bytes):
        return self.ocm[address - OCM_BASE:][:bytes] if address >= OCM_BASE else self.memory[address:address + bytes]

    def put(self, address, words):
        """Writes words where there is memory; behind TOP they go on at 0."""
        for i, word in enumerate(np.array(words, "<u8").view(np.uint8).reshape(-1, 8)):
            place    = self.at((address + 8*i) % TOP, 8)
            place[:] = word[:len(place)]

    def allowed(self, names):
        """Whole bursts (first, end) of the ranges of these names."""
        bounds = [(self.driver.read(f"{name}_first"), self.driver.read(f"{name}_last")) for name in names]
        return [(first & -BLOCK, (last | BLOCK - 1) + 1) for first, last in bounds]

    def run(self, lane, piece, destination=TARGET, list_address=LIST, limit=None, length=4, last=True):
        """Runs a list of one piece of `length` beats: a group of `length` - 2 rows of ones. Returns its Outcome."""
        rows  = min(length - 2, WHOLE)
        limit = 8*((rows + 1)//2) if limit is None else limit
        self.put(piece, [MATMUL_HEADER.pack(rows=rows, beats=1, format=FORMAT_INT8, vectors=1), *[ONES]*(rows + 1)])
        self.put(list_address, [descriptor(piece, 8*length, last=last)])
        self.before = self.memory.copy(), self.ocm.copy()
        self.seen.clear()
        self.driver.start(lane, "matmul", list_address, destination, limit)
        outcome = self.driver.wait(lane)
        assert self.pl.fault is None
        for names, kind in ((READS, False), (WRITES, True)):
            ranges = self.allowed(names)
            assert all(any(low <= first < end <= high for low, high in ranges) for write, first, end in self.seen if write == kind)
        return outcome

    def passes(self, lane, piece, destination=TARGET, length=4, **others):
        """The list is right."""
        rows = length - 2
        self.at(destination, 4*rows)[:] = 0
        outcome = self.run(lane, piece, destination, length=length, **others)
        assert outcome.flags == {"done"} and outcome.results == 8*((rows + 1)//2) and outcome.beats == length
        assert (self.at(destination, 4*rows).view("<i4") == 8).all()

    def refuses(self, lane, error, *others, beats=0, lines=1, **named):
        """The list ends with that error, nothing is written; `lines` of the list and `beats` of its piece were read at most."""
        outcome = self.run(lane, *others, **named)
        assert outcome.flags == {"done", "error", error} and outcome.results == 0 and outcome.beats <= beats
        assert (self.memory == self.before[0]).all() and (self.ocm == self.before[1]).all()
        assert not any(write for write, *_ in self.seen) and len(self.seen) <= lines + (beats > 0)
        self.recovers(lane)

    def recovers(self, lane):
        """The next list is right."""
        kept = {name: [self.driver.read(f"{name}_{end}") for end in ("first", "last")] for name in READS + WRITES}
        self.driver.allow([(LIST, ROOM), (FIRST, BLOCK)], [(TARGET, BLOCK)])
        self.passes(lane, FIRST)
        for name, bounds in kept.items():
            self.driver.allow_bytes(name, *bounds)


MAKERS = {
    "rtl" : lambda memory, ocm: RtlPL(memory, CONFIG, ocm=ocm),
    "c"   : lambda memory, ocm: CModelPL(memory, load_host_library(), CONFIG, ocm=ocm),
}
lanes = pytest.mark.parametrize("lane", range(CONFIG.ports))


@pytest.fixture(scope="module", params=MAKERS)
def bench(request):
    return Bench(MAKERS[request.param])

# Reset --------------------------------------------------------------------------------------------


class TimidDriver(Driver):
    """Leaves the ranges as they are."""
    def allow(self, *_):
        pass


@lanes
@pytest.mark.parametrize("maker", MAKERS)
def test_nothing_is_allowed_after_the_reset(maker, lane):
    bench = Bench(MAKERS[maker], TimidDriver)
    for list_address in (0, LIST, TOP - BLOCK):
        assert bench.run(lane, FIRST, list_address=list_address, limit=0).flags == {"done", "error", "reader_range"} and not bench.seen
    assert bench.run(lane, FIRST).flags > {"done", "error"} and not bench.seen

# Pieces -------------------------------------------------------------------------------------------


@pytest.fixture(params=READS)
def pieces(bench, request):
    """Sets one range to bytes, at first FIRST … LAST; the other one holds the list."""
    def set(first, last):
        bench.driver.allow([(LIST, ROOM)]*2, [(TARGET, ROOM)])
        bench.driver.allow_bytes(request.param, first, last)
    set(FIRST, LAST)
    return set


@lanes
@pytest.mark.parametrize("piece, length", [(FIRST, WHOLE), (FIRST, 4), (FIRST + 8, WHOLE - 1), (LAST + 1 - 32, 4), (LAST + 1 - 256, 32)])
def test_pieces_up_to_both_ends(bench, lane, pieces, piece, length):
    bench.passes(lane, piece, length=length)


@lanes
@pytest.mark.parametrize("piece, length", [
    (FIRST - 8,     4),           # A beat before the first one …
    (FIRST - 32,    4),           # … and all.
    (LAST + 1 - 24, 4),           # A beat behind the last one …
    (LAST + 1,      4),           # … and all.
    (FIRST,         WHOLE + 1),
    (FIRST - 8,     WHOLE + 1),
    (FIRST - 8,     WHOLE + 2),   # Both.
    (0,             4),
    (TOP - 32,      4),
    (FIRST,         2**29 - 1),   # Over TOP, and back into the range from below.
    (LAST + 1 - 8,  2**29 - 1),
    (FIRST + 16,    2**29 - 2),
    (TOP - 8,       2**29 - 1),
    (TOP - 8,       FIRST//8 + 4),
])
def test_pieces_beyond_an_end(bench, lane, pieces, piece, length):
    bench.refuses(lane, "reader_range", piece, length=length)


@lanes
@pytest.mark.parametrize("length", [5, 16, 20, 2**29 - 1])
def test_pieces_over_the_end_of_the_address_space(bench, lane, pieces, length):
    for first in (TOP - BLOCK, OCM_BASE):
        pieces(first, TOP - 1)
        bench.passes(lane, TOP - 32)
        bench.refuses(lane, "reader_range", TOP - 32, length=length)
    pieces(0, TOP - 1)
    bench.refuses(lane, "reader_range", TOP - 32, length=length)
    bench.driver.allow([(0, LIST + ROOM), (TOP - BLOCK, BLOCK)], [(TARGET, ROOM)])  # Where it would go on may be read, too.
    bench.refuses(lane, "reader_range", TOP - 32, length=length)


@lanes
def test_a_range_at_0(bench, lane, pieces):
    pieces(0, BLOCK - 1)
    bench.passes(lane, 0)
    bench.refuses(lane, "reader_range", BLOCK - 8)
    bench.refuses(lane, "reader_range", TOP - 8)


@lanes
def test_ranges_count_whole_bursts(bench, lane, pieces):
    pieces(FIRST + BLOCK - 1, FIRST + BLOCK)
    bench.passes(lane, FIRST, length=2*BURST_BEATS)
    bench.refuses(lane, "reader_range", FIRST - 8)
    bench.refuses(lane, "reader_range", FIRST, length=2*BURST_BEATS + 1)


@lanes
@pytest.mark.parametrize("bounds", [NOTHING, (LAST, FIRST), (FIRST + BLOCK, FIRST + BLOCK - 1), (TOP - 1, 0)])
def test_a_range_without_bytes(bench, lane, pieces, bounds):
    pieces(*bounds)
    for piece in (FIRST, FIRST + BLOCK, LAST - 31, 0, TOP - BLOCK):
        bench.refuses(lane, "reader_range", piece)


@lanes
def test_a_piece_lies_in_one_range(bench, lane):
    """Though two meet there."""
    bench.driver.allow([(LIST, FIRST - LIST), (FIRST, BLOCK)], [(TARGET, ROOM)])
    bench.refuses(lane, "reader_range", FIRST - 16)
    bench.passes(lane, FIRST - 32)
    bench.passes(lane, FIRST)


@lanes
def test_pieces_before_the_refused_one_are_right(bench, lane):
    """The third piece of a list is refused: what has landed until then are results of the first two."""
    bench.driver.allow([(LIST, ROOM), (FIRST, LAST + 1 - FIRST)], [(TARGET, ROOM)])
    bench.put(FIRST, [MATMUL_HEADER.pack(rows=WHOLE - 2, beats=1, format=FORMAT_INT8, vectors=1), *[ONES]*(WHOLE - 1)])
    bench.driver.put_list(LIST, [(FIRST, WHOLE*8), (FIRST, WHOLE*8), (LAST + 1, 32)])
    bench.memory[TARGET:TARGET + ROOM] = 0
    bench.driver.start(lane, "matmul", LIST, TARGET, ROOM)
    outcome = bench.driver.wait(lane)
    landed  = bench.memory[TARGET:TARGET + ROOM].view("<i4")
    assert outcome.flags == {"done", "error", "reader_range"}
    assert (landed[:outcome.results//4] == 8).all() and np.isin(landed, (0, 8)).all()

# Lists --------------------------------------------------------------------------------------------

PIECE = LIST


@pytest.fixture(params=READS)
def lists(bench, request):
    """Sets one range to bytes, at first FIRST … LAST; the other one holds the piece."""
    def set(first, last):
        bench.driver.allow([(PIECE, ROOM)]*2, [(TARGET, ROOM)])
        bench.driver.allow_bytes(request.param, first, last)
    set(FIRST, LAST)
    return set


@lanes
@pytest.mark.parametrize("list_address", [FIRST, FIRST + 8, LAST + 1 - 32, LAST + 1 - 8])
def test_lists_up_to_both_ends(bench, lane, lists, list_address):
    bench.passes(lane, PIECE, list_address=list_address)


@lanes
@pytest.mark.parametrize("list_address", [FIRST - 8, FIRST - 32, LAST + 1, 0, TOP - 8])
def test_lists_beyond_an_end(bench, lane, lists, list_address):
    bench.refuses(lane, "reader_range", PIECE, list_address=list_address, lines=0)


@lanes
def test_lists_that_go_on_behind_the_end(bench, lane, lists):
    for list_address in (LAST + 1 - 8, LAST + 1 - 32):
        bench.put(LAST + 1 - 32, [descriptor(PIECE, 32)]*4)
        assert bench.run(lane, PIECE, list_address=list_address, last=False, limit=64).flags == {"done", "error", "reader_range"}
        bench.recovers(lane)
    lists(OCM_BASE, TOP - 1)
    bench.passes(lane, PIECE, list_address=TOP - 8)
    assert bench.run(lane, PIECE, list_address=TOP - 8, last=False, limit=64).flags == {"done", "error", "reader_range"}
    bench.recovers(lane)

# Results ------------------------------------------------------------------------------------------


@pytest.fixture(params=WRITES)
def results(bench, request):
    """Sets one range to bytes, at first FIRST … LAST; the other one allows nothing."""
    def set(first, last):
        bench.driver.allow([(PIECE, ROOM), (LIST + ROOM, ROOM)], [])
        bench.driver.allow_bytes(request.param, first, last)
    set(FIRST, LAST)
    return set


RESULTS = dict(list_address=LIST + ROOM)


@lanes
@pytest.mark.parametrize("destination, limit", [
    (FIRST,        8),
    (FIRST,        8*WHOLE),
    (FIRST + 8,    8*WHOLE - 8),
    (FIRST + 120,  16),
    (LAST + 1 - 8, 8),
])
def test_results_up_to_both_ends(bench, lane, results, destination, limit):
    bench.passes(lane, PIECE, destination, limit=limit, **RESULTS)


@lanes
@pytest.mark.parametrize("destination, limit", [
    (FIRST - 8,    8),
    (FIRST - 8,    16),
    (LAST + 1,     8),
    (LAST + 1 - 8, 16),
    (FIRST,        8*WHOLE + 8),
    (FIRST - 8,    8*WHOLE + 16),
    (PIECE,        8),
    (0,            8),
    (TOP - 8,      8),
    (FIRST,        TOP - 8),           # Over TOP, and back into the range from below.
    (FIRST + 16,   TOP - 16),
    (LAST + 1 - 8, TOP - 8),
    (TOP - 8,      FIRST + 16),
])
def test_results_beyond_an_end(bench, lane, results, destination, limit):
    bench.refuses(lane, "writer_range", PIECE, destination, limit=limit, beats=4, **RESULTS)


@lanes
def test_results_over_the_end_of_the_address_space(bench, lane, results):
    for first in (TOP - BLOCK, OCM_BASE):
        results(first, TOP - 1)
        bench.passes(lane, PIECE, TOP - 8, **RESULTS)
        for limit in (16, 128, 256, TOP - 8):
            bench.refuses(lane, "writer_range", PIECE, TOP - 8, limit=limit, beats=4, **RESULTS)
    bench.driver.allow([(PIECE, ROOM), (LIST + ROOM, ROOM)], [(0, ROOM), (TOP - BLOCK, BLOCK)])
    bench.refuses(lane, "writer_range", PIECE, TOP - 8, limit=16, beats=4, **RESULTS)


@lanes
def test_no_room_asks_for_no_memory(bench, lane, results):
    for destination in (FIRST, LAST + 1, 0, TOP - 8):
        outcome = bench.run(lane, PIECE, destination, limit=0, **RESULTS)
        assert outcome.flags == {"done", "error", "writer_overrun"} and outcome.results == 0
        assert not any(write for write, *_ in bench.seen)


@lanes
def test_what_may_be_read_may_not_be_written_and_the_other_way_round(bench, lane):
    bench.driver.allow([(LIST, ROOM), (FIRST, BLOCK)], [(TARGET, BLOCK)])
    bench.refuses(lane, "writer_range", FIRST, FIRST, beats=4)
    bench.refuses(lane, "writer_range", FIRST, LIST, beats=4)
    bench.refuses(lane, "reader_range", TARGET)
    bench.refuses(lane, "reader_range", FIRST, list_address=TARGET, lines=0)


def test_results_that_come_with_the_start_wait_for_the_check():
    """The writer alone: a destination inside, then one beyond, each with results from the first cycle on."""
    port   = axi.AXIInterface(data_width=64, address_width=32, id_width=6, version="axi3")
    ranges = [Record(range_layout()) for _ in range(2)]
    writer = DMAWriter(port, ranges)
    asked, refused = [], []

    def lists():
        yield ranges[0].first.eq(FIRST//BLOCK)
        yield ranges[0].last.eq(LAST//BLOCK)
        yield ranges[1].first.eq(-1)
        for name in ("aw", "w"):
            yield getattr(port, name).ready.eq(1)
        yield writer.sink.valid.eq(1)
        yield writer.sink.last.eq(1)
        for destination in (FIRST, LAST + 1, FIRST):
            yield writer.flush.eq(1)
            for _ in range(8):
                yield
            yield writer.address.eq(destination//8)
            yield writer.limit.eq(16)
            yield writer.flush.eq(0)
            yield writer.start.eq(1)
            for _ in range(40):
                yield
                yield writer.start.eq(0)
                asked.extend([(yield port.aw.addr)]*(yield port.aw.valid))
                refused.extend([destination]*(yield writer.error[1]))
                yield port.b.valid.eq((yield port.w.valid) & (yield port.w.last))

    run_simulation(writer, lists())
    assert refused == [LAST + 1]
    assert asked == [FIRST + 8*i for i in range(16)]*2
