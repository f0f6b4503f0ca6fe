#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Attention core: softmax(q·Kᵀ)·V of one KV head after the other, at one beat a cycle."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from litetern.cores.attention.parser import ERRORS, AttentionParser
from litetern.cores.attention.pipeline import STORE, Delays
from litetern.cores.attention.query import AttentionQuery, numerator_bits
from litetern.cores.attention.results import AttentionResults
from litetern.model.formats.stream import BEAT_BYTES, HEAD_DIM_MAX
from litetern.model.numerics.circuits import ATTENTION

# Cycles that a V header waits directly behind the K record of its own buffer.
ORDER_CYCLES = STORE - 2

# Attention ----------------------------------------------------------------------------------------


class Attention(LiteXModule):
    """Attention of up to `queries_max` queries that share a pass over the keys and values of a KV head.

    The stream and its results are described in ``model/formats/stream.py``, the numbers are ``litetern.model.numerics.circuits.attention``.

    ::

                 ┌────────┐ tags ┌─────────┐      ┌─────────┐
        sink ──► │ parser ├─────►│ query 0 ├─────►│ results │──► source
                 └────────┘      │ query … │      └─────────┘
                                 └──┬───▲──┘
                               score buffers 0, 1

    A beat is taken every cycle in the order K0 K1 V0 K2 V1 …, and in every other in which a V record does not directly follow
    the K record of its own buffer: there its header waits `ORDER_CYCLES` cycles for the last score. Results leave while later
    records stream; only V records that are shorter than the results of the two before them wait for these.

    A record that asks for the impossible is drained by the lengths that it declares and has no results; without a magic number
    everything up to ``sink.last`` is drained.

    Parameters
    ----------
    head_dim_max : multiple of 8, up to 128.
    queries_max  : queries (query heads per KV head × queries of each) in a pass; each takes 9 multipliers.
    rows_max     : positions T that the score buffers hold.
    parameters   : resolution of the softmax.
    """
    def __init__(self, head_dim_max=HEAD_DIM_MAX, queries_max=1, rows_max=2048, parameters=ATTENTION):
        if not 8 <= head_dim_max <= HEAD_DIM_MAX or head_dim_max % BEAT_BYTES:
            raise ValueError(f"head_dim_max {head_dim_max}: must be a multiple of {BEAT_BYTES} from {BEAT_BYTES} to {HEAD_DIM_MAX}")
        if not 1 <= queries_max <= 31:
            raise ValueError(f"queries_max {queries_max}: must be 1 to 31")
        if not 1 <= rows_max <= 2**15:
            raise ValueError(f"rows_max {rows_max}: must be 1 to {2**15}")
        if not 1 <= parameters.score_bits <= 16 or not 1 <= parameters.exp_bits <= 16:
            raise ValueError(f"{parameters}: score_bits and exp_bits must be 1 to 16")
        if numerator_bits(rows_max, parameters) > 32:
            raise ValueError(f"{rows_max} rows with weights of {parameters.exp_bits} bits: numerators would not fit int32")
        self.sink   = stream.Endpoint([("data", 8*BEAT_BYTES)])
        self.source = stream.Endpoint([("data", 8*BEAT_BYTES)])
        self.idle   = Signal()
        self.error  = Signal(len(ERRORS))

        # # #

        self.parser   = parser   = AttentionParser(head_dim_max, queries_max, rows_max, parameters.mantissa_bits, latency=STORE - 1)
        self.pipeline = pipeline = Delays()
        tags, at      = parser.tags, pipeline.at

        # Queries ----------------------------------------------------------------------------------

        queries = []
        for q in range(queries_max):
            query = AttentionQuery(q, tags, at, head_dim_max, rows_max, parameters)
            self.add_module(f"query{q}", query)
            queries.append(query)

        # Score buffers: all queries store at once -------------------------------------------------

        width       = parameters.score_bits + 1
        self.scores = scores = Memory(width*queries_max, 2*2**bits_for(rows_max - 1), name="scores")
        write       = scores.get_port(write_capable=True, mode=READ_FIRST)
        read        = scores.get_port(mode=READ_FIRST)
        stored      = Signal(width*queries_max, reset_less=True)
        row         = Signal(len(tags.row), reset_less=True)  # Row after the one stored last.
        address     = Signal(len(tags.row))
        self.specials += write, read
        self.comb += [
            read.adr.eq(Cat(tags.row, tags.buffer)),
            address.eq(Mux(at(tags.first_row, STORE), 0, row)),
            write.adr.eq(Cat(address, at(tags.buffer, STORE))),
            write.we.eq(at(tags.key, STORE) & at(tags.last_beat, STORE)),
            write.dat_w.eq(Cat(*(query.store for query in queries))),
            Cat(*(query.stored for query in queries)).eq(stored),
        ]
        self.sync += [
            stored.eq(read.dat_r),
            If(write.we, row.eq(address + 1)),
        ]

        # Results ----------------------------------------------------------------------------------

        self.results = results = AttentionResults(queries, tags, at, parser.beats, parser.queries, head_dim_max, rows_max, parameters)
        self.comb += [
            self.sink.connect(parser.sink),
            results.source.connect(self.source),
            parser.release.eq(results.release),
            self.idle.eq(parser.idle & ~results.source.valid),
            self.error.eq(parser.error),
        ]
