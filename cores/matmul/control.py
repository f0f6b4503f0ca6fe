#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Control of the matmul core: reads headers, counts x and rows, refuses what the core lacks."""

from migen import *
from migen.genlib.fsm import FSM, NextState

from litex.gen import LiteXModule

from litetern.model.formats.stream import *

from litetern.cores.matmul.xbuffer import BANKS, INT8_BANKS

# Errors -------------------------------------------------------------------------------------------

ERRORS = (
    ("magic",     "Header without its magic: all is dropped up to the end of the list."),
    ("rows",      "Header with 0 rows."),
    ("beats",     "Header with 0 beats a row, or more than the x buffer holds."),
    ("format",    "Header with a format that this core lacks; drained as if a beat of weights needed one of x."),
    ("vectors",   "Header with a number of vectors that this core has no lanes for in this format."),
    ("reduce",    "Header with a reduction or shortlist length that this core lacks."),
    ("truncated", "The list ended within a group: a started row is closed as it is, as the last of its group."),
)

VECTORS = (1, 2, 4, 8)

# Matmul Control -----------------------------------------------------------------------------------


class MatmulControl(LiteXModule):
    """Follows the stream behind a register: ``[header][x × N][rows]``.

    beat        : the registered beat; taken whenever it is valid.
    ahead       : its data, a cycle before.
    beats_max   : {format: most beats a row}; a format that is not there is refused.
    vectors_max : {format: most vectors}.
    topk_max    : longest shortlist; 0: no reductions.
    depth       : words of the x buffer.

    In the cycle of the beat: `x_write` (a bit a vector), `bank`, `address`, `weights` (the beat holds weights of a group that was not
    refused), `row_end`, and at a row's end `group_end`. From the cycle after the header: `is_int8`, `vectors_log2`, `reduce`, `topk`.
    """
    def __init__(self, beat, ahead, beats_max, vectors_max, topk_max, depth):
        self.x_write      = Signal(max(vectors_max.values()))
        self.bank         = bank         = Signal(max=BANKS)
        self.address      = address      = Signal(max=max(depth, 2))
        self.weights      = Signal()
        self.row_end      = Signal()
        self.group_end    = Signal()
        self.is_int8      = is_int8      = Signal()
        self.vectors_log2 = vectors_log2 = Signal(2)
        self.reduce       = reduce       = Signal(2)
        self.topk         = topk         = Signal(9)
        self.error        = error        = Signal(len(ERRORS))
        self.idle         = Signal()

        # # #

        header = {field.name: MATMUL_HEADER.slice(beat.data, field.name) for field in MATMUL_HEADER.fields}

        # What a header's way through the states hangs on is found out on the way into the beat register.
        magic_good, rows_given, beats_given, vectors_given = (Signal(reset_less=True, name=f"{name}_given") for name in
            ("magic", "rows", "beats", "vectors"))
        self.sync += [
            magic_good.eq(MATMUL_HEADER.slice(ahead, "magic") == MATMUL_HEADER.magic),
            rows_given.eq(MATMUL_HEADER.slice(ahead, "rows") != 0),
            beats_given.eq(MATMUL_HEADER.slice(ahead, "beats") != 0),
            vectors_given.eq(MATMUL_HEADER.slice(ahead, "vectors") != 0),
        ]

        # Header checks -----------------------------------------------------------------------------

        fault = {name: Signal(name=f"fault_{name}") for name, _ in ERRORS}
        self.comb += [
            fault["magic"].eq(~magic_good),
            fault["rows"].eq(~rows_given),
            Case(header["format"], {
                **{format : [
                    fault["beats"].eq(~beats_given | (header["beats"] > most)),
                    Case(header["vectors"], {
                        **{n: [] for n in VECTORS if n <= vectors_max[format]},
                        "default" : fault["vectors"].eq(1),
                    }),
                ] for format, most in beats_max.items()},
                "default" : fault["format"].eq(1),
            }),
            Case(header["reduce"], {
                REDUCE_NONE   : [],
                **({
                REDUCE_ARGMAX : [],
                REDUCE_TOPK   : fault["reduce"].eq((header["topk"] == 0) | (header["topk"] > topk_max)),
                } if topk_max else {}),
                "default"     : fault["reduce"].eq(1),
            }),
        ]

        # Counters ----------------------------------------------------------------------------------

        is_ternary   = Signal()    # A beat of weights needs 5 of x.
        refused      = Signal()
        has_rows     = Signal()
        beats        = Signal(MATMUL_HEADER["beats"].width)
        beats_left   = Signal(MATMUL_HEADER["beats"].width)    # Of this row, or (in units of `beats`) of this vector.
        rows_left    = Signal(MATMUL_HEADER["rows"].width)
        vectors_left = Signal(MATMUL_HEADER["vectors"].width)
        single_beat  = Signal()    # beats == 1
        last_beat    = Signal()    # beats_left == 1, and so on: registers, so that the end of a group is known early in a cycle.
        last_row     = Signal()
        last_vector  = Signal()
        x_select     = Signal(len(self.x_write))
        load         = Signal()
        x_phase      = Signal()
        rows_phase   = Signal()
        wrap         = Signal()
        end          = Signal()    # Of a vector or a row.
        body_end     = Signal()    # Of the group.
        self.comb += [
            is_int8.eq(~is_ternary),
            wrap.eq(bank == Mux(is_ternary, BANKS - 1, INT8_BANKS - 1)),
            end.eq(last_beat & (wrap | ~(x_phase & is_ternary))),
            body_end.eq(end & Mux(x_phase, last_vector & ~has_rows, last_row)),
            self.x_write.eq(x_select & Replicate(beat.valid & x_phase, len(x_select))),
            self.weights.eq(beat.valid & rows_phase & ~refused),
            self.group_end.eq(last_row | beat.last),
            self.row_end.eq(self.weights & (end | beat.last)),
        ]
        self.sync += [
            # Ternary rows read all banks at once; everything else goes from bank to bank.
            If(beat.valid & (x_phase | rows_phase),
                If(~wrap & (x_phase | is_int8),
                    bank.eq(bank + 1),
                ).Else(
                    bank.eq(0),
                    address.eq(address + 1),
                ),
                If(wrap | ~(x_phase & is_ternary),
                    beats_left.eq(beats_left - 1),
                    last_beat.eq(beats_left == 2),
                ),
                If(end,
                    bank.eq(0),
                    address.eq(0),
                    beats_left.eq(beats),
                    last_beat.eq(single_beat),
                    If(x_phase,
                        vectors_left.eq(vectors_left - 1),
                        last_vector.eq(vectors_left == 2),
                        x_select.eq(x_select << 1),
                    ).Else(
                        rows_left.eq(rows_left - 1),
                        last_row.eq(rows_left == 2),
                    ),
                ),
            ),
            If(load,
                is_ternary.eq(header["format"] == FORMAT_TERNARY),
                vectors_log2.eq(Cat(header["vectors"][1] | header["vectors"][3], header["vectors"][2] | header["vectors"][3])),
                reduce.eq(header["reduce"]),
                topk.eq(header["topk"]),
                refused.eq(Cat(*fault.values()) != 0),
                has_rows.eq(rows_given),
                beats.eq(header["beats"]),
                beats_left.eq(header["beats"]),
                rows_left.eq(header["rows"]),
                vectors_left.eq(header["vectors"]),
                single_beat.eq(header["beats"] == 1),
                last_beat.eq(header["beats"] == 1),
                last_row.eq(header["rows"] == 1),
                last_vector.eq(header["vectors"] == 1),
                x_select.eq(1),
                bank.eq(0),
                address.eq(0),
            ),
        ]

        # FSM ---------------------------------------------------------------------------------------

        pulses   = {name: Signal(name=f"pulse_{name}") for name, _ in ERRORS}
        has_body = Signal()
        self.comb += has_body.eq(beats_given & (vectors_given | rows_given))
        self.sync += error.eq(Cat(*pulses.values()))
        self.fsm   = fsm = FSM(reset_state="HEADER")
        self.comb += self.idle.eq(fsm.ongoing("HEADER") & ~beat.valid)
        fsm.act("HEADER",
            If(beat.valid,
                load.eq(1),
                If(fault["magic"],
                    pulses["magic"].eq(1),
                    If(~beat.last, NextState("SKIP")),
                ).Else(
                    *[pulses[name].eq(fault[name]) for name in ("rows", "beats", "format", "vectors", "reduce")],
                    If(has_body,
                        If(beat.last,
                            pulses["truncated"].eq(1),
                        ).Elif(~vectors_given,
                            NextState("ROWS"),
                        ).Else(
                            NextState("X"),
                        ),
                    ),
                ),
            ),
        )
        in_body = [
            If(beat.last | body_end,
                pulses["truncated"].eq(~body_end),
                NextState("HEADER"),
            ),
        ]
        fsm.act("X",
            x_phase.eq(1),
            If(beat.valid,
                If(end & last_vector & has_rows,
                    NextState("ROWS"),
                ),
                *in_body,
            ),
        )
        fsm.act("ROWS",
            rows_phase.eq(1),
            If(beat.valid, *in_body),
        )
        # Out of step: nothing can be trusted before the next list.
        fsm.act("SKIP",
            If(beat.valid & beat.last,
                NextState("HEADER"),
            ),
        )
