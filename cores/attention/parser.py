#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Parser of the attention stream: one beat register, one state machine, and the tags that go with each beat."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from litetern.model.formats.stream import BEAT_BYTES, K_HEADER, QUERY_HEADER, V_HEADER

ERRORS = (
    ("magic",     "A record opened with neither magic number; everything up to the end of the list was dropped."),
    ("rows",      "A header asked for 0 rows or more than the core holds."),
    ("beats",     "A header asked for rows of 0 beats or longer than the core holds."),
    ("queries",   "A header asked for 0 queries or more than the core has."),
    ("length",    "A query's causal length was 0 or more than the rows of its record."),
    ("buffer",    "A V record did not match a K record that filled its buffer."),
    ("truncated", "The list ended inside a record."),
    ("multiplier", "A query's mantissa was wider than the core's."),
)

# Tags ---------------------------------------------------------------------------------------------


def tags_layout(head_dim_max, queries_max, rows_max):
    """What is known of the beat at stage 1; the first five are the kinds of beat, none of them set between beats."""
    return [
        ("query",      1),                              # Header of a query …
        ("vector",     1),                              # … and a beat of it.
        ("key",        1),                              # Beat of a K row.
        ("value",      1),                              # Beat of a V row.
        ("finish",     1),                              # Beat that ends a V record (`value` is set as well).
        ("data",       8*BEAT_BYTES),
        ("index",      bits_for(queries_max - 1)),      # Query of a header or vector.
        ("beat",       bits_for(head_dim_max//BEAT_BYTES - 1)),
        ("row",        bits_for(rows_max - 1)),
        ("first_beat", 1),
        ("last_beat",  1),
        ("first_row",  1),
        ("last_row",   1),
        ("buffer",     1),
        ("bank",       1),                              # Half of the result memory that a V record fills.
        ("masked",     queries_max),                    # The row is behind the causal length of the query.
    ]

# Attention Parser ---------------------------------------------------------------------------------


class AttentionParser(LiteXModule):
    """Checks records, counts their beats and tags them.

    A beat waits in the register only where a V header meets scores that are still being computed (`latency` cycles after
    its K record), or where a V record would end with both halves of the result memory taken. Everything behind the register runs freely.

    Parameters
    ----------
    latency : cycles from the last beat of a K record at stage 1 until a V record may be at stage 1.
    """
    def __init__(self, head_dim_max, queries_max, rows_max, mantissa_bits, latency):
        beats_max = head_dim_max//BEAT_BYTES
        self.sink    = sink = stream.Endpoint([("data", 8*BEAT_BYTES)])
        self.tags    = tags = Record(tags_layout(head_dim_max, queries_max, rows_max))
        self.release = Signal()           # One cycle: the results of a V record have left.
        self.beats   = Signal(max=max(beats_max, 2))    # Beats per row − 1 of this record …
        self.queries = Signal(max=max(queries_max, 2))  # … and queries − 1.
        self.idle    = Signal()
        self.error   = Signal(len(ERRORS))

        # # #

        # K and V headers agree in all fields but the magic number.
        def field(name, data):
            return K_HEADER.slice(data, name)

        def shape(data):
            """The fields in which a V record matches its K record; as many bits as a good header uses."""
            return Cat(field("rows", data)[:bits_for(rows_max)], field("beats", data)[:bits_for(beats_max)],
                field("queries", data)[:bits_for(queries_max)])

        errors = {name: Signal(name=f"{name}_error") for name, _ in ERRORS}
        self.sync += self.error.eq(Cat(*(errors[name] for name, _ in ERRORS)))

        # Beat register; what needs comparators is found out on the way in -------------------------

        valid  = Signal()
        go     = Signal()
        last   = Signal()
        data   = tags.data
        header = Record([("key", 1), ("value", 1), ("rows_bad", 1), ("beats_bad", 1), ("queries_bad", 1), ("vectors", 1), ("rows", 1),
            ("match", 2)])
        shapes = [Signal(len(shape(data)), reset_less=True, name=f"shape{b}") for b in range(2)]
        rows, beats, queries = (field(name, sink.data) for name in ("rows", "beats", "queries"))
        self.comb += sink.ready.eq(~valid | go)
        self.sync += If(sink.ready,
            valid.eq(sink.valid),
            last.eq(sink.last),
            data.eq(sink.data),
            header.key.eq(K_HEADER.slice(sink.data, "magic") == K_HEADER.magic),
            header.value.eq(V_HEADER.slice(sink.data, "magic") == V_HEADER.magic),
            header.rows_bad.eq((rows == 0) | (rows > rows_max)),
            header.beats_bad.eq((beats == 0) | (beats > beats_max)),
            header.queries_bad.eq((queries == 0) | (queries > queries_max)),
            header.vectors.eq(queries != 0),
            header.rows.eq((rows != 0) & (beats != 0)),
            header.match.eq(Cat(*(shape(sink.data) == shapes[b] for b in range(2)))),
        )

        # Score buffers ----------------------------------------------------------------------------

        named     = field("buffer", data)
        filled    = Signal(2)             # The K record of the buffer came through without error.
        busy      = Signal(2)             # Its last scores are still on their way.
        unmatched = Signal()              # The header at stage 1 is a V header to which the buffer does not belong.
        self.comb += unmatched.eq(header.value & ~Mux(named, filled[1] & header.match[1], filled[0] & header.match[0]))
        for b in range(2):
            timer = Signal(max=latency, reset_less=True, name=f"timer{b}")
            self.sync += [
                timer.eq(timer - 1),
                If(timer == 1, busy[b].eq(0)),
                If(tags.key & (tags.buffer == b),
                    timer.eq(latency - 1),
                    busy[b].eq(1),
                ),
            ]

        # Result memory: two halves ----------------------------------------------------------------

        taken = Signal(2)                 # At most 2.
        self.sync += [
            If(tags.finish, tags.bank.eq(~tags.bank)),
            If(tags.finish & ~self.release,
                taken.eq(taken + 1),
            ).Elif(~tags.finish & self.release,
                taken.eq(taken - 1),
            ),
        ]

        # Record -----------------------------------------------------------------------------------

        has_scores   = Signal()           # K record that is not refused …
        has_results  = Signal()           # … and V record that is not. Others are only counted.
        has_rows     = Signal()
        has_beats    = Signal()
        row_beats    = Signal(len(field("beats", data)))
        beats_left   = Signal(len(row_beats))  # The current one included, as in the next two.
        rows_left    = Signal(len(field("rows", data)))
        queries_left = Signal(len(field("queries", data)))
        last_query   = Signal()
        lengths      = [Signal(max=rows_max + 1, reset_less=True, name=f"length{q}") for q in range(queries_max)]
        length       = QUERY_HEADER.slice(data, "length")
        mantissa     = QUERY_HEADER.slice(data, "mantissa")
        asked        = Signal()           # A cycle ago: a query header of a record with scores …
        bad          = Record([("length", 1), ("multiplier", 1)])  # … and what is wrong with the beat of then.
        refused      = Signal()           # One of them was bad; before the first row this is known.
        opens        = Signal()           # The beat opens a record …
        ends         = Signal()           # … or ends it.
        self.comb += [
            tags.masked.eq(Cat(*(tags.row >= lengths[q] for q in range(queries_max)))),
        ]

        self.sync += [
            asked.eq(tags.query & ~refused),
            bad.length.eq((length == 0) | (length > rows_left)),
            bad.multiplier.eq(mantissa > 2**mantissa_bits - 1),
            If(opens,
                refused.eq(0),
            ).Elif(asked & (bad.length | bad.multiplier),
                refused.eq(1),
            ),
        ]
        self.comb += [
            errors["length"].eq(asked & bad.length),
            errors["multiplier"].eq(asked & bad.multiplier),
        ]

        def then(*statements):
            """The next state; but a list that ends here, and not with the record, has been cut off."""
            return If(last & ~ends, errors["truncated"].eq(1), NextState("HEADER")).Else(*statements)

        after_query = [
            If(~last_query,
                NextState("QUERY"),
            ).Elif(has_rows,
                NextState("ROWS"),
            ).Else(
                NextState("HEADER"),
            )
        ]
        next_query = [
            NextValue(queries_left, queries_left - 1),
            NextValue(last_query, queries_left == 2),
            NextValue(tags.index, tags.index + 1),
        ]

        def first_beat(count):
            """A row or vector of so many beats begins."""
            return [
                NextValue(beats_left, count),
                NextValue(tags.beat, 0),
                NextValue(tags.first_beat, 1),
                NextValue(tags.last_beat, count == 1),
            ]

        def next_beat(*end):
            """A beat of it has passed; `end` is done with its last."""
            return If(tags.last_beat,
                *first_beat(row_beats),
                *end,
            ).Else(
                NextValue(beats_left, beats_left - 1),
                NextValue(tags.beat, tags.beat + 1),
                NextValue(tags.first_beat, 0),
                NextValue(tags.last_beat, beats_left == 2),
            )

        # Within a state, a signal is assigned before it is read: Verilator runs the statements in their order.
        self.fsm = fsm = FSM(reset_state="HEADER")
        good     = Signal()
        self.comb += good.eq(~(header.rows_bad | header.beats_bad | header.queries_bad | unmatched))
        fsm.act("HEADER",
            go.eq(valid & ~(header.value & Mux(named, busy[1], busy[0]))),
            opens.eq(go),
            If(go,
                NextValue(has_scores, header.key & good),
                NextValue(has_results, header.value & good),
                NextValue(has_rows, header.rows),
                NextValue(has_beats, field("beats", data) != 0),
                NextValue(row_beats, field("beats", data)),
                *first_beat(field("beats", data)),
                NextValue(rows_left, field("rows", data)),
                NextValue(queries_left, field("queries", data)),
                NextValue(last_query, field("queries", data) == 1),
                NextValue(self.beats, field("beats", data) - 1),
                NextValue(self.queries, field("queries", data) - 1),
                NextValue(tags.buffer, named),
                NextValue(tags.index, 0),
                NextValue(tags.row, 0),
                NextValue(tags.first_row, 1),
                NextValue(tags.last_row, field("rows", data) == 1),
                ends.eq(~header.rows & ~(header.key & header.vectors)),
                If(header.key | header.value,
                    errors["rows"].eq(header.rows_bad),
                    errors["beats"].eq(header.beats_bad),
                    errors["queries"].eq(header.queries_bad),
                    errors["buffer"].eq(unmatched),
                    then(If(header.key & header.vectors,
                        NextState("QUERY"),
                    ).Elif(header.rows,
                        NextState("ROWS"),
                    )),
                ).Else(
                    errors["magic"].eq(1),
                    If(~last, NextState("DRAIN")),
                ),
                If(header.key,
                    Case(named, {b: [NextValue(filled[b], 0), NextValue(shapes[b], shape(data))] for b in range(2)}),
                ),
            ),
        )
        fsm.act("QUERY",
            go.eq(valid),
            If(go,
                tags.query.eq(has_scores),
                Case(tags.index, {q: NextValue(lengths[q], length) for q in range(queries_max)}),
                ends.eq(~has_beats & last_query),
                then(If(has_beats,
                    NextState("VECTOR"),
                ).Else(
                    *next_query,
                    *after_query,
                )),
            ),
        )
        fsm.act("VECTOR",
            go.eq(valid),
            If(go,
                tags.vector.eq(has_scores),
                ends.eq(tags.last_beat & last_query & ~has_rows),
                next_beat(*next_query),
                then(If(tags.last_beat, *after_query)),
            ),
        )
        fsm.act("ROWS",
            go.eq(valid & ~(has_results & tags.last_row & taken[1])),
            If(go,
                tags.key.eq(has_scores & ~refused),
                tags.value.eq(has_results),
                ends.eq(tags.last_beat & tags.last_row),
                tags.finish.eq(tags.value & ends),
                next_beat(
                    NextValue(tags.row, tags.row + 1),
                    NextValue(tags.first_row, 0),
                    NextValue(rows_left, rows_left - 1),
                    NextValue(tags.last_row, rows_left == 2),
                ),
                If(ends & tags.key, Case(tags.buffer, {b: NextValue(filled[b], 1) for b in range(2)})),
                then(If(ends, NextState("HEADER"))),
            ),
        )
        fsm.act("DRAIN",
            go.eq(valid),
            If(go & last, NextState("HEADER")),
        )
        self.comb += self.idle.eq(fsm.ongoing("HEADER") & ~valid & (busy == 0) & (taken == 0) & ~asked & (self.error == 0))
