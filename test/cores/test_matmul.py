#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Matmul core in Verilator against `litetern.model.numerics.circuits.matmul`, word for word.

    groups ──► stream ──[gaps]──► Matmul ──[stalls]──► results == numpy
    (drawn shapes, formats, vectors, contents, faults)  (and errors, and beats per cycle)

One elaboration per configuration serves every drawn shape; its runs follow each other without a reset.
"""

import functools
import re

from dataclasses import dataclass, field

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.cores.matmul.core import ERRORS, Matmul
from litetern.model.formats.stream import *
from litetern.model.formats.trits import pack_ternary
from litetern.model.numerics.circuits import matmul, reduce_rows
from stream_bench import StreamBench, bench_verilog

# Configurations -----------------------------------------------------------------------------------

CONFIGURATIONS = {
    "ternary" : dict(vectors_max=1, formats=("ternary",)),
    "one"     : dict(vectors_max=1, topk_max=256),
    "int8"    : dict(vectors_max=4, topk_max=1, row_weights_max=1600, formats=("int8",)),
    "eight"   : dict(vectors_max=8, topk_max=37),
}
DRAWN = settings(max_examples=60, deadline=None, derandomize=True)


@functools.lru_cache(maxsize=None)
def verilog(name):
    return bench_verilog(Matmul(**CONFIGURATIONS[name]), f"matmul_{name}")


@functools.lru_cache(maxsize=None)
def bench(name):
    return StreamBench(f"matmul_{name}", verilog(name), [error for error, _ in ERRORS])

# Groups -------------------------------------------------------------------------------------------


@dataclass
class Stream:
    """Beats of groups, and what must come back."""
    beats   : np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    data    : np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    last    : np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    errors  : dict       = field(default_factory=dict)

    def __add__(self, other):
        names = [*self.errors, *other.errors]
        return Stream(*(np.concatenate([getattr(self, a), getattr(other, a)]) for a in ("beats", "data", "last")),
            {name: self.errors.get(name, 0) + other.errors.get(name, 0) for name in names})


def contents(rng, kind, shape, low, high):
    """int8 `shape` in low … high, of a kind that stresses one corner."""
    if kind == "random":
        return rng.integers(low, high, shape, dtype=np.int8, endpoint=True)
    if kind == "sparse":
        return rng.integers(low, high, shape, dtype=np.int8, endpoint=True)*(rng.random(shape) < 0.1).astype(np.int8)
    return np.full(shape, {"low": low, "high": high, "zero": 0}[kind], dtype=np.int8)


KINDS = ("random", "sparse", "low", "high", "zero")


def header(**fields):
    """One-beat array of a header; `magic` may be wrong here."""
    magic = fields.pop("magic", MATMUL_HEADER.magic)
    word  = MATMUL_HEADER.pack(**{"vectors": 1, "reduce": REDUCE_NONE, **fields})
    word &= ~(MATMUL_HEADER["magic"].mask << MATMUL_HEADER["magic"].lsb)
    return np.array([word | magic << MATMUL_HEADER["magic"].lsb], dtype=np.uint64)


def body(rng, format, rows, columns, vectors, w_kind="random", x_kind="random"):
    """Beats of x and weights, and y int32 [rows, vectors]."""
    beats   = row_beats(columns, format)
    ternary = format == FORMAT_TERNARY
    weights = contents(rng, w_kind, (rows, columns), *((-1, 1) if ternary else (-128, 127)))
    x       = contents(rng, x_kind, (vectors, columns), -128, 127)
    x_words = np.zeros((vectors, x_beats(beats, format)*BEAT_BYTES), dtype=np.int8)
    x_words[:, :columns] = x
    if ternary:
        w_words = pack_ternary(weights)
    else:
        w_words = np.zeros((rows, beats*BEAT_BYTES), dtype=np.int8)
        w_words[:, :columns] = weights
    return np.concatenate([x_words.reshape(-1).view(np.uint64), w_words.reshape(-1).view(np.uint64)]), matmul(weights, x)


def results(y, reduce=REDUCE_NONE, topk=0):
    """uint64 beats that a group with the sums `y` int32 [rows, vectors] gives."""
    if reduce == REDUCE_NONE:
        flat = y.reshape(-1)
        return np.concatenate([flat, np.zeros(len(flat) % 2, np.int32)]).view(np.uint64)
    best    = reduce_rows(y, reduce, topk)
    records = [MATMUL_RECORD.pack(value=int(y[row, v]) % 2**32, row=row) for v in range(y.shape[1]) for row in best[v]]
    return np.array(records, dtype=np.uint64)


def group(rng, format=FORMAT_TERNARY, rows=3, columns=100, vectors=1, w_kind="random", x_kind="random", **reduction):
    """A good group and its results; `reduction` holds the header fields reduce and topk."""
    words, y = body(rng, format, rows, columns, vectors, w_kind, x_kind)
    data     = results(y, **reduction)
    last     = np.arange(len(data)) == len(data) - 1
    opening  = header(rows=rows, beats=row_beats(columns, format), format=format, vectors=vectors, **reduction)
    return Stream(np.concatenate([opening, words]), data, last)


def check(core, stream, gap=0.0, stall=0.0, seed=1, lasts=None):
    run = core.run(stream.beats, lasts, gap, stall, seed)
    assert run.accepted == len(stream.beats)
    assert run.errors == stream.errors
    assert np.array_equal(run.data, stream.data)
    assert np.array_equal(run.last, stream.last)
    return run

# Drawn shapes -------------------------------------------------------------------------------------


def supported(name):
    """(format, vectors) pairs of a configuration."""
    configuration = CONFIGURATIONS[name]
    most          = {FORMAT_TERNARY: configuration["vectors_max"], FORMAT_INT8: min(configuration["vectors_max"], 4)}
    formats       = configuration.get("formats", ("ternary", "int8"))
    return [(format, n) for text, format in (("ternary", FORMAT_TERNARY), ("int8", FORMAT_INT8)) if text in formats
        for n in (1, 2, 4, 8) if n <= most[format]]


@st.composite
def drawn_groups(draw, name):
    """A list of one to six groups: mixed formats and vectors, many of one row or one beat."""
    rng    = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stream = Stream()
    for _ in range(draw(st.integers(1, 6))):
        format, vectors = draw(st.sampled_from(supported(name)))
        topk_max        = CONFIGURATIONS[name].get("topk_max", 0)
        reductions      = [{}]
        if topk_max:
            reductions += [dict(reduce=REDUCE_ARGMAX), dict(reduce=REDUCE_TOPK, topk=draw(st.integers(1, topk_max)))]
        stream += group(rng, format,
            rows    = draw(st.one_of(st.integers(1, 4), st.integers(1, 60))),
            columns = draw(st.one_of(st.integers(1, 8), st.integers(1, 45), st.integers(1, 700))),
            vectors = vectors,
            w_kind  = draw(st.sampled_from(KINDS)),
            x_kind  = draw(st.sampled_from(KINDS)),
            **draw(st.sampled_from(reductions)),
        )
    return stream


PROBABILITIES = st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9])


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_drawn_groups(name):
    core = bench(name)

    @DRAWN
    @given(drawn_groups(name), PROBABILITIES, PROBABILITIES, st.integers(0, 2**32 - 1))
    def run(stream, gap, stall, seed):
        check(core, stream, gap, stall, seed)
    run()

# Corners ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w_kind", ("low", "high", "zero"))
@pytest.mark.parametrize("x_kind", ("low", "high"))
@pytest.mark.parametrize("format", (FORMAT_TERNARY, FORMAT_INT8))
def test_longest_row(format, w_kind, x_kind):
    rng = np.random.default_rng(1)
    check(bench("one"), group(rng, format, 3, ROW_WEIGHTS_MAX, w_kind=w_kind, x_kind=x_kind))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_back_to_back_single_beats(name):
    """Groups of one row of one beat: header, x and weights follow each other as closely as they can."""
    rng    = np.random.default_rng(2)
    kinds  = supported(name)
    stream = Stream()
    for i in range(40):
        format, vectors = kinds[i % len(kinds)]
        stream += group(rng, format, 1, 1 + i % 8, vectors)
    run = check(bench(name), stream)
    assert run.stalls == 0


def test_every_byte_of_the_table():
    """All 256 bytes, also those that no packer writes: they count as zero weights."""
    from litetern.model.formats.trits import DECODE
    rng   = np.random.default_rng(3)
    bytes = np.arange(256, dtype=np.uint8)
    rows  = np.stack([np.roll(bytes, -shift)[:8*(256//8)] for shift in range(8)])
    x     = rng.integers(-128, 127, 5*256, dtype=np.int8, endpoint=True)
    y     = matmul(DECODE[rows].reshape(8, -1), x[None])
    beats = np.concatenate([header(rows=8, beats=32, format=FORMAT_TERNARY), x.view(np.uint64), rows.reshape(-1).view(np.uint64)])
    check(bench("ternary"), Stream(beats, y.reshape(-1).view(np.uint64), np.arange(4) == 3))

# Reductions ---------------------------------------------------------------------------------------


def ordered(values, topk, reduce=REDUCE_TOPK, vectors=1):
    """A group whose sums are `values` (-127 … 127 each): one int8 weight a row, x = 1."""
    y     = np.repeat(np.asarray(values, dtype=np.int32)[:, None], vectors, axis=1)
    words = np.zeros((vectors + len(values), BEAT_BYTES), dtype=np.int8)
    words[:vectors, 0] = 1
    words[vectors:, 0] = values
    data  = results(y, reduce, topk)
    return Stream(np.concatenate([header(rows=len(values), beats=1, format=FORMAT_INT8, vectors=vectors, reduce=reduce, topk=topk),
        words.reshape(-1).view(np.uint64)]), data, np.arange(len(data)) == len(data) - 1)


@pytest.mark.parametrize("topk", (1, 2, 3, 100, 255, 256))
@pytest.mark.parametrize("order", ("rising", "falling", "equal", "saw", "random"))
def test_shortlist(order, topk):
    """Every order of arrival, with and without ties, more and fewer rows than the shortlist holds."""
    rng = np.random.default_rng(12)
    for rows in (1, 2, topk, topk + 1, 700):
        i      = np.arange(rows)
        values = {
            "rising"  : i*254//rows - 127,
            "falling" : 127 - i*254//rows,
            "equal"   : 0*i - 5,
            "saw"     : i % 7,
            "random"  : rng.integers(-127, 128, rows),
        }[order]
        check(bench("one"), ordered(values, topk) + group(rng), stall=0.3*(rows == 2))


@pytest.mark.parametrize("name", ("one", "int8", "eight"))
def test_argmax(name):
    rng = np.random.default_rng(13)
    format, vectors = max(supported(name), key=lambda kind: kind[1])
    stream  = group(rng, format, 300, 77, vectors, reduce=REDUCE_ARGMAX) + group(rng, format, vectors=vectors)
    stream += ordered(np.arange(-127, 128), 0, REDUCE_ARGMAX, min(vectors, 4))
    stream += ordered(np.full(200, -127), 0, REDUCE_ARGMAX, min(vectors, 4))
    check(bench(name), stream)
    check(bench(name), stream, 0.5, 0.5)


@pytest.mark.parametrize("format, columns", ((FORMAT_TERNARY, 1536), (FORMAT_INT8, 192)))
def test_head_never_stalls(format, columns):
    """A head's shortlist of 256 from rows of 24 beats and more: no beat waits before the last row, whatever the order of the rows."""
    rng    = np.random.default_rng(14)
    stream = group(rng, format, 1500, columns, reduce=REDUCE_TOPK, topk=256)
    assert check(bench("one"), stream).stalls == 0
    x      = np.zeros(192, np.int8)
    x[:2]  = 127, 1
    weights       = np.zeros((1500, 192), np.int8)  # Sums rise with the row: each one enters the shortlist.
    weights[:, 0] = np.arange(1500)//127
    weights[:, 1] = np.arange(1500) % 127
    data   = results(matmul(weights, x[None]), REDUCE_TOPK, 256)
    beats  = np.concatenate([header(rows=1500, beats=24, format=FORMAT_INT8, reduce=REDUCE_TOPK, topk=256), x.view(np.uint64),
        weights.reshape(-1).view(np.uint64)])
    assert check(bench("one"), Stream(beats, data, np.arange(256) == 255)).stalls == 0


def test_reset_within_a_shortlist():
    """Nothing of an abandoned group survives a reset."""
    rng   = np.random.default_rng(15)
    whole = ordered(np.arange(-100, 100), 40)
    with pytest.raises(TimeoutError):
        bench("one").run(whole.beats[:150], np.zeros(150), max_cycles=2000)
    check(bench("one"), ordered(np.arange(50) - 110, 256) + group(rng))

# Throughput ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("ternary", "one", "eight"))
def test_sink_never_stalls_over_a_layer(name):
    """bitnet-large's attention and FFN shapes, fewer rows, group behind group, as many vectors as there are: a beat every cycle."""
    rng     = np.random.default_rng(4)
    vectors = CONFIGURATIONS[name]["vectors_max"]
    stream  = group(rng, rows=301, columns=1536, vectors=vectors) + group(rng, rows=150, columns=4096, vectors=vectors)
    stream += group(rng, rows=2, columns=1536, vectors=vectors)
    run    = check(bench(name), stream)
    assert run.stalls == 0
    assert run.accept_cycles == run.accepted == len(stream.beats)


def test_sink_stalls_only_while_the_writer_does():
    """One-beat rows, results as dense as they come; then a writer that takes nothing for long: nothing is lost."""
    rng    = np.random.default_rng(5)
    stream = group(rng, rows=500, columns=40)
    assert check(bench("one"), stream).stalls == 0
    assert check(bench("one"), stream, stall=0.95).stalls > 0

# Faults -------------------------------------------------------------------------------------------

FAULTS = {
    "rows"       : (dict(rows=0, beats=2, format=FORMAT_TERNARY, vectors=1), 10, {"rows": 1}),
    "no beats"   : (dict(rows=3, beats=0, format=FORMAT_TERNARY, vectors=1), 0, {"beats": 1}),
    "too long"   : (dict(rows=2, beats=411, format=FORMAT_TERNARY, vectors=1), 411*5 + 2*411, {"beats": 1}),
    "int8 long"  : (dict(rows=1, beats=2049, format=FORMAT_INT8, vectors=1), 2*2049, {"beats": 1}),
    "format"     : (dict(rows=3, beats=2, format=2, vectors=1), 8, {"format": 1}),
    "no vectors" : (dict(rows=3, beats=2, format=FORMAT_TERNARY, vectors=0), 6, {"vectors": 1}),
    "3 vectors"  : (dict(rows=3, beats=2, format=FORMAT_TERNARY, vectors=3), 36, {"vectors": 1}),
    "15 vectors" : (dict(rows=3, beats=2, format=FORMAT_INT8, vectors=15), 36, {"vectors": 1}),
    "reduction"  : (dict(rows=3, beats=2, format=FORMAT_INT8, vectors=1, reduce=3), 8, {"reduce": 1}),
    "top 0"      : (dict(rows=3, beats=2, format=FORMAT_INT8, vectors=1, reduce=REDUCE_TOPK, topk=0), 8, {"reduce": 1}),
    "top 257"    : (dict(rows=3, beats=2, format=FORMAT_INT8, vectors=1, reduce=REDUCE_TOPK, topk=257), 8, {"reduce": 1}),
    "all"        : (dict(rows=0, beats=0, format=FORMAT_TERNARY, vectors=0, reduce=3), 0, {"rows": 1, "beats": 1, "vectors": 1, "reduce": 1}),
}


def refused(rng, name):
    fields, length, errors = FAULTS[name]
    return Stream(np.concatenate([header(**fields), rng.integers(0, 2**64, length, dtype=np.uint64)]), errors=errors)


@pytest.mark.parametrize("fault", FAULTS)
def test_refused_header(fault):
    """The group is drained and gives nothing; its neighbours are right."""
    rng    = np.random.default_rng(6)
    stream = group(rng, rows=1, columns=1) + refused(rng, fault) + group(rng, FORMAT_INT8) + refused(rng, fault) + group(rng)
    check(bench("one"), stream)
    check(bench("one"), stream, 0.5, 0.5)
    check(bench("one"), refused(rng, fault))


def test_format_that_the_core_lacks():
    rng   = np.random.default_rng(7)
    other = group(rng, FORMAT_INT8)
    check(bench("ternary"), Stream(other.beats, errors={"format": 1}) + group(rng))


def test_vectors_that_the_core_lacks():
    """Also int8 with 8 vectors, where ternary may have them."""
    rng   = np.random.default_rng(8)
    other = group(rng, vectors=2)
    check(bench("ternary"), Stream(other.beats, errors={"vectors": 1}) + group(rng))
    other = group(rng, FORMAT_INT8, vectors=8)
    check(bench("eight"), group(rng, vectors=8) + Stream(other.beats, errors={"vectors": 1}) + group(rng, vectors=8))


def test_reduction_that_the_core_lacks():
    rng   = np.random.default_rng(16)
    other = group(rng, reduce=REDUCE_ARGMAX)
    check(bench("ternary"), Stream(other.beats, errors={"reduce": 1}) + group(rng))


def test_wrong_magic_drops_the_list():
    """Out of step: nothing is believed before the next list."""
    rng    = np.random.default_rng(9)
    first  = group(rng)
    broken = Stream(np.concatenate([header(rows=1, beats=1, format=FORMAT_TERNARY, magic=0x4b), group(rng).beats]), errors={"magic": 1})
    second = group(rng)
    stream = first + broken + second
    lasts  = np.zeros(len(stream.beats), bool)
    lasts[[len(first.beats) + len(broken.beats) - 1, -1]] = True
    check(bench("one"), stream, lasts=lasts)
    check(bench("one"), first + Stream(header(rows=1, beats=1, magic=0), errors={"magic": 1}))
    check(bench("one"), first)


def test_truncated_list():
    """Ends within header, x or rows: an error, and the next list is right; a started row closes its group."""
    rng   = np.random.default_rng(10)
    whole = group(rng, rows=4, columns=200)  # 1 header, 25 of x, 4 × 5 of weights
    for end, results in ((1, 0), (2, 0), (25, 0), (26, 0), (31, 1), (36, 1), (37, 2), (41, 2), (44, 2)):
        run = bench("one").run(whole.beats[:end])
        assert run.errors == {"truncated": 1}
        assert len(run.data) == results and run.last.sum() == min(results, 1) and run.last[-1:].all()
        rows = max(0, end - 26)//5  # Whole rows that came.
        assert np.array_equal(run.data.view(np.int32)[:rows], whole.data.view(np.int32)[:rows])
        check(bench("one"), group(rng))
    assert not bench("one").run(whole.beats).errors

# Elaboration --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, text", (
    (dict(vectors_max=3),           "vectors_max 3"),
    (dict(formats=("int4",)),       "formats"),
    (dict(formats=()),              "formats"),
    (dict(row_weights_max=0),       "row_weights_max 0"),
    (dict(row_weights_max=16385),   "row_weights_max 16385"),
    (dict(int8_vectors_max=2),      "int8_vectors_max 2"),
    (dict(topk_max=257),            "topk_max 257"),
))
def test_impossible_parameters(arguments, text):
    with pytest.raises(ValueError, match=text):
        Matmul(**arguments)

# Mutations ----------------------------------------------------------------------------------------

# Faults put into the generated Verilog: (configuration, what must be found exactly once, what takes its place).
MUTATIONS = {
    "flipped sign of a lane" : ("ternary", r"(negative17) <= (\w*sign\[17\]);", r"\1 <= ~\2;"),
    "dropped trit"           : ("ternary", r"(term23) <= \w*lanes_x[^;]*;",     r"\1 <= 8'd0;"),
    "zero weight not zero"   : ("ternary", r"\w+term5 <= 1'd0;",                 r";"),
    "wrong entry of a table" : ("ternary", r"(decode2\[77\] = 'h\w+);",          r"\1 ^ 1;"),
    "accumulator kept"       : ("ternary", r"\w*accumulator0 <= 1'd0;",          r";"),
    "x one word late"        : ("ternary", r"(xbuffer_address = \w*address);",   r"\1 | 1;"),
    "tie to the higher row"  : ("one",     r"(challenge) > (\w*worst)",               r"\1 >= \2"),
    "dropped int8 product"   : ("one",     r"(int8lanes_p3) <= \w*int8lanes_m3;", r"\1 <= 16'd0;"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutation_is_caught(mutation):
    name, pattern, replacement = MUTATIONS[mutation]
    text, count = re.subn(pattern, replacement, verilog(name))
    assert count == 1
    rng    = np.random.default_rng(11)
    stream = group(rng, supported(name)[-1][0], rows=64, columns=1536)
    if CONFIGURATIONS[name].get("topk_max"):
        stream += group(rng, rows=64, columns=40) + ordered(np.arange(200) % 5, 20)
    run = StreamBench(f"matmul_{name}", text, [error for error, _ in ERRORS], cflags=["-O0"]).run(stream.beats)
    assert len(run.data) == len(stream.data)
    assert not np.array_equal(run.data, stream.data)
