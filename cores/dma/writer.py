#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""DMA writer: a 64-bit stream lands in one contiguous piece of memory, by AXI3 bursts on an HP port."""

from migen import *

from litex.gen import *
from litex.gen.genlib.misc import WaitTimer

from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXSIZE, BURST_INCR, RESP_OKAY

from litetern.cores.dma.descriptor import LENGTH_BITS, burst_layout
from litetern.cores.dma.ranges import ADDRESS_BITS, BLOCK_BITS, OFFSET_BITS, RangeCheck
from litetern.cores.dma.reader import AX_CACHE
from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS

ERRORS = (
    ("overrun",  "More results than the destination has room for; the surplus was dropped."),
    ("range",    "Some of the destination lies where nothing may be written; nothing of it was asked for."),
    ("response", "A write was answered with an error."),
    ("timeout",  "A write was not accepted or answered in time."),
)

# DMA Writer ---------------------------------------------------------------------------------------


class DMAWriter(LiteXModule):
    """Writes a stream to consecutive addresses and counts what the memory has acknowledged.

    Beats are gathered up to the next multiple of 128 bytes, so that bursts are 16 beats long and never cross 4 KB. A shorter burst
    leaves where a group ends (`sink.last`) and when no beat has come for `patience` cycles, so that software can follow the
    progress. A burst is announced only when all of its data is here: the write channel never waits for the core.

    ::

        sink ─► data FIFO ──────────────────────────► W
             └► burst former ─► bursts FIFO ─┬──────► AW
                                             └► lengths ─► acknowledged ◄─ B

    Parameters
    ----------
    axi         : AXIInterface (axi3, 64-bit); AW, W and B are driven.
    ranges      : Records of `range_layout()`: what may be written.
    depth       : beats of the data FIFO, at least two bursts.
    outstanding : bursts that may wait for their answer.
    patience    : cycles without a beat after which gathered ones leave.
    timeout     : cycles without progress of the memory after which it is given up.
    """
    def __init__(self, axi, ranges, depth=64, outstanding=8, patience=256, timeout=2**16):
        if axi.version != "axi3" or axi.data_width != 8*BEAT_BYTES:
            raise ValueError(f"writer on {axi.version} of {axi.data_width} bits: must be axi3 of {8*BEAT_BYTES} bits")
        if depth < 2*BURST_BEATS:
            raise ValueError(f"data FIFO of {depth} beats: must be at least {2*BURST_BEATS}")
        self.clear   = Signal()               # One cycle, during a flush: `results` is 0, also of what is still answered.
        self.start   = Signal()               # One cycle, when drained: write to `address`.
        self.flush   = Signal()               # Level: drop what comes, finish the bursts that were announced.
        self.address = Signal(ADDRESS_BITS)
        self.limit   = Signal(LENGTH_BITS)    # Room in beats.
        self.sink    = sink = stream.Endpoint([("data", 64)])
        self.results = Signal(LENGTH_BITS)    # Beats that the memory has acknowledged, in order.
        self.idle    = Signal()               # All that came has been acknowledged.
        self.drained = Signal()               # No announced burst waits for its answer.
        self.error   = Signal(len(ERRORS))

        # # #

        overrun_error, range_error, response_error, timeout_error = (self.error[i] for i in range(len(ERRORS)))

        # Room -------------------------------------------------------------------------------------

        self.input = stream.Buffer([("data", 64)])
        result     = self.input.source
        self.comb += sink.connect(self.input.sink)

        room  = Signal(LENGTH_BITS)
        full  = Signal(reset=1)
        push  = Signal()
        self.data   = data   = ResetInserter()(stream.SyncFIFO([("data", 64)], depth))
        self.bursts = bursts = stream.SyncFIFO(burst_layout(), 8)
        allowed     = Signal()  # The destination may be written.
        free        = Signal()  # Both take some more: what it lets in is counted two cycles later.
        self.sync += free.eq((data.level < depth - 2) & (bursts.level < 4) & allowed)
        self.comb += [
            push.eq(result.valid & free & ~full & ~self.flush),
            result.ready.eq(free | full | self.flush),
            overrun_error.eq(result.valid & full & ~self.flush),
            data.reset.eq(self.start),
            data.sink.valid.eq(push),
            data.sink.data.eq(result.data),
        ]
        self.sync += [
            If(push,
                room.eq(room - 1),
                full.eq(room == 1),
            ),
            If(self.start,
                room.eq(self.limit),
                full.eq(self.limit == 0),
            ),
        ]

        # Burst former: `gathered` beats from `block`, `offset` on ---------------------------------

        block    = Signal(BLOCK_BITS)
        offset   = Signal(OFFSET_BITS)  # Of the first gathered beat.
        fill     = Signal(OFFSET_BITS)  # Of the next beat.
        gathered = Signal()             # There is at least one.
        close    = Signal()             # The block is full or the group ends.
        expire   = Signal()             # Nothing came for a while.
        self.formed = formed = stream.PipeValid(burst_layout())
        self.patience = timer = WaitTimer(patience)
        self.comb += [
            timer.wait.eq(gathered & ~push),
            close.eq(push & (result.last | (fill == BURST_BEATS - 1))),
            expire.eq(gathered & ~push & timer.done & ~self.flush),  # One more always fits, and it needs a beat to be gathered again.
            formed.sink.valid.eq(close | expire),
            formed.sink.address.eq(Cat(offset, block)),
            If(close,
                formed.sink.len.eq(fill - offset),
            ).Else(
                formed.sink.len.eq(fill - offset - 1),
            ),
            formed.source.connect(bursts.sink),
        ]
        self.sync += [
            If(push,
                fill.eq(fill + 1),
                gathered.eq(1),
            ),
            If(close | expire,
                gathered.eq(0),
                offset.eq(fill + push),
            ),
            If(push & (fill == BURST_BEATS - 1), block.eq(block + 1)),
            If(self.flush, gathered.eq(0)),
            If(self.start,
                block.eq(self.address[OFFSET_BITS:]),
                offset.eq(self.address[:OFFSET_BITS]),
                fill.eq(self.address[:OFFSET_BITS]),
            ),
        ]

        # Range: the destination as it was taken, in three cycles, while nothing can have come ------

        self.check = check = RangeCheck(ranges, LENGTH_BITS + 1 - OFFSET_BITS)
        before     = Signal((OFFSET_BITS + 1, True))
        last       = Signal(LENGTH_BITS + 1)  # Last beat, counted from the start of the first block.
        steps      = Signal(3)
        self.comb += [
            before.eq(offset - 1),
            check.first.eq(block),
            check.more.eq(last[OFFSET_BITS:]),
            range_error.eq(steps[2] & ~check.inside & ~full & ~self.flush),
        ]
        self.sync += [
            steps.eq(Cat(self.start, steps[:2])),
            last.eq(room + before),
            If(steps[2], allowed.eq(check.inside)),
            If(self.flush, allowed.eq(0)),
        ]

        # Addresses --------------------------------------------------------------------------------

        self.requests = requests = stream.Buffer(burst_layout())
        self.sends    = sends    = stream.SyncFIFO([("len", OFFSET_BITS)], outstanding)  # Bursts whose data goes out …
        self.lengths  = lengths  = stream.SyncFIFO([("len", OFFSET_BITS)], outstanding)  # … and those not yet answered.
        aw            = axi.aw
        issue         = Signal()
        self.comb += [
            issue.eq(bursts.source.valid & requests.sink.ready & sends.sink.ready & lengths.sink.ready),
            bursts.source.ready.eq(issue),
            requests.sink.valid.eq(issue),
            requests.sink.address.eq(bursts.source.address),
            requests.sink.len.eq(bursts.source.len),
            sends.sink.valid.eq(issue),
            sends.sink.len.eq(bursts.source.len),
            lengths.sink.valid.eq(issue),
            lengths.sink.len.eq(bursts.source.len),
            aw.valid.eq(requests.source.valid),
            requests.source.ready.eq(aw.ready),
            aw.addr.eq(Cat(Constant(0, log2_int(BEAT_BYTES)), requests.source.address)),
            aw.len.eq(requests.source.len),
            aw.size.eq(AXSIZE[BEAT_BYTES]),
            aw.burst.eq(BURST_INCR),
            aw.cache.eq(AX_CACHE),
            aw.id.eq(0),
            aw.lock.eq(0),
            aw.prot.eq(0),
        ]

        # Data -------------------------------------------------------------------------------------

        self.words = words = stream.Buffer([("data", 64)])
        count      = Signal(OFFSET_BITS)
        w          = axi.w
        self.comb += [
            words.sink.valid.eq(data.source.valid & sends.source.valid),
            words.sink.data.eq(data.source.data),
            words.sink.last.eq(count == sends.source.len),
            data.source.ready.eq(words.sink.ready & sends.source.valid),
            sends.source.ready.eq(words.sink.valid & words.sink.ready & words.sink.last),
            w.valid.eq(words.source.valid),
            words.source.ready.eq(w.ready),
            w.data.eq(words.source.data),
            w.strb.eq(2**BEAT_BYTES - 1),
            w.id.eq(0),
            w.last.eq(words.source.last),
        ]
        self.sync += If(words.sink.valid & words.sink.ready,
            count.eq(count + 1),
            If(words.sink.last, count.eq(0)),
        )

        # Answers ----------------------------------------------------------------------------------

        b = axi.b
        self.comb += [
            b.ready.eq(1),
            lengths.source.ready.eq(b.valid),
            response_error.eq(b.valid & (b.resp != RESP_OKAY) & ~self.flush),
            self.drained.eq(~lengths.source.valid & ~bursts.source.valid & ~formed.source.valid),
            self.idle.eq(self.drained & ~gathered & ~result.valid),
        ]
        failed = Signal()
        self.sync += [
            If(b.valid,
                If(b.resp != RESP_OKAY,
                    failed.eq(1),  # What follows a hole does not count.
                ).Elif(~failed,
                    self.results.eq(self.results + lengths.source.len + 1),
                ),
            ),
            If(self.clear,
                failed.eq(1),
                self.results.eq(0),
            ),
            If(self.start, failed.eq(0)),
        ]

        # Time-out: bursts wait and the memory does nothing ----------------------------------------

        self.timer = timer = WaitTimer(timeout)
        progress   = (aw.valid & aw.ready) | (w.valid & w.ready) | b.valid
        self.comb += [
            timer.wait.eq(lengths.source.valid & ~progress & ~timer.done),
            timeout_error.eq(timer.done),
        ]
