#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The matmul core: groups of [header][x × N][rows] in, int32 results out (formats: `litetern.model.formats.stream`)."""

from migen import *

from litex.gen import LiteXModule
from litex.soc.interconnect import stream

from litetern.model.formats.stream import *

from litetern.cores.common import DATA_WIDTH, add_or_subtract, data_layout, delayed, signed_bits
from litetern.cores.matmul.control import ERRORS, VECTORS, MatmulControl
from litetern.cores.matmul.int8 import Int8Lanes
from litetern.cores.matmul.reduce import RowReducer
from litetern.cores.matmul.results import RowPacker, row_layout
from litetern.cores.matmul.ternary import TernaryDecoder, TernaryLanes
from litetern.cores.matmul.xbuffer import INT8_BANKS, XBuffer

FORMATS          = {"ternary": FORMAT_TERNARY, "int8": FORMAT_INT8}
INT8_VECTORS_MAX = 4   # 8 DSPs a vector.
ROW_FIFO_DEPTH   = 32  # Rows; half of them fill before `sink.ready` falls, half take what is in flight.

# Matmul -------------------------------------------------------------------------------------------


class Matmul(LiteXModule):
    """Streams weights past x; accepts a beat every cycle as long as the results are taken.

    ::

                     ┌─► x buffer ─┐     ┌► ternary lanes ┐                            ┌► packer ──┐
        sink ► beat ─┼─► weights ──┴─────┤                ├─► accumulators ► row FIFO ─┤           ├► source
                     └─► control         └► int8 lanes ───┘   (all × vectors)          └► reducer ─┘

    Nothing behind `beat` ever waits: `sink.ready` falls while the row FIFO could not take all that is in flight. All lane blocks
    have the same latency, so groups of different formats follow each other without a gap; x of the next group may be written
    while the last rows are still in the tree, because writes and reads of the buffer stay in the order of the stream.

    vectors_max      : 1, 2, 4 or 8 vectors share a pass over the weights.
    formats          : subset of FORMATS.
    row_weights_max  : longest row.
    topk_max         : longest shortlist; 0 leaves the reductions out, 1 builds arg-max alone.
    int8_vectors_max : vectors of an int8 group, at most 4 (by default as many as there are).

    Each set bit of `error` is a one-cycle pulse named in ERRORS. A group whose header is refused is drained by its declared counts
    and gives no results.
    """
    def __init__(self, vectors_max=1, formats=("ternary", "int8"), row_weights_max=ROW_WEIGHTS_MAX, topk_max=0,
        int8_vectors_max=None):
        if vectors_max not in VECTORS:
            raise ValueError(f"vectors_max {vectors_max}: must be one of {', '.join(map(str, VECTORS))}")
        if not formats or set(formats) - set(FORMATS):
            raise ValueError(f"formats {formats}: must be some of {', '.join(FORMATS)}")
        if not 1 <= row_weights_max <= ROW_WEIGHTS_MAX:
            raise ValueError(f"row_weights_max {row_weights_max}: must be 1 to {ROW_WEIGHTS_MAX}")
        if not 0 <= topk_max <= TOPK_MAX:
            raise ValueError(f"topk_max {topk_max}: must be 0 (no reductions) to {TOPK_MAX}")
        if int8_vectors_max is None:
            int8_vectors_max = min(vectors_max, INT8_VECTORS_MAX)
        if int8_vectors_max not in VECTORS or int8_vectors_max > min(vectors_max, INT8_VECTORS_MAX):
            raise ValueError(f"int8_vectors_max {int8_vectors_max}: must be 1, 2 or 4 and at most vectors_max")
        self.sink   = sink   = stream.Endpoint(data_layout())
        self.source = source = stream.Endpoint(data_layout())
        self.idle   = idle   = Signal()
        self.error  = error  = Signal(len(ERRORS))

        # # #

        beats_max = {FORMATS[name]: row_beats(row_weights_max, FORMATS[name]) for name in formats}
        lanes_max = {FORMATS[name]: {"ternary": vectors_max, "int8": int8_vectors_max}[name] for name in formats}
        depth     = max(beats_max.get(FORMAT_TERNARY, 1), -(-beats_max.get(FORMAT_INT8, 1)//INT8_BANKS))
        vectors   = max(lanes_max.values())
        largest   = row_weights_max*128*(128 if "int8" in formats else 1)
        width     = signed_bits(-largest, largest)

        # Beat --------------------------------------------------------------------------------------

        beat       = stream.Endpoint(data_layout())
        beat.data.reset_less = True
        self.sync += [
            beat.valid.eq(sink.valid & sink.ready),
            beat.last.eq(sink.last),
            beat.data.eq(sink.data),
        ]

        # Control -----------------------------------------------------------------------------------

        self.control = control = MatmulControl(beat, sink.data, beats_max, lanes_max, topk_max, depth)
        self.comb   += error.eq(control.error)

        # X buffer ----------------------------------------------------------------------------------

        self.xbuffer = xbuffer = XBuffer(vectors, depth)
        self.comb   += [
            xbuffer.write.eq(control.x_write),
            xbuffer.bank.eq(control.bank),
            xbuffer.address.eq(control.address),
            xbuffer.data.eq(beat.data),
        ]

        # Lanes: the sum of a beat for each vector, `latency` cycles behind `beat` --------------------

        terms = [{} for _ in range(vectors)]  # {format: (value, negate, latency)} of each vector.
        if FORMAT_TERNARY in beats_max:
            self.decoder = decoder = TernaryDecoder()
            self.comb   += decoder.beat.eq(beat.data)
            for v in range(lanes_max[FORMAT_TERNARY]):
                lanes      = TernaryLanes(decoder.zero, decoder.sign)
                self.comb += lanes.x.eq(xbuffer.x[v])
                self.add_module(f"ternary{v}", lanes)
                terms[v][FORMAT_TERNARY] = (lanes.value, lanes.negate, 1 + lanes.latency)
        if FORMAT_INT8 in beats_max:
            bank    = delayed(self, control.bank, 1)
            weights = delayed(self, beat.data, 2)
            for v in range(lanes_max[FORMAT_INT8]):
                x          = Signal(DATA_WIDTH, reset_less=True, name=f"int8_x{v}")
                lanes      = Int8Lanes(weights)
                self.sync += Case(bank[:2], {b: x.eq(xbuffer.x[v][DATA_WIDTH*b:DATA_WIDTH*(b + 1)]) for b in range(INT8_BANKS)})
                self.comb += lanes.x.eq(x)
                self.add_module(f"int8_{v}", lanes)
                terms[v][FORMAT_INT8] = (lanes.value, C(0, 1), 2 + lanes.latency)
        latency = max(cycles for term in terms for _, _, cycles in term.values())
        if latency + 4 > ROW_FIFO_DEPTH//2:
            raise ValueError(f"{latency} cycles of latency: the row FIFO of {ROW_FIFO_DEPTH} cannot take what is in flight")

        # Accumulators ------------------------------------------------------------------------------

        def pipe(signal, cycles):  # With a reset: nothing may come out of the lanes after it.
            stages = [signal]
            for _ in range(cycles):
                stages.append(Signal())
                self.sync += stages[-1].eq(stages[-2])
            return stages

        valid   = pipe(control.weights, latency)
        ends    = pipe(control.row_end, latency + 1)
        is_int8 = delayed(self, control.is_int8, latency)
        values  = []
        for v, term in enumerate(terms):
            aligned = {format: (delayed(self, value, latency - cycles), negate) for format, (value, negate, cycles) in term.items()}
            value   = Signal((width, True), name=f"term{v}")
            negate  = Signal(name=f"negate{v}")
            total   = Signal((width, True), name=f"total{v}")
            held    = Signal((width, True), name=f"accumulator{v}")
            row     = Signal(width, reset_less=True, name=f"row{v}")
            for format, (term_value, term_negate) in aligned.items():
                select     = C(1) if len(aligned) == 1 else is_int8 == (format == FORMAT_INT8)
                self.comb += If(select, value.eq(term_value), negate.eq(term_negate))
            self.comb += total.eq(add_or_subtract(self, held, value, negate, width))
            self.sync += [
                If(valid[-1], held.eq(total)),
                If(ends[-2], held.eq(0), row.eq(total)),
            ]
            values.append(row)

        # Results -----------------------------------------------------------------------------------

        with_reduce = topk_max > 0
        self.fifo   = fifo   = stream.SyncFIFO(row_layout(vectors, width, with_reduce), ROW_FIFO_DEPTH)
        self.packer = packer = RowPacker(vectors, width, with_reduce)
        self.comb  += [
            fifo.sink.valid.eq(ends[-1]),
            fifo.sink.last.eq(delayed(self, control.group_end, latency + 1)),
            fifo.sink.values.eq(Cat(*values)),
        ]
        for name in ["vectors_log2"]*(vectors > 1) + ["reduce", "topk"]*with_reduce:
            self.comb += getattr(fifo.sink, name).eq(delayed(self, getattr(control, name), latency + 1))
        self.sync  += sink.ready.eq(fifo.level < ROW_FIFO_DEPTH//2)
        self.buffer = buffer = stream.Buffer(data_layout())
        quiet       = packer.idle & ~buffer.source.valid
        if with_reduce:
            self.reducer = reducer = RowReducer(vectors, width, topk_max)
            self.comb   += [
                # Groups leave in order: a row waits for the records of an earlier group.
                If((fifo.source.reduce == REDUCE_NONE) & reducer.idle,
                    fifo.source.connect(packer.sink),
                ).Else(
                    fifo.source.connect(reducer.sink),
                ),
                If(reducer.source.valid,
                    reducer.source.connect(buffer.sink),
                ).Else(
                    packer.source.connect(buffer.sink),
                ),
            ]
            quiet = quiet & reducer.idle
        else:
            self.comb += [
                fifo.source.connect(packer.sink),
                packer.source.connect(buffer.sink),
            ]
        self.comb += [
            buffer.source.connect(source),
            idle.eq(control.idle & (Cat(*ends) == 0) & ~fifo.source.valid & quiet),
        ]
