#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What reader and writer hold while the memory stands still: each FIFO is filled to its bound, and nothing is lost or asked for twice."""

import pytest

from dma_bench import *

# Writer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("withheld", [0.9, 0.97])
def test_bursts_wait_for_their_addresses(bench, withheld):
    """Groups of a few beats, so bursts of one and two: they come far faster than addresses are taken."""
    bench.pl.stall(aw=withheld)
    for offset in (0, 8, 120):
        bench.copy([(SOURCE, 8*600)], TARGET + offset, "attention")


@pytest.mark.parametrize("withheld", [0.9, 0.99])
def test_patience_ends_while_bursts_wait(bench, withheld):
    """Beats that are gathered for longer than the writer's patience leave as a burst of their own, however many wait before it."""
    bench.pl.stall(aw=withheld, r=0.5)
    for core in ("matmul", "attention"):
        bench.copy([(SOURCE + 8, 8*150)], TARGET + 8, core)
    bench.pl.stall(aw=withheld, r=0.99, w=0.9)
    bench.copy([(SOURCE + 8, 8*40)], TARGET + 24, "attention")

# Reader -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 8, 16, 24])
def test_descriptors_wait_for_a_long_piece(bench, offset):
    """Lines are read ahead until they no longer fit, wherever the list begins in its line."""
    for long in (1, 2, 3):
        pieces = [(SOURCE, 8*5000)]*long + draw_pieces(bench.rng, 40, 3)
        bench.copy(pieces, list_address=LIST + offset)


def test_a_memory_that_takes_more_bursts_than_the_reader_keeps_in_order():
    """Lines of the list are asked for among bursts at the bound; pieces are long enough that descriptors wait for them."""
    bench = Bench(outstanding=64, read_latency=200)
    for entries, longest in ((100, 3), (100, 40), (60, 400)):
        for offset in (0, 8, 24):
            bench.copy(draw_pieces(bench.rng, entries, longest), list_address=LIST + offset)
    assert bench.pl.fault is None


@pytest.mark.parametrize("first", range(0, 400, 40))
def test_abort_at_every_cycle(bench, first):
    """The next list is right wherever the last one was stopped: beats in the reader's registers, lines and bursts on their way."""
    bench.pl.stall(r=0.3)
    for cycles in range(first, first + 40):
        core = ("matmul", "attention")[cycles % 2]
        bench.start(draw_pieces(bench.rng, 30, 20), core=core)
        bench.pl.run(cycles)
        bench.driver.abort(0)
        assert "aborted" in bench.driver.wait(0, max_cycles=5000).flags or cycles > 300
        bench.copy([(SOURCE + 8, 8*7), (SOURCE + 4096, 8)], TARGET + 8, core)
