#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""DMA reader and writer, through a lane whose core hands on what it gets.

    memory ──► reader ──► copy | stalling copy | probe ──► writer ──► memory
       ▲  random gaps         random stalls                  random stalls ▲
       └────────────────── AXI3 rules checked on every cycle ──────────────┘
"""

import numpy as np
import pytest

from litetern.model.formats.stream import DESCRIPTOR, descriptor

from dma_bench import *

# Lengths and offsets ------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 4, 15, 16, 17, 31, 33, 511, 512, 513, 1030)
OFFSETS = (-136, -128, -24, -16, -8, 0, 8, 16, 120, 128)
STALLS  = {
    "none"          : (dict(), "matmul"),
    "idle"          : (dict(r=0.5), "matmul"),
    "back-pressure" : (dict(), "attention"),
    "writes"        : (dict(aw=0.7, w=0.5, b=0.8), "matmul"),
    "all"           : (dict(ar=0.6, r=0.3, aw=0.6, w=0.3, b=0.6), "attention"),
}


@pytest.mark.parametrize("stalls", STALLS)
def test_lengths_and_offsets(bench, stalls):
    probabilities, core = STALLS[stalls]
    bench.pl.stall(**probabilities)
    for length in LENGTHS:
        for offset in OFFSETS:
            bench.copy([(SOURCE + 4096 + offset, 8*length)], TARGET + 4096, core)
            bench.copy([(SOURCE + 4096, 8*length)], TARGET + 4096 + offset, core)


def test_long_piece(bench):
    outcome = bench.copy([(SOURCE + 8, 8*(2**16 + 3))])
    assert outcome.cycles < 2**16 + 400


def test_longest_piece_counts_on(bench):
    """512 MB: bursts follow each other without a gap over the first thousands; then the list is aborted."""
    seen = []
    bench.driver.allow([(BASE, 512 << 20)], bench.pl.regions)
    bench.pl.set_hook(lambda write, address, bytes: seen.append((address, bytes)))
    bench.at(LIST, 8)[:] = np.array([descriptor(BASE, 512 << 20, last=True)], dtype="<u8").view(np.uint8)
    bench.driver.start(0, "probe", LIST, TARGET, 8)
    bench.pl.run(20000)
    bench.driver.abort(0)
    assert bench.driver.wait(0).flags == {"done", "error", "aborted"}
    bursts = seen[1:]
    assert len(bursts) > 1200 and all(bytes == 128 for _, bytes in bursts)
    assert [address for address, _ in bursts] == list(range(BASE, BASE + 128*len(bursts), 128))

# Lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100])
def test_lists(bench, entries):
    for longest in (1, 3, 40):
        for offset in (0, 8, 16, 24, 0x1000 - 0x100 - 8):  # The last one has the list cross 4,096.
            # Filling one piece may change another that overlaps it: `start` reads them back afterwards.
            bench.copy(draw_pieces(bench.rng, entries, longest), list_address=LIST + offset)
    bench.pl.stall(ar=0.5, r=0.3, b=0.5)
    bench.copy(draw_pieces(bench.rng, entries, 20), core="attention")


def test_list_is_read_within_its_cache_lines(bench):
    for entries in (1, 4, 5, 16, 17):
        for offset in (0, 8, 24):
            seen = []
            bench.pl.set_hook(lambda write, address, bytes: write or seen.append((address, address + bytes)))
            bench.copy(draw_pieces(bench.rng, entries, 4), list_address=LIST + offset)
            lists = [(first, last) for first, last in seen if first < SOURCE]
            end   = (LIST + offset + 8*entries + 31) & ~31
            assert lists[0][0] == LIST + offset and max(last for _, last in lists) == end


def test_no_beat_is_lost_at_borders(bench):
    """Whatever the pieces, a list costs its beats, those of its own cache lines, and one start."""
    for pieces in ([(SOURCE + 8*i, 512) for i in range(100)], [(SOURCE + 128*i, 14*8 if i % 2 else 768*8) for i in range(60)]):
        bench.start(pieces, core="probe", limit=8)
        outcome = bench.driver.wait(0)
        beats   = sum(bytes for _, bytes in pieces)//8
        lines   = -(-len(pieces)//4)
        assert outcome.flags == {"done"} and outcome.beats == beats and outcome.stalls == 0
        assert outcome.cycles <= beats + 4*lines + 130

# Latency ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [20, 40, 100, 120, 200])
def test_latency(latency):
    bench  = Bench(read_latency=latency)
    beats  = 20000
    pieces = [(SOURCE + 48, 8*(beats//2)), (SOURCE + 80000, 8*(beats//2))]
    expected = bench.start(pieces, core="probe", limit=8)
    outcome  = bench.driver.wait(0)
    total    = expected.view("<u8").sum(dtype=np.uint64)
    assert outcome.flags == {"done"} and bench.at(TARGET, 8).view("<u8")[0] == total
    # A burst is on its way for its latency and its 16 beats; eight of them hide 112 cycles, then the port sets the pace.
    pace = max(1.0, (latency + 16)/128)
    assert outcome.cycles <= pace*beats*1.005 + 3*latency + 60
    bench.copy(draw_pieces(bench.rng, 30, 40), core="attention")
    assert bench.pl.fault is None

# Errors -------------------------------------------------------------------------------------------


def failed(bench, *errors):
    """Waits for the end; it must tell these errors, and once the memory is well again the next list must be right."""
    outcome = bench.driver.wait(0, max_cycles=50*TIMEOUT)
    assert outcome.flags - {"draining"} == {"done", "error", *errors}
    bench.pl.inject()
    bench.pl.run(4*TIMEOUT)
    assert "draining" not in bench.driver.flags(0)
    bench.copy([(SOURCE + 8, 8*100)], core="attention")
    return outcome


def test_read_error(bench):
    for bad in (SOURCE, SOURCE + 8*500, SOURCE + 8*999):
        bench.pl.inject(read_errors=(bad, bad + 8))
        bench.start([(SOURCE, 8*1000)])
        failed(bench, "reader_response")


def test_read_error_of_the_list(bench):
    bench.pl.inject(read_errors=(LIST, LIST + 8))
    bench.start([(SOURCE, 800)])
    failed(bench, "reader_response")


def test_list_outside_memory(bench):
    """Where it is allowed, but nothing is there: the memory answers with an error."""
    bench.driver.allow([*bench.pl.regions, (0xF000_0000, 4096)], bench.pl.regions)
    bench.driver.start(0, "matmul", 0xF000_0000, TARGET, 8)
    failed(bench, "reader_response")


@pytest.mark.parametrize("position", [0, 1, 3, 5])
def test_descriptor_without_length(bench, position):
    words = [descriptor(SOURCE + 64*i, 64) for i in range(6)]
    words[position] = DESCRIPTOR.pack(address=SOURCE//8, length=0, last=position == 5)
    bench.at(LIST, 48)[:] = np.array(words, dtype="<u8").view(np.uint8)
    bench.driver.start(0, "matmul", LIST, TARGET, 8*64)
    failed(bench, "reader_descriptor")


def test_write_error(bench):
    for bad in (TARGET, TARGET + 8*700):
        bench.pl.inject(write_errors=(bad, bad + 8))
        bench.start([(SOURCE, 8*1000)])
        outcome = failed(bench, "writer_response")
        assert outcome.results <= bad - TARGET


@pytest.mark.parametrize("room", [0, 1, 16, 99])
def test_overrun(bench, room):
    expected = bench.start([(SOURCE, 800)], limit=8*room)
    outcome  = bench.driver.wait(0)
    assert outcome.flags == {"done", "error", "writer_overrun"} and outcome.results <= 8*room
    landed = bench.at(TARGET, 800)
    assert (landed[:outcome.results] == expected[:outcome.results]).all()
    assert (landed[8*room:] == 0xA5).all()
    bench.copy([(SOURCE, 808)])


def test_silent_memory(bench):
    bench.pl.inject(silent=1)
    bench.start([(SOURCE, 800)])
    outcome = bench.driver.wait(0, max_cycles=10*TIMEOUT)
    assert outcome.flags >= {"done", "error", "reader_timeout", "draining"} and TIMEOUT < outcome.cycles < 3*TIMEOUT
    # A second doorbell waits in vain for what is on its way, and says so.
    bench.driver.start(0, "matmul", LIST, TARGET, 800)
    outcome = bench.driver.wait(0, max_cycles=10*TIMEOUT)
    assert outcome.flags >= {"done", "error", "reader_timeout", "draining"}
    bench.driver.start(0, "matmul", LIST, TARGET, 800)
    failed(bench, "reader_timeout")


def test_memory_falls_silent_midway(bench):
    for cycles in (90, 200, 600):
        bench.start([(SOURCE, 8*2000)])
        bench.pl.run(cycles)
        bench.pl.inject(silent=1)
        outcome = bench.driver.wait(0, max_cycles=20*TIMEOUT)
        assert {"done", "error"} < outcome.flags and outcome.flags & {"reader_timeout", "writer_timeout"}
        bench.pl.inject()
        bench.pl.run(4*TIMEOUT)
        bench.copy([(SOURCE, 808)])


def test_memory_that_recovers_during_a_doorbell(bench):
    bench.pl.inject(silent=1)
    bench.start([(SOURCE, 800)])
    bench.driver.wait(0, max_cycles=10*TIMEOUT)
    expected = bench.start([(SOURCE, 1600)])
    bench.pl.run(100)
    bench.pl.inject()
    assert bench.driver.wait(0).flags == {"done"}
    bench.check(expected)

def test_results_of_an_earlier_list_are_none_of_the_next_one(bench):
    """A list is given up while its writes are not answered. Answers that come under the next doorbell count for nobody."""
    bench.start([(SOURCE, 8*2000)])
    bench.pl.run(400)
    bench.pl.inject(silent=1)
    before = bench.driver.wait(0, max_cycles=20*TIMEOUT)
    assert before.results > 0 and "draining" in before.flags
    expected = bench.start([(SOURCE, 8*100)])
    assert bench.driver.flags(0) == {"busy"} and bench.driver.read("lane0_results") == 0
    bench.pl.inject()
    while "busy" in bench.driver.flags(0):
        landed = bench.driver.read("lane0_results")
        assert (bench.at(TARGET, landed) == expected[:landed]).all()
        bench.pl.run(1)
    assert bench.driver.wait(0).flags == {"done"} and bench.driver.read("lane0_results") == len(expected)
    bench.check(expected)

# Abort --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", ["matmul", "attention"])
def test_abort_and_restart(bench, core):
    for cycles in (0, 1, 5, 40, 50, 60, 80, 100, 103, 200, 333, 1000):
        for probability in (0.0, 0.5):
            bench.pl.stall(ar=probability, r=probability, aw=probability, w=probability, b=probability)
            expected = bench.start([(SOURCE, 8*3000), (SOURCE + 8*5000, 8*1000)], core=core)
            bench.pl.run(cycles)
            bench.driver.abort(0)
            outcome = bench.driver.wait(0, max_cycles=5000)
            assert outcome.flags == {"done", "error", "aborted"}
            landed = bench.at(TARGET, len(expected))
            assert (landed[:outcome.results] == expected[:outcome.results]).all()
            bench.copy([(SOURCE + 8, 8*40), (SOURCE + 4096, 8)], TARGET + 8, core)


def test_abort_without_a_list(bench):
    bench.copy([(SOURCE, 80)])
    bench.driver.abort(0)
    assert bench.driver.flags(0) == {"done"}
    bench.copy([(SOURCE, 80)])


def test_doorbell_while_busy_is_ignored(bench):
    expected = bench.start([(SOURCE, 8*2000)])
    bench.pl.run(300)
    bench.driver.write("lane0_control", 1 | 2 << 4)
    assert bench.driver.wait(0).flags == {"done"}
    bench.check(expected)

# Progress and interrupts --------------------------------------------------------------------------


def test_progress_is_readable(bench):
    expected = bench.start([(SOURCE, 8*4000)], core="attention")
    seen     = [0]
    while "busy" in bench.driver.flags(0):
        bench.pl.run(200, until_idle=False)
        seen.append(bench.driver.read("lane0_results"))
        assert (bench.at(TARGET, seen[-1]) == expected[:seen[-1]]).all()
    assert seen == sorted(seen) and seen[-1] == len(expected) and len(set(seen)) > 20


def test_slow_results_do_not_wait_for_a_full_burst(bench):
    """A beat in about 200 cycles: those that are here are written after a while, not only when 16 are together."""
    bench.pl.stall(r=0.995)
    expected = bench.start([(SOURCE, 8*30)])
    seen = set()
    while "busy" in bench.driver.flags(0):
        bench.pl.run(100, until_idle=False)
        seen.add(bench.driver.read("lane0_results"))
    assert bench.driver.flags(0) == {"done"} and len(seen) > 5
    bench.check(expected)


def test_interrupts(bench):
    driver = bench.driver
    driver.write("lane0_ev_pending", 3)
    pieces = [(SOURCE + 1024*i, 1024) for i in range(8)]
    assert bench.pl.irq == 0
    driver.write("lane0_ev_enable", 0b11)
    done, descriptor_read = (1 << bench.pl.fields["accelerator_lane0_ev_pending"][name][0] for name in ("done", "descriptor"))

    bench.start(pieces, irq=(2, 5))
    beats = []
    for _ in range(2):
        bench.pl.run(10**6, until_irq=True)
        assert driver.read("lane0_ev_pending") == descriptor_read
        beats.append(driver.read("lane0_beats"))
        driver.write("lane0_ev_pending", descriptor_read)
        assert bench.pl.irq == 0
    assert 3*128 <= beats[0] < 4*128 and 6*128 <= beats[1] < 7*128
    bench.pl.run(10**6, until_irq=True)
    assert driver.read("lane0_ev_pending") == done and driver.flags(0) == {"done"}
    driver.write("lane0_ev_pending", done)
    driver.write("lane0_ev_enable", 0)
    bench.start(pieces)
    driver.wait(0)
    assert bench.pl.irq == 0 and driver.read("lane0_ev_pending") == done
