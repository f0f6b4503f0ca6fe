#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The arithmetic of one query: multipliers, score, maximum, weight, accumulators."""

from migen import *

from litex.gen import *

from litetern.cores.attention.pipeline import (DOT, MULTIPLIER, OPERANDS, PRODUCTS, SCALED, SCORE, STORE, SUM, WEIGHT)
from litetern.cores.common import delayed, sign_extended
from litetern.model.formats.stream import BEAT_BYTES, EXPONENT_MAX, QUERY_HEADER, SHIFT_MAX, SHIFT_STEP

# Helpers ------------------------------------------------------------------------------------------


def signed(bits, **kwargs):
    return Signal((bits, True), **kwargs)


def numerator_bits(rows_max, parameters):
    """Bits of a signed sum of rows_max products of the largest weight and −128."""
    return bits_for(rows_max*(2**parameters.exp_bits - 1)*128) + 1


def denominator_bits(rows_max, parameters):
    return bits_for(rows_max*(2**parameters.exp_bits - 1))

# Attention Query ----------------------------------------------------------------------------------


class AttentionQuery(LiteXModule):
    """One query against the rows that pass.

    The eight multipliers serve both phases: in K rows one operand is q, in V rows it is the weight of the row.

    ::

        K  data ─► × q[beat] ─► adder tree ─► Σ over beats ─► × mantissa >> shift ─► clamp ─► score, maximum
        V  data ─► × exp[maximum − score] ─► + accumulators[beat] ─► numerators
                          └─► Σ over rows ─► denominator

    Accumulators are a memory that rotates with the row: one address, read, added to and written back in a cycle, so that rows of
    a single beat follow each other as well.

    Parameters
    ----------
    index : number of the query.
    tags  : Record of the beat at stage 1.
    at    : function (signal, stage) that delays it.
    """
    def __init__(self, index, tags, at, head_dim_max, rows_max, parameters):
        beats_max        = head_dim_max//BEAT_BYTES
        acc_bits         = numerator_bits(rows_max, parameters)
        score_bits       = parameters.score_bits
        dot_bits         = bits_for(head_dim_max*2**14) + 1
        weight_bits      = parameters.exp_bits
        # At stage SCORE: what was stored for the row, from the score memory that all queries share.
        self.stored      = Signal(score_bits + 1)
        # At stage STORE: what is stored for the row.
        self.store       = Signal(score_bits + 1)
        # At stage PRODUCTS of a V row: the numerators so far.
        self.numerators  = Signal(BEAT_BYTES*acc_bits)
        # At stage OPERANDS of a V row: denominator so far and maximum.
        self.denominator = Signal(denominator_bits(rows_max, parameters))
        self.maximum     = signed(score_bits)

        # # #

        def mine(kind, stage):
            """The beat at `stage` is of that kind and belongs to this query."""
            return at(kind, stage) & (at(tags.index, stage) == index)

        # Maximum of each score buffer -------------------------------------------------------------

        maxima = [signed(score_bits, reset_less=True, name=f"maximum{b}") for b in range(2)]

        # Weight -----------------------------------------------------------------------------------

        score  = signed(score_bits)
        below  = Signal(max(score_bits, 9))  # Steps below the maximum: not negative, except where masked.
        step   = Signal(8, reset_less=True)
        weight = Signal(weight_bits, reset_less=True)
        self.exp = exp = Memory(weight_bits, 256, init=[int(e) for e in parameters.exp_table()], name="exp_table")
        port   = exp.get_port(async_read=True)
        self.specials += port
        self.comb += [
            score.eq(self.stored[:score_bits]),
            below.eq(Mux(at(tags.buffer, SCORE), *reversed(maxima)) - score),
            port.adr.eq(step),
        ]
        self.sync += [
            # The last entry is 0: the weight of what lies far below or behind the causal length.
            step.eq(Mux(self.stored[score_bits] | (below[8:] != 0), 255, below[:8])),
            weight.eq(port.dat_r),
        ]

        # Denominator ------------------------------------------------------------------------------

        denominator = Signal(len(self.denominator), reset_less=True)
        self.sync += If(at(tags.value, WEIGHT) & at(tags.first_beat, WEIGHT),
            denominator.eq(weight + Mux(at(tags.first_row, WEIGHT), 0, denominator)),
        )
        self.comb += [
            self.denominator.eq(denominator),
            self.maximum.eq(Mux(at(tags.buffer, OPERANDS), *reversed(maxima))),
        ]

        # q ----------------------------------------------------------------------------------------

        self.q = q = Memory(8*BEAT_BYTES, max(beats_max, 2), name="q")
        port   = q.get_port(write_capable=True, async_read=True)
        self.specials += port
        self.comb += [
            port.adr.eq(at(tags.beat, WEIGHT)),
            port.dat_w.eq(at(tags.data, WEIGHT)),
            port.we.eq(mine(tags.vector, WEIGHT)),
        ]

        # Multipliers ------------------------------------------------------------------------------

        product_bits = 8 + max(8, weight_bits + 1)
        products     = []
        for lane in range(BEAT_BYTES):
            operand  = signed(max(8, weight_bits + 1), reset_less=True)
            data     = signed(8, reset_less=True)
            multiply = signed(product_bits, reset_less=True)
            product  = signed(product_bits, reset_less=True, name=f"product{lane}")
            self.sync += [
                data.eq(at(tags.data, WEIGHT)[8*lane:8*lane + 8]),
                If(at(tags.value, WEIGHT),
                    operand.eq(weight),
                ).Else(
                    operand.eq(_as_signed(self, port.dat_r[8*lane:8*lane + 8])),
                ),
                multiply.eq(data*operand),
                product.eq(multiply),
            ]
            products.append(product)

        # Numerators -------------------------------------------------------------------------------

        self.accumulators = accumulators = Memory(BEAT_BYTES*acc_bits, max(beats_max, 2), name="accumulators")
        port = accumulators.get_port(write_capable=True, async_read=True)
        self.specials += port
        self.comb += [
            port.adr.eq(at(tags.beat, PRODUCTS)),
            port.we.eq(at(tags.value, PRODUCTS)),
            port.dat_w.eq(self.numerators),
        ]
        for lane, product in enumerate(products):
            part  = slice(lane*acc_bits, (lane + 1)*acc_bits)
            added = signed(acc_bits)
            self.comb += [
                added.eq(product),
                self.numerators[part].eq(Mux(at(tags.first_row, PRODUCTS), 0, port.dat_r[part]) + added),
            ]

        # Score ------------------------------------------------------------------------------------

        terms = []
        for product in products:
            term = signed(16)
            self.comb += term.eq(product)
            terms.append(term)
        for stage in range(PRODUCTS, SUM):
            sums = []
            for i in range(0, len(terms), 2):
                total = signed(len(terms[0]) + 1, reset_less=True, name=f"sum{stage - PRODUCTS}_{i//2}")
                self.sync += total.eq(terms[i] + terms[i + 1])
                sums.append(total)
            terms = sums
        dot = signed(dot_bits, reset_less=True)
        self.sync += If(at(tags.key, SUM),
            dot.eq(terms[0] + Mux(at(tags.first_beat, SUM), 0, dot)),
        )

        mantissa = signed(parameters.mantissa_bits + 1, reset_less=True)
        exponent = Signal(max=EXPONENT_MAX + 1, reset_less=True)
        multiply = signed(dot_bits + parameters.mantissa_bits, reset_less=True)
        scaled   = signed(dot_bits + parameters.mantissa_bits, reset_less=True)
        clamped  = signed(score_bits, reset_less=True)
        header   = at(tags.data, MULTIPLIER)
        self.sync += [
            If(mine(tags.query, MULTIPLIER),
                mantissa.eq(QUERY_HEADER.slice(header, "mantissa")[:parameters.mantissa_bits]),
                exponent.eq(QUERY_HEADER.slice(header, "exponent")),
            ),
            multiply.eq(dot*mantissa),
            scaled.eq(multiply),
            clamped.eq(self._clamped(scaled, delayed(self, exponent, SCALED - DOT), score_bits)),
        ]
        self.comb += self.store.eq(Cat(clamped, at(tags.masked, STORE)[index]))

        # Maximum ----------------------------------------------------------------------------------

        enters = at(tags.key, STORE) & at(tags.last_beat, STORE)
        for b, maximum in enumerate(maxima):
            self.sync += If(enters & (at(tags.buffer, STORE) == b),
                # Row 0 always takes part.
                If(at(tags.first_row, STORE) | (~at(tags.masked, STORE)[index] & (clamped > maximum)),
                    maximum.eq(clamped),
                )
            )


    def _clamped(self, scaled, exponent, score_bits):
        """Bits of `scaled` from the exponent's shift on, clamped to a score."""
        bits    = Signal(len(scaled))
        sign    = bits[-1]
        shifted = Signal(score_bits)
        fits    = Signal()
        same    = Constant(1, 1)          # The bits from the score's sign on, at the shift in hand, are all equal.
        end     = len(bits) - 1
        cases   = {}
        for e in range(EXPONENT_MAX + 1):
            shift    = SHIFT_MAX - SHIFT_STEP*e
            first    = min(shift + score_bits - 1, end)
            same     = same & (bits[first:end] == Replicate(sign, end - first)) if first < end else same
            end      = first
            cases[e] = [shifted.eq(sign_extended(bits[min(shift, len(bits) - 1):], score_bits)), fits.eq(same)]
        self.comb += [
            bits.eq(scaled),
            Case(exponent, cases),
        ]
        return Mux(fits, shifted, Cat(Replicate(~sign, score_bits - 1), sign))


def _as_signed(module, value):
    """Returns `value`, which Migen takes as unsigned, as a signed signal."""
    result = signed(len(value))
    module.comb += result.eq(value)
    return result
