#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Reductions of the matmul core: instead of all rows of a group, its best row or its K best, for each vector."""

from migen import *
from migen.genlib.fsm import FSM, NextState, NextValue

from litex.gen import LiteXModule
from litex.soc.interconnect import stream

from litetern.model.formats.stream import MATMUL_HEADER, MATMUL_RECORD, REDUCE_ARGMAX, REDUCE_NONE

from litetern.cores.common import data_layout, sign_extended
from litetern.cores.matmul.results import row_layout

ROW_WIDTH = MATMUL_HEADER["rows"].width

# Shortlist Memory ---------------------------------------------------------------------------------


class ShortlistMemory(LiteXModule):
    """Entries 1 … K of each vector, as a binary heap needs them: both children of an entry come in one read.

    Entry 1, the root, is in LUT-RAM and seen at once. Entry i > 1 is in word ``i//2`` of the even or odd bank, a cycle after `pair`
    asks for the word. The word behind the last one is word 0, which no entry uses.

    vector                   : whose entries are read and written.
    root                     : entry 1.
    pair → even, odd         : entries ``2·pair`` and ``2·pair + 1`` (none are built for `topk_max` = 1).
    write, index, data       : writes an entry.
    sweep, sweep_address     : writes `data` to a word of all memories, whatever `vector` is.
    """
    def __init__(self, vectors, key_width, topk_max):
        pair_bits          = max(bits_for(topk_max - 1) - 1, 1)
        self.words         = vectors << pair_bits
        self.vector        = Signal(max=max(vectors, 2))
        self.root          = Signal((key_width, True))
        self.pair          = Signal(bits_for(topk_max))
        self.even          = Signal((key_width, True))
        self.odd           = Signal((key_width, True))
        self.write         = Signal()
        self.index         = Signal(bits_for(topk_max))
        self.data          = Signal(key_width)
        self.sweep         = Signal()
        self.sweep_address = Signal(max=max(self.words, 2))

        # # #

        roots          = Memory(key_width, max(vectors, 2), name="roots")
        write_port     = roots.get_port(write_capable=True)
        read_port      = roots.get_port(async_read=True)
        self.specials += roots, write_port, read_port
        self.comb     += [
            write_port.adr.eq(Mux(self.sweep, self.sweep_address, self.vector)),
            write_port.dat_w.eq(self.data),
            write_port.we.eq(self.sweep | (self.write & (self.index == 1))),
            read_port.adr.eq(self.vector),
            self.root.eq(read_port.dat_r),
        ]
        if topk_max == 1:
            return

        vector = [self.vector]*(vectors > 1)
        for parity, entry in enumerate((self.even, self.odd)):
            bank           = Memory(key_width, self.words, name=f"bank{parity}")
            bank.attr      = {("ram_style", "block")}
            write_port     = bank.get_port(write_capable=True, mode=READ_FIRST)
            read_port      = bank.get_port(mode=READ_FIRST)
            self.specials += bank, write_port, read_port
            self.comb     += [
                write_port.adr.eq(Mux(self.sweep, self.sweep_address, Cat(self.index[1:1 + pair_bits], *vector))),
                write_port.dat_w.eq(self.data),
                write_port.we.eq(self.sweep | (self.write & (self.index != 1) & (self.index[0] == parity))),
                read_port.adr.eq(Cat(self.pair[:pair_bits], *vector)),
                entry.eq(read_port.dat_r),
            ]


# Row Reducer --------------------------------------------------------------------------------------


class RowReducer(LiteXModule):
    """Rows → records (value, row), best first; of equal values the lower row first.

    Keeps the K best so far of each vector in a heap whose root is the worst of them. A value that is not better than the root
    costs two cycles; one that is replaces the root (arg-max: that is all) and sinks to its place, two cycles a level. After the last
    row the heap is sorted in place, sent, and left empty for the next group.

    Rows that come faster than they can be placed wait in the row FIFO and then at the core's sink: with one vector and rows
    of 20 beats or more, nothing ever waits before the last row.
    """
    def __init__(self, vectors, width, topk_max):
        self.sink   = sink   = stream.Endpoint(row_layout(vectors, width, True))
        self.source = source = stream.Endpoint(data_layout())
        self.idle   = Signal()

        # # #

        # An entry is one number, value over inverted row: the better entry is the larger number.
        key_width = width + ROW_WIDTH
        empty     = 1 << (key_width - 1)  # Below every sum of the accumulators.
        with_heap = topk_max > 1
        self.memory = memory = ShortlistMemory(vectors, key_width, topk_max)

        # Candidate: one value of the row at the sink -----------------------------------------------

        node     = Signal((key_width, True), reset_less=True)  # Entry that looks for its place.
        vector   = Signal.like(memory.vector)                  # The vector that it belongs to.
        waiting  = Signal()                                    # It is a candidate,
        closing  = Signal()                                    # the last one of its group.
        lane     = Signal.like(vector)                         # Vector that is next at the sink.
        top      = Signal.like(vector)                         # Last vector of the group.
        row      = Signal(ROW_WIDTH)
        limit    = Signal.like(memory.index)                   # K.
        count    = Signal.like(memory.index)                   # Entries that are filled, up to K.
        collect  = Signal()
        consume  = Signal()
        take     = Signal()
        finish   = Signal()
        value    = Signal(width)
        next_top = Signal.like(vector)
        next_k   = Signal.like(limit)
        self.comb += [
            memory.vector.eq(vector),
            next_top.eq((1 << sink.vectors_log2) - 1 if vectors > 1 else 0),
            next_k.eq(Mux(sink.reduce == REDUCE_ARGMAX, 1, sink.topk)),
            Case(lane, {v: value.eq(sink.values[width*v:width*(v + 1)]) for v in range(vectors)}),
            take.eq(sink.valid & (sink.reduce != REDUCE_NONE) & collect & (~waiting | (consume & ~closing))),
            sink.ready.eq(take & (lane == next_top)),
        ]
        sweep      = Signal()
        self.sync += [
            If(consume, waiting.eq(0)),
            If(take,
                waiting.eq(1),
                closing.eq(sink.last & sink.ready),
                node.eq(Cat(~row, value)),
                vector.eq(lane),
                top.eq(next_top),
                limit.eq(next_k),
                lane.eq(lane + 1),
            ),
            If(sink.ready,
                lane.eq(0),
                If(count != next_k, count.eq(count + 1)),
            ),
            If(sink.ready | sweep, row.eq(row + 1)),
            If(finish, row.eq(0), count.eq(0)),
        ]

        # States ------------------------------------------------------------------------------------

        hole      = Signal.like(memory.index, reset=1)  # Entry that `node` may take; afterwards, entry that is sent.
        size      = Signal.like(memory.index)           # Entries of the heap that are not sorted yet.
        sorting   = Signal()
        single    = Signal()
        better    = Signal()
        challenge = Signal((width, True))
        worst     = Signal((width, True))
        self.comb += [
            single.eq(limit == 1),
            challenge.eq(node[ROW_WIDTH:]),
            worst.eq(memory.root[ROW_WIDTH:]),
            memory.index.eq(hole),
            memory.data.eq(node),
            memory.pair.eq(hole),
        ]
        self.sync += better.eq(challenge > worst)  # Rows come in order: an equal value is not better.
        self.fsm   = fsm = FSM(reset_state="SWEEP")
        calm       = Signal()  # No entry moved in the cycle before: the state itself would be a long path to the row FIFO.
        self.sync += calm.eq(fsm.ongoing("SWEEP") | fsm.ongoing("COLLECT"))
        self.comb += self.idle.eq(calm & ~waiting)

        # After a reset no entry of an abandoned group may be left.
        fsm.act("SWEEP",
            sweep.eq(1),
            memory.sweep.eq(1),
            memory.sweep_address.eq(row),
            memory.data.eq(empty),
            If(row == max(memory.words, 2) - 1,
                finish.eq(1),
                NextState("COLLECT"),
            ),
        )
        deliver = [NextState("FETCH")]  # The entries of `vector`.
        if with_heap:
            deliver = [If(single, NextState("FETCH")).Else(NextState("SORT"))]
        close = [
            NextValue(vector,  0),
            NextValue(size,    limit),
            NextValue(sorting, 1),
            *deliver,
        ]
        settle = [
            consume.eq(1),
            memory.write.eq(better),
            If(closing, *close),
        ]
        fsm.act("COLLECT",
            collect.eq(1),
            NextValue(size, limit),
            If(waiting, NextState("DECIDE")),
        )
        fsm.act("DECIDE",
            collect.eq(1),
            NextState("COLLECT"),
            *([If(better & ~single, NextState("COMPARE")).Else(*settle)] if with_heap else settle),
        )
        if with_heap:
            self._heap(fsm, node, hole, size, limit, sorting, consume, closing, close)

        # Send: a record a cycle, and its entry is left empty -----------------------------------------

        record    = Signal(key_width)
        self.comb += [
            record.eq(Mux(hole == 1, memory.root, Mux(hole[0], memory.odd, memory.even))),
            MATMUL_RECORD.slice(source.data, "value").eq(sign_extended(record[ROW_WIDTH:], MATMUL_RECORD["value"].width)),
            MATMUL_RECORD.slice(source.data, "row").eq(~record[:ROW_WIDTH] & (2**ROW_WIDTH - 1)),
        ]
        fsm.act("FETCH",
            memory.pair.eq(hole >> 1),
            NextState("SEND"),
        )
        fsm.act("SEND",
            source.valid.eq(1),
            source.last.eq((hole == count) & (vector == top)),
            memory.data.eq(empty),
            memory.pair.eq(hole >> 1),
            If(source.ready,
                memory.write.eq(1),
                memory.pair.eq((hole + 1) >> 1),
                NextValue(hole, hole + 1),
                If(hole == count,
                    NextValue(hole, 1),
                    If(vector == top,
                        finish.eq(1),
                        NextValue(sorting, 0),
                        NextState("COLLECT"),
                    ).Else(
                        NextValue(vector, vector + 1),
                        NextValue(size,   limit),
                        *deliver,
                    ),
                ),
            ),
        )

    def _heap(self, fsm, node, hole, size, limit, sorting, consume, closing, close):
        """States that let `node` sink from the root (COMPARE, MOVE), and that sort (SORT, SWAP, START)."""
        memory      = self.memory
        right_worst = Signal()
        left_moves  = Signal()
        right_moves = Signal()
        child       = Signal.like(hole)
        self.comb  += child.eq(Cat(right_worst, hole))

        # The children of `hole` are at the outputs of the memory, and stay there for MOVE.
        fsm.act("COMPARE",
            NextValue(right_worst, (Cat(C(1, 1), hole) <= size) & (memory.odd < memory.even)),
            NextValue(left_moves,  (Cat(C(0, 1), hole) <= size) & (memory.even < node)),
            NextValue(right_moves, (Cat(C(1, 1), hole) <= size) & (memory.odd  < node)),
            NextState("MOVE"),
        )
        # The worse child moves up if it is worse than `node`, and leaves the hole one level further down.
        fsm.act("MOVE",
            memory.write.eq(1),
            If(Mux(right_worst, right_moves, left_moves),
                memory.data.eq(Mux(right_worst, memory.odd, memory.even)),
                memory.pair.eq(child),
                NextValue(hole, child),
                NextState("COMPARE"),
            ).Else(
                NextValue(hole, 1),
                If(~sorting,
                    consume.eq(1),
                    NextState("COLLECT"),
                    If(closing, *close),
                ).Elif(size == 1,
                    NextState("FETCH"),
                ).Else(
                    NextState("SORT"),
                ),
            ),
        )
        # The worst entry left, the root, goes behind the heap; the entry that was there sinks from the root.
        fsm.act("SORT",
            memory.pair.eq(size >> 1),
            NextState("SWAP"),
        )
        fsm.act("SWAP",
            memory.write.eq(1),
            memory.index.eq(size),
            memory.data.eq(memory.root),
            NextValue(node, Mux(size[0], memory.odd, memory.even)),
            NextValue(size, size - 1),
            NextState("START"),
        )
        fsm.act("START",
            NextState("COMPARE"),
        )
