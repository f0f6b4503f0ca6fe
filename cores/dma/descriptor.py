#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Descriptor fetch: a list in memory becomes a stream of pieces that are ready to be cut into bursts."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from litetern.cores.dma.ranges import ADDRESS_BITS, BLOCK_BITS, OFFSET_BITS, RangeCheck
from litetern.model.formats.stream import DESCRIPTOR

# Layouts ------------------------------------------------------------------------------------------

LENGTH_BITS = DESCRIPTOR["length"].width
BLOCKS_BITS = LENGTH_BITS - OFFSET_BITS + 1  # Blocks that a piece has after its first one.


def burst_layout():
    """A burst to ask for: `address` in beats, `len` as AXI counts (beats − 1)."""
    return [("address", ADDRESS_BITS), ("len", OFFSET_BITS)]


def piece_layout():
    """A descriptor as the burst engine wants it.

    block, offset : first beat.
    blocks        : further blocks after the first.
    end           : offset of the last beat in the last block.
    last, irq     : flags of the descriptor (`last` travels as the stream's own).
    bad           : the descriptor is impossible (length 0).
    outside       : some of the piece lies in none of the ranges.
    """
    return [("block", BLOCK_BITS), ("offset", OFFSET_BITS), ("blocks", BLOCKS_BITS), ("end", OFFSET_BITS), ("irq", 1), ("bad", 1),
            ("outside", 1)]

# Descriptor Fetch ---------------------------------------------------------------------------------


class DescriptorFetch(LiteXModule):
    """Reads a list of descriptors ahead of need, one cache line at a time.

    A line (4 descriptors with a Cortex-A9) is asked for as soon as it fits into the FIFO, and only when the line before it has arrived and did not end
    the list: nothing beyond the cache line of the last descriptor is ever read, so software has no more to clean than the list itself.

    Lines and pieces are checked against `ranges`: a line outside is not asked for, a piece outside is marked. Addresses wait a cycle
    for that, lines while the one before is on its way, pieces while the one before is cut.

    The owner issues `request` on the read channel and hands the answer's beats to `sink` (`sink.last`: the answer's last beat).

    Parameters
    ----------
    ranges     : Records of `range_layout()`.
    line_beats : of a cache line of the CPU, a power of two.
    depth      : descriptors that are kept ahead, a power of two, at least 2 lines.
    """
    def __init__(self, ranges, line_beats, depth=16):
        if depth < 2*line_beats or depth & (depth - 1):
            raise ValueError(f"descriptor FIFO of {depth}: must be a power of two, at least {2*line_beats}")
        self.load    = Signal()              # Level: the next list is at `address`, which no longer changes in the last cycle.
        self.start   = Signal()              # One cycle, later than that and the last one of `stop`: read it.
        self.stop    = Signal()              # Level: forget the list.
        self.address = Signal(ADDRESS_BITS)
        self.outside = Signal()              # The list goes on where nothing may be read.
        self.request = request = stream.Endpoint(burst_layout())
        self.sink    = sink    = stream.Endpoint([("data", 64)])
        self.source  = source  = stream.Endpoint(piece_layout())

        # # #

        # Request: from `pointer` to the end of its cache line, which lies within a block.
        active  = Signal()  # The end of the list has not been seen.
        waiting = Signal()  # A line is on its way.
        room    = Signal()  # It fits, as far as is known a cycle late: one beat more may have come.
        pointer = Signal(ADDRESS_BITS)
        line    = log2_int(line_beats)
        allowed = Signal()  # It may be read. Two cycles old: `pointer` changes before a line is waited for, and before the start.
        self.fifo       = fifo = ResetInserter()(stream.SyncFIFO([("data", 64)], depth))
        self.line_check = line_check = RangeCheck(ranges)
        self.comb += [
            fifo.reset.eq(self.stop),
            line_check.first.eq(pointer[OFFSET_BITS:]),
            request.valid.eq(active & ~waiting & room & allowed),
            self.outside.eq(active & ~waiting & ~allowed),
            request.address.eq(pointer),
            request.len.eq(line_beats - 1 - pointer[:line]),
        ]
        self.sync += [
            room.eq(fifo.level < depth - line_beats),
            allowed.eq(line_check.inside),
            If(request.valid & request.ready,
                waiting.eq(1),
                pointer.eq(Cat(Constant(0, line), pointer[line:] + 1)),
            ),
            # Answer: what follows the last descriptor in its line is dropped.
            If(sink.valid & sink.ready,
                If(DESCRIPTOR.slice(sink.data, "last"), active.eq(0)),
                If(sink.last, waiting.eq(0)),
            ),
            If(self.load, pointer.eq(self.address)),
            If(self.stop,
                active.eq(0),
                waiting.eq(0),
            ),
            If(self.start, active.eq(1)),
        ]
        self.comb += [
            sink.ready.eq(1),  # The request has made sure that there is room.
            fifo.sink.valid.eq(sink.valid & active),
            fifo.sink.data.eq(sink.data),
        ]

        # Decode: the first and last block and their borders, registered; then a cycle for the check.
        data     = fifo.source.data
        address  = DESCRIPTOR.slice(data, "address")
        length   = DESCRIPTOR.slice(data, "length")
        offset   = address[:OFFSET_BITS]
        before   = Signal((OFFSET_BITS + 1, True))
        last     = Signal(LENGTH_BITS + 1)  # Last beat, counted from the start of the first block.
        decoded  = Signal()
        checked  = Signal()
        self.piece_check = piece_check = RangeCheck(ranges, BLOCKS_BITS)
        self.comb += [
            before.eq(offset - 1),
            last.eq(length + before),
            fifo.source.ready.eq(~decoded | (checked & source.ready)),
            piece_check.first.eq(source.block),
            piece_check.more.eq(source.blocks),
            source.valid.eq(checked),
            source.outside.eq(~piece_check.inside),
        ]
        self.sync += [
            If(fifo.source.ready,
                decoded.eq(fifo.source.valid),
                checked.eq(0),
                source.last.eq(DESCRIPTOR.slice(data, "last")),
                source.irq.eq(DESCRIPTOR.slice(data, "irq")),
                source.bad.eq(length == 0),
                source.block.eq(address[OFFSET_BITS:]),
                source.offset.eq(offset),
                source.blocks.eq(last[OFFSET_BITS:]),
                source.end.eq(last[:OFFSET_BITS]),
            ).Else(
                checked.eq(decoded),
            ),
            If(self.stop,
                decoded.eq(0),
                checked.eq(0),
            ),
        ]
