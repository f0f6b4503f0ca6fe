#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Results of the attention core: a memory of two halves between the accumulators and the stream."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from litetern.cores.attention.pipeline import OPERANDS, PRODUCTS
from litetern.cores.attention.query import denominator_bits, numerator_bits
from litetern.model.formats.stream import BEAT_BYTES

# Attention Results --------------------------------------------------------------------------------


class AttentionResults(LiteXModule):
    """Takes the numerators while the last row of a V record goes by, and lets them leave, two int32 a beat, while the next
    records stream.

    Parameters
    ----------
    queries : list of AttentionQuery.
    tags    : Record of the beat at stage 1.
    at      : function (signal, stage) that delays it.
    beats, queries_less1 : shape of the V record at stage 1, each less 1.
    """
    def __init__(self, queries, tags, at, beats, queries_less1, head_dim_max, rows_max, parameters):
        beats_max = head_dim_max//BEAT_BYTES
        acc_bits  = numerator_bits(rows_max, parameters)
        den_bits  = denominator_bits(rows_max, parameters)
        self.source  = source = stream.Endpoint([("data", 8*BEAT_BYTES)])
        self.release = Signal()           # One cycle: the results of a V record have left.

        # # #

        # Reader's place ---------------------------------------------------------------------------

        bank  = Signal()
        pair  = Signal(max=BEAT_BYTES//2)
        beat  = Signal(len(beats))
        query = Signal(len(queries_less1))
        tail  = Signal()                  # Denominator and maximum.

        # Memories ---------------------------------------------------------------------------------

        depth        = 2*2**bits_for(beats_max - 1)
        self.shapes  = shapes = Memory(len(beats) + len(queries_less1), 2, name="shapes")
        shape_write  = shapes.get_port(write_capable=True)
        shape_read   = shapes.get_port(async_read=True)
        last_beat    = Signal(len(beats))
        last_query   = Signal(len(queries_less1))
        self.specials += shape_write, shape_read
        self.comb += [
            shape_write.adr.eq(tags.bank),
            shape_write.we.eq(tags.finish),
            shape_write.dat_w.eq(Cat(beats, queries_less1)),
            shape_read.adr.eq(bank),
            Cat(last_beat, last_query).eq(shape_read.dat_r),
        ]

        words = []
        for q, engine in enumerate(queries):
            numerators = Memory(BEAT_BYTES*acc_bits, depth, name=f"numerators{q}")
            write      = numerators.get_port(write_capable=True)
            read       = numerators.get_port(async_read=True)
            summary    = Memory(den_bits + parameters.score_bits, 2, name=f"summary{q}")
            sum_write  = summary.get_port(write_capable=True)
            sum_read   = summary.get_port(async_read=True)
            self.specials += numerators, write, read, summary, sum_write, sum_read
            self.comb += [
                write.adr.eq(Cat(at(tags.beat, PRODUCTS), at(tags.bank, PRODUCTS))),
                write.we.eq(at(tags.value, PRODUCTS) & at(tags.last_row, PRODUCTS)),
                write.dat_w.eq(engine.numerators),
                read.adr.eq(Cat(beat, bank)),
                sum_write.adr.eq(at(tags.bank, OPERANDS)),
                sum_write.we.eq(at(tags.finish, OPERANDS, reset=True)),
                sum_write.dat_w.eq(Cat(engine.denominator, engine.maximum)),
                sum_read.adr.eq(bank),
            ]
            pairs = [Cat(*(self._int32(read.dat_r[lane*acc_bits:(lane + 1)*acc_bits]) for lane in (2*p, 2*p + 1)))
                for p in range(BEAT_BYTES//2)]
            word  = Signal(8*BEAT_BYTES)
            self.comb += If(tail,
                word[:32].eq(sum_read.dat_r[:den_bits]),
                word[32:].eq(self._int32(sum_read.dat_r[den_bits:])),
            ).Else(
                Case(pair, {p: word.eq(value) for p, value in enumerate(pairs)}),
            )
            words.append(word)

        # Reader -----------------------------------------------------------------------------------

        full  = Signal(2)                 # Halves that are complete.
        taken = Signal()                  # A word goes to the source.
        write = at(tags.finish, PRODUCTS, reset=True)
        self.comb += [
            taken.eq((full != 0) & (~source.valid | source.ready)),
            self.release.eq(taken & tail & (query == last_query)),
        ]
        self.sync += [
            If(write & ~self.release,
                full.eq(full + 1),
            ).Elif(~write & self.release,
                full.eq(full - 1),
            ),
            If(taken,
                pair.eq(pair + 1),
                If(tail,
                    pair.eq(0),
                    tail.eq(0),
                    query.eq(query + 1),
                    If(self.release,
                        query.eq(0),
                        bank.eq(~bank),
                    ),
                ).Elif(pair == BEAT_BYTES//2 - 1,
                    beat.eq(beat + 1),
                    If(beat == last_beat,
                        beat.eq(0),
                        tail.eq(1),
                    ),
                ),
            ),
            If(source.ready, source.valid.eq(0)),
            If(taken,
                source.valid.eq(1),
                source.last.eq(self.release),
                source.data.eq(Array(words)[query]),
            ),
        ]

    def _int32(self, value):
        """Returns `value`, two's complement of its own width, as 32 bits."""
        narrow, wide = Signal((len(value), True)), Signal((32, True))
        self.comb += [narrow.eq(value), wide.eq(narrow)]
        return wide
