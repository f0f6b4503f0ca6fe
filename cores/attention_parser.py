#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Parser of the attention stream: one beat register, one state machine, and the tags that go with each beat."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

from model.stream import BEAT_BYTES, K_HEADER, QUERY_HEADER, V_HEADER

ERRORS = (
    ("magic",     "A record opened with neither magic number; everything up to the end of the list was dropped."),
    ("rows",      "A header asked for 0 rows or more than the core holds."),
    ("beats",     "A header asked for rows of 0 beats or longer than the core holds."),
    ("queries",   "A header asked for 0 queries or more than the core has."),
    ("length",    "A query's causal length was 0 or more than the rows of its record."),
    ("buffer",    "A V record did not match a K record that filled its buffer."),
    ("truncated", "The list ended inside a record."),
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
    def __init__(self, head_dim_max, queries_max, rows_max, latency):
        beats_max = head_dim_max//BEAT_BYTES
        self.sink    = sink = stream.Endpoint([("data", 8*BEAT_BYTES)])
        self.tags    = tags = Record(tags_layout(head_dim_max, queries_max, rows_max))
        self.release = Signal()           # One cycle: the results of a V record have left.
        self.beats   = Signal(max=max(beats_max, 2))    # Beats per row − 1 of this record …
        self.queries = Signal(max=max(queries_max, 2))  # … and queries − 1.
        self.idle    = Signal()
        self.error   = Signal(len(ERRORS))

        # # #

        def field(word, name, data):
            return word.slice(data, name)

        errors = {name: Signal(name=f"{name}_error") for name, _ in ERRORS}
        self.sync += self.error.eq(Cat(*(errors[name] for name, _ in ERRORS)))

        # Beat register; what needs comparators is found out on the way in -------------------------

        # K and V headers agree in all fields but the magic number.
        valid  = Signal()
        go     = Signal()
        last   = Signal()
        data   = tags.data
        header = Record([("key", 1), ("value", 1), ("rows_bad", 1), ("beats_bad", 1), ("queries_bad", 1), ("vectors", 1), ("rows", 1),
            ("match", 2)])
        shape  = Signal(26)
        shapes = [Signal(26, reset_less=True, name=f"shape{b}") for b in range(2)]
        rows, beats, queries = (field(K_HEADER, name, sink.data) for name in ("rows", "beats", "queries"))
        self.comb += [
            sink.ready.eq(~valid | go),
            shape.eq(Cat(*(field(K_HEADER, name, data) for name in ("rows", "beats", "queries")))),
        ]
        self.sync += If(sink.ready,
            valid.eq(sink.valid),
            last.eq(sink.last),
            data.eq(sink.data),
            header.key.eq(field(K_HEADER, "magic", sink.data) == K_HEADER.magic),
            header.value.eq(field(V_HEADER, "magic", sink.data) == V_HEADER.magic),
            header.rows_bad.eq((rows == 0) | (rows > rows_max)),
            header.beats_bad.eq((beats == 0) | (beats > beats_max)),
            header.queries_bad.eq((queries == 0) | (queries > queries_max)),
            header.vectors.eq(queries != 0),
            header.rows.eq((rows != 0) & (beats != 0)),
            header.match.eq(Cat(*(Cat(rows, beats, queries) == shapes[b] for b in range(2)))),
        )

        # Score buffers ----------------------------------------------------------------------------

        named  = field(K_HEADER, "buffer", data)
        filled = Signal(2)                # The K record of the buffer came through without error.
        busy   = Signal(2)                # Its last scores are still on their way.
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

        has_results = Signal()            # V record that is not refused.
        has_scores  = Signal()            # K record that is not refused.
        has_rows    = Signal()
        has_beats   = Signal()
        beat        = Signal(5)
        beats_less1 = Signal(5)
        rows_left   = Signal(16)
        vectors     = Signal(5)           # Queries still to come, this one included.
        lengths     = [Signal(max=rows_max + 1, reset_less=True, name=f"length{q}") for q in range(queries_max)]
        length      = field(QUERY_HEADER, "length", data)
        length_bad  = Signal()
        ends        = Signal()            # The beat ends the record.
        self.comb += [
            length_bad.eq((length == 0) | (length > rows_left)),
            tags.beat.eq(beat),
            tags.first_beat.eq(beat == 0),
            tags.last_beat.eq(beat == beats_less1),
            tags.masked.eq(Cat(*(tags.row >= lengths[q] for q in range(queries_max)))),
            self.beats.eq(beats_less1),
        ]

        # Within a state, a signal is assigned before it is read: Verilator runs the statements in their order.
        self.fsm = fsm = FSM(reset_state="HEADER")

        def then(*statements, state):
            """The beat is done; a list that ends here but not with a record has been cut off."""
            return [*statements, If(last & ~ends, errors["truncated"].eq(1), NextState("HEADER")).Else(*state)]

        after_query = [
            If((vectors == 1) & has_rows, NextState("ROWS")
            ).Elif(vectors == 1, NextState("HEADER")
            ).Else(NextState("QUERY")),
        ]

        refuse = Signal()
        self.comb += refuse.eq(header.rows_bad | header.beats_bad | header.queries_bad | (header.value & ~(
            Mux(named, filled[1] & header.match[1], filled[0] & header.match[0]))))
        fsm.act("HEADER",
            go.eq(valid & ~(header.value & Mux(named, busy[1], busy[0]))),
            If(go,
                NextValue(has_results, header.value & ~refuse),
                NextValue(has_scores, header.key & ~refuse),
                NextValue(has_rows, header.rows),
                NextValue(has_beats, field(K_HEADER, "beats", data) != 0),
                NextValue(beat, 0),
                NextValue(beats_less1, field(K_HEADER, "beats", data) - 1),
                NextValue(rows_left, field(K_HEADER, "rows", data)),
                NextValue(tags.last_row, field(K_HEADER, "rows", data) == 1),
                NextValue(vectors, field(K_HEADER, "queries", data)),
                NextValue(tags.buffer, named),
                NextValue(tags.index, 0),
                NextValue(tags.row, 0),
                NextValue(tags.first_row, 1),
                ends.eq(~header.rows & ~(header.key & header.vectors)),
                If(header.key | header.value,
                    errors["rows"].eq(header.rows_bad),
                    errors["beats"].eq(header.beats_bad),
                    errors["queries"].eq(header.queries_bad),
                    errors["buffer"].eq(header.value & ~Mux(named, filled[1] & header.match[1], filled[0] & header.match[0])),
                    *then(state=[
                        If(header.key & header.vectors, NextState("QUERY")).Elif(header.rows, NextState("ROWS"))
                    ]),
                ).Else(
                    errors["magic"].eq(1),
                    If(~last, NextState("DRAIN")),
                ),
                If(header.key,
                    Case(named, {b: [NextValue(filled[b], 0), NextValue(shapes[b], shape)] for b in range(2)}),
                    NextValue(self.queries, field(K_HEADER, "queries", data) - 1),
                ),
                If(header.value, NextValue(self.queries, field(K_HEADER, "queries", data) - 1)),
            ),
        )
        fsm.act("QUERY",
            go.eq(valid),
            If(go,
                tags.query.eq(has_scores),
                errors["length"].eq(length_bad & has_scores),
                If(length_bad, NextValue(has_scores, 0)),
                Case(tags.index, {q: NextValue(lengths[q], length) for q in range(queries_max)}),
                ends.eq(~has_beats & (vectors == 1)),
                *then(state=[
                    If(has_beats,
                        NextState("VECTOR"),
                    ).Else(
                        NextValue(vectors, vectors - 1),
                        *after_query,
                    )
                ]),
            ),
        )
        fsm.act("VECTOR",
            go.eq(valid),
            If(go,
                tags.vector.eq(has_scores),
                NextValue(beat, beat + 1),
                ends.eq(tags.last_beat & (vectors == 1) & ~has_rows),
                If(tags.last_beat,
                    NextValue(beat, 0),
                    NextValue(tags.index, tags.index + 1),
                    NextValue(vectors, vectors - 1),
                ),
                *then(state=[If(tags.last_beat, *after_query)]),
            ),
        )
        fsm.act("ROWS",
            go.eq(valid & ~(has_results & tags.last_row & taken[1])),
            If(go,
                tags.key.eq(has_scores),
                tags.value.eq(has_results),
                ends.eq(tags.last_beat & tags.last_row),
                tags.finish.eq(tags.value & ends),
                NextValue(beat, beat + 1),
                If(tags.last_beat,
                    NextValue(beat, 0),
                    NextValue(tags.row, tags.row + 1),
                    NextValue(tags.first_row, 0),
                    NextValue(rows_left, rows_left - 1),
                    NextValue(tags.last_row, rows_left == 2),
                ),
                If(ends & tags.key, Case(tags.buffer, {b: NextValue(filled[b], 1) for b in range(2)})),
                *then(state=[If(ends, NextState("HEADER"))]),
            ),
        )
        fsm.act("DRAIN",
            go.eq(valid),
            If(go & last, NextState("HEADER")),
        )
        self.comb += self.idle.eq(fsm.ongoing("HEADER") & ~valid & (busy == 0) & (taken == 0) & (self.error == 0))
