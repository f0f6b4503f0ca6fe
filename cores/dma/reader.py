#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""DMA reader: a descriptor list in memory becomes one 64-bit stream, by AXI3 bursts on an HP port."""

from migen import *

from litex.gen import *
from litex.gen.genlib.misc import WaitTimer

from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXSIZE, BURST_INCR, RESP_OKAY

from litetern.cores.dma.descriptor import BLOCKS_BITS, DescriptorFetch, burst_layout
from litetern.cores.dma.ranges import ADDRESS_BITS, BLOCK_BITS, OFFSET_BITS
from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS

ERRORS = (
    ("descriptor", "A descriptor had length 0."),
    ("range",      "The list or a piece of it lies where nothing may be read; nothing of it was asked for."),
    ("response",   "A read was answered with an error."),
    ("timeout",    "A read was not answered in time."),
)

AX_CACHE = 0b0011  # Normal, bufferable memory.

# DMA Reader ---------------------------------------------------------------------------------------


class DMAReader(LiteXModule):
    """Streams the memory that a descriptor list names.

    A piece is cut at multiples of 128 bytes, so that bursts are 16 beats long, never cross 4 KB, and only the first and the last of
    a piece can be shorter, wherever it begins. Descriptors are read on the same channel ahead of need. All bursts carry ID 0, so
    answers come in the order of the requests and a small FIFO knows what each one is.

    There is no data FIFO: the HP port's own holds what the stream cannot take.

    LiteX's and LiteDRAM's DMAs are not used: the first makes single-beat Wishbone accesses, the second asks word by word, and neither
    keeps AXI3 bursts and descriptors on their way at once.

    ::

        descriptor fetch ─► burst cutter ─┬─► AR
                 ▲                        └─► order FIFO ─┐
                 └───────────── descriptors ◄─ R ◄────────┴─► data ─► source

    Parameters
    ----------
    axi         : AXIInterface (axi3, 64-bit); AR and R are driven.
    ranges      : Records of `range_layout()`: what may be read.
    line_beats  : of a cache line of the CPU, which writes the list.
    outstanding : bursts that may be on their way; an HP port takes 8 itself, the next ones wait at its door.
    timeout     : cycles without an answer after which the memory is given up.
    """
    def __init__(self, axi, ranges, line_beats, outstanding=16, timeout=2**16):
        if axi.version != "axi3" or axi.data_width != 8*BEAT_BYTES:
            raise ValueError(f"reader on {axi.version} of {axi.data_width} bits: must be axi3 of {8*BEAT_BYTES} bits")
        if outstanding < 8:
            raise ValueError(f"{outstanding} outstanding bursts: must be at least 8 to cover the memory's latency")
        self.load    = Signal()           # Level: the next list is at `address`, which no longer changes in the last cycle.
        self.start   = Signal()           # One cycle, when drained, later than that and the last one of `flush`: stream it.
        self.flush   = Signal()           # Level, three cycles at least: forget the list, drop what is still on its way.
        self.address = Signal(ADDRESS_BITS)
        self.source  = source = stream.Endpoint([("data", 64)])
        self.busy    = Signal()           # The last beat has not left yet.
        self.drained = Signal()           # No burst is on its way.
        self.irq     = Signal()           # Pulse: a descriptor that asks for it has been read.
        self.error   = Signal(len(ERRORS))

        # # #

        descriptor_error, range_error, response_error, timeout_error = (self.error[i] for i in range(len(ERRORS)))

        # Descriptors ------------------------------------------------------------------------------

        self.fetch = fetch = DescriptorFetch(ranges, line_beats)
        self.comb += [
            fetch.load.eq(self.load),
            fetch.start.eq(self.start),
            fetch.stop.eq(self.flush),
            fetch.address.eq(self.address),
        ]

        # Burst cutter: one burst per block of the current piece -----------------------------------

        valid  = Signal()
        block  = Signal(BLOCK_BITS)
        offset = Signal(OFFSET_BITS)
        left   = Signal(BLOCKS_BITS)  # Blocks after this one …
        final  = Signal()             # … and whether there are none, known a cycle ahead.
        end    = Signal(OFFSET_BITS)
        last   = Signal()
        irq    = Signal()
        take   = Signal()             # The burst is issued.
        piece  = fetch.source
        self.comb += [
            piece.ready.eq(~valid | (take & final)),
            descriptor_error.eq(piece.valid & piece.ready & piece.bad & ~self.flush),
            range_error.eq((fetch.outside | (piece.valid & piece.ready & piece.outside & ~piece.bad)) & ~self.flush),
        ]
        self.sync += [
            If(take,
                block.eq(block + 1),
                offset.eq(0),
                left.eq(left - 1),
                final.eq(left == 1),
            ),
            If(piece.ready,
                valid.eq(piece.valid & ~piece.bad & ~piece.outside),
                block.eq(piece.block),
                offset.eq(piece.offset),
                left.eq(piece.blocks),
                final.eq(piece.blocks == 0),
                end.eq(piece.end),
                last.eq(piece.last),
                irq.eq(piece.irq),
            ),
            If(self.flush, valid.eq(0)),
        ]

        # Requests: descriptors first, they are few and everything waits for them ------------------

        self.requests = requests = stream.Buffer(burst_layout())
        self.order    = order    = stream.SyncFIFO([("descriptor", 1), ("irq", 1)], outstanding)
        ar            = axi.ar
        issue         = Signal()
        self.comb += [
            issue.eq((fetch.request.valid | valid) & ~self.flush),
            requests.sink.valid.eq(issue & order.sink.ready),
            order.sink.valid.eq(issue & requests.sink.ready),
            If(fetch.request.valid,
                fetch.request.connect(requests.sink, omit={"valid", "ready"}),
                fetch.request.ready.eq(requests.sink.ready & order.sink.ready & ~self.flush),
                order.sink.descriptor.eq(1),
            ).Else(
                take.eq(valid & requests.sink.ready & order.sink.ready & ~self.flush),
                requests.sink.address.eq(Cat(offset, block)),
                requests.sink.len.eq(Mux(final, end, BURST_BEATS - 1) - offset),
                order.sink.last.eq(last & final),
                order.sink.irq.eq(irq & final),
            ),
            ar.valid.eq(requests.source.valid),
            requests.source.ready.eq(ar.ready),
            ar.addr.eq(Cat(Constant(0, log2_int(BEAT_BYTES)), requests.source.address)),
            ar.len.eq(requests.source.len),
            ar.size.eq(AXSIZE[BEAT_BYTES]),
            ar.burst.eq(BURST_INCR),
            ar.cache.eq(AX_CACHE),
            ar.id.eq(0),
            ar.lock.eq(0),
            ar.prot.eq(0),
        ]

        # Answers ----------------------------------------------------------------------------------

        # Registers on both sides: of what goes to the core and of the ready that goes to the port.
        layout    = [("data", 64), ("irq", 1)]
        self.skid = skid = stream.PipeReady(layout)
        self.data = data = stream.PipeValid(layout)
        r         = axi.r
        this      = order.source
        self.comb += [
            r.ready.eq(this.valid & (self.flush | this.descriptor | skid.sink.ready)),
            this.ready.eq(r.valid & r.ready & r.last),
            fetch.sink.valid.eq(r.valid & this.valid & this.descriptor & ~self.flush),
            fetch.sink.last.eq(r.last),
            fetch.sink.data.eq(r.data),
            skid.sink.valid.eq(r.valid & this.valid & ~this.descriptor & ~self.flush),
            skid.sink.last.eq(r.last & this.last),
            skid.sink.irq.eq(r.last & this.irq),
            skid.sink.data.eq(r.data),
            skid.source.connect(data.sink),
            response_error.eq(r.valid & r.ready & (r.resp != RESP_OKAY) & ~self.flush),
            self.drained.eq(~this.valid),
        ]

        # Stream -----------------------------------------------------------------------------------

        # During a flush the owner holds the core in reset: what it takes is lost. The registers are empty two cycles later.
        self.comb += [
            data.source.connect(source, omit={"irq", "ready"}),
            data.source.ready.eq(source.ready | self.flush),
        ]
        self.sync += [
            self.irq.eq(source.valid & source.ready & data.source.irq & ~self.flush),
            If(source.valid & source.ready & source.last, self.busy.eq(0)),
            If(self.flush, self.busy.eq(0)),
            If(self.start, self.busy.eq(1)),
        ]

        # Time-out: bursts are on their way and no beat comes --------------------------------------

        self.timer = timer = WaitTimer(timeout)
        self.comb += [
            timer.wait.eq(this.valid & ~r.valid & ~timer.done),
            timeout_error.eq(timer.done),
        ]
