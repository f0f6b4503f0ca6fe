#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Attention core in Verilator against `litetern.model.numerics.circuits.attention`, word for word.

    records ──► stream ──[gaps]──► Attention ──[stalls]──► results == numpy
    (drawn shapes, orders, contents, faults)              (and errors, and beats per cycle)

One elaboration per configuration serves every drawn shape; its runs follow each other without a reset.
"""

import functools
import re

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.cores.attention.core import ERRORS, ORDER_CYCLES, Attention
from litetern.model.formats.stream import BEAT_BYTES, EXPONENT_MAX, K_HEADER, QUERY_HEADER, V_HEADER
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters, attention
from stream_bench import StreamBench, bench_verilog

# Configurations -----------------------------------------------------------------------------------

CONFIGURATIONS = {
    "one"    : dict(head_dim_max=96,  queries_max=1, rows_max=2048),
    "three"  : dict(head_dim_max=128, queries_max=3, rows_max=512),
    "fine"   : dict(head_dim_max=24,  queries_max=2, rows_max=4096, parameters=AttentionParameters(12, 32, 10, 20)),
    "narrow" : dict(head_dim_max=8,   queries_max=12,rows_max=50,   parameters=AttentionParameters(8, 16, 9)),
    "wide"   : dict(head_dim_max=96,  queries_max=1, rows_max=512,  parameters=AttentionParameters(8, 16, 8, 18)),
}
DRAWN = settings(max_examples=150, deadline=None, derandomize=True)


@functools.lru_cache(maxsize=None)
def verilog(name):
    return bench_verilog(Attention(**CONFIGURATIONS[name]), f"attention_{name}")


@functools.lru_cache(maxsize=None)
def bench(name):
    return StreamBench(f"attention_{name}", verilog(name), [error for error, _ in ERRORS])

# Records ------------------------------------------------------------------------------------------


def words(data):
    """int8 array as uint64 beats."""
    return np.ascontiguousarray(data, dtype=np.int8).reshape(-1).view(np.uint64)


def int8(rng, kind, shape):
    """Contents that stress one corner each."""
    if kind == "minimum":
        return np.full(shape, -128, dtype=np.int8)
    if kind == "zero":
        return np.zeros(shape, dtype=np.int8)
    if kind == "extremes":
        return rng.choice(np.array([-128, 127], dtype=np.int8), shape)
    if kind == "equal":
        return np.broadcast_to(rng.integers(-128, 128, shape[-1]), shape).astype(np.int8)
    return rng.integers(-128, 128, shape).astype(np.int8)


class Job:
    """A K record of random contents, its V record and the results.

    `lengths`, `mantissas` and `exponents` may be given, per query.
    """
    def __init__(self, rng, rows, head_dim, queries=1, buffer=0, kind="random", mantissas=None, exponents=None, lengths=None,
        parameters=ATTENTION):
        shape            = dict(rows=rows, beats=head_dim//BEAT_BYTES, queries=queries, buffer=buffer)
        self.buffer      = buffer
        q                = int8(rng, kind, (queries, head_dim))
        keys             = int8(rng, kind, (rows, head_dim))
        values           = int8(rng, "extremes" if kind == "equal" else kind, (rows, head_dim))
        self.mantissas   = rng.integers(0, 2**parameters.mantissa_bits, queries) if mantissas is None else np.broadcast_to(mantissas, queries)
        self.exponents   = rng.integers(0, EXPONENT_MAX + 1, queries) if exponents is None else np.broadcast_to(exponents, queries)
        self.lengths     = rng.integers(1, rows + 1, queries) if lengths is None else np.broadcast_to(lengths, queries)
        k, results       = [K_HEADER.pack(**shape)], []
        for i in range(queries):
            multiplier = dict(mantissa=int(self.mantissas[i]), exponent=int(self.exponents[i]))
            k += [QUERY_HEADER.pack(**multiplier, length=self.lengths[i]), *words(q[i])]
            if 1 <= self.lengths[i] <= rows:
                part = slice(0, self.lengths[i])
                numerators, denominator, maximum = attention(q[i], keys[part], values[part], **multiplier, parameters=parameters)
                results += [*numerators, denominator, maximum]
        self.k       = np.concatenate([np.array(k, dtype=np.uint64), words(keys)])
        self.v       = np.concatenate([np.array([V_HEADER.pack(**shape)], dtype=np.uint64), words(values)])
        self.results = np.array(results, dtype=np.int32).view(np.uint64)


def interleaved(jobs):
    """K0 K1 V0 K2 V1 …: the order that costs nothing."""
    parts = [jobs[0].k]
    for job, following in zip(jobs, jobs[1:]):
        parts += [following.k, job.v]
    return np.concatenate([*parts, jobs[-1].v])


def alternating(jobs):
    """K0 V0 K1 V1 …"""
    return np.concatenate([part for job in jobs for part in (job.k, job.v)])


def check(run, results, errors=None):
    """Compares a run with a list of the results of its V records, in order."""
    expected = np.concatenate([np.zeros(0, dtype=np.uint64), *results])
    lasts    = np.zeros(len(expected), dtype=bool)
    lasts[np.cumsum([len(r) for r in results], dtype=int) - 1] = True
    assert run.errors == (errors or {})
    assert len(run.data) == len(expected)
    assert np.array_equal(run.data, expected)
    assert np.array_equal(run.last, lasts)

# Drawn shapes -------------------------------------------------------------------------------------


@st.composite
def drawn_job(draw, name, buffer):
    configuration = CONFIGURATIONS[name]
    rows    = draw(st.one_of(st.integers(1, 6), st.integers(1, min(configuration["rows_max"], 150))))
    kind    = draw(st.sampled_from(["random", "random", "minimum", "zero", "extremes", "equal"]))
    parameters = configuration.get("parameters", ATTENTION)
    mantissa   = draw(st.one_of(st.none(), st.integers(0, parameters.mantissa_max), st.sampled_from([0, 1, parameters.mantissa_max])))
    exponent   = draw(st.one_of(st.none(), st.integers(0, EXPONENT_MAX)))
    lengths = draw(st.sampled_from([None, None, 1, rows]))
    beats   = draw(st.integers(1, configuration["head_dim_max"]//BEAT_BYTES))
    queries = draw(st.integers(1, configuration["queries_max"]))
    rng     = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Job(rng, rows, BEAT_BYTES*beats, queries, buffer, kind, mantissa, exponent, lengths, parameters)


@st.composite
def drawn_flow(draw):
    """Gaps and stalls, each present or not."""
    return dict(gap_probability=draw(st.sampled_from([0.0, 0.0, 0.2, 0.6])), stall_probability=draw(st.sampled_from([0.0, 0.0, 0.25, 0.7])),
        seed=draw(st.integers(1, 2**32)))


@pytest.mark.parametrize("name", CONFIGURATIONS)
@DRAWN
@given(data=st.data())
def test_any_order(name, data):
    """Any legal order: a V record may come late, several times, or never."""
    filled, parts, results = {}, [], []
    for _ in range(data.draw(st.integers(2, 8))):
        if filled and data.draw(st.booleans()):
            job = filled[data.draw(st.sampled_from(sorted(filled)))]
            parts.append(job.v)
            results.append(job.results)
        else:
            job = data.draw(drawn_job(name, data.draw(st.integers(0, 1))))
            parts.append(job.k)
            filled[job.buffer] = job
    lasts = np.concatenate([[*np.zeros(len(part) - 1), data.draw(st.booleans())] for part in parts])
    check(bench(name).run(np.concatenate(parts), lasts, **data.draw(drawn_flow())), results)


@pytest.mark.parametrize("order", [interleaved, alternating])
@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(DRAWN, max_examples=50)
@given(data=st.data())
def test_heads(name, order, data):
    """The heads of a layer, alternating between the buffers."""
    jobs = [data.draw(drawn_job(name, i % 2)) for i in range(data.draw(st.integers(1, 5)))]
    check(bench(name).run(order(jobs), **data.draw(drawn_flow())), [job.results for job in jobs])


@pytest.mark.parametrize("name, rows, head_dim, queries", [
    ("one", 2048, 96, 1), ("one", 2048, 8, 1), ("three", 512, 128, 3), ("fine", 4096, 24, 2), ("narrow", 50, 8, 12)])
@pytest.mark.parametrize("kind", ["random", "minimum", "extremes"])
def test_longest(name, rows, head_dim, queries, kind):
    """The largest sums that the widths must hold."""
    rng        = np.random.default_rng(rows)
    parameters = CONFIGURATIONS[name].get("parameters", ATTENTION)
    jobs       = [Job(rng, rows, head_dim, queries, i % 2, kind, mantissa, exponent, length, parameters) for i, (mantissa, exponent, length)
        in enumerate([(None, None, None), (0, 0, rows), *((parameters.mantissa_max, e, rows) for e in range(EXPONENT_MAX + 1))])]
    check(bench(name).run(interleaved(jobs)), [job.results for job in jobs])

# Beats per cycle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, rows, head_dim, queries", [
    ("one", 64, 96, 1), ("one", 512, 96, 1), ("one", 5, 96, 1), ("three", 64, 96, 3), ("three", 512, 64, 3), ("three", 13, 96, 3)])
def test_every_cycle(name, rows, head_dim, queries):
    """K0 K1 V0 K2 V1 …: a beat every cycle, results included."""
    rng  = np.random.default_rng(1)
    jobs = [Job(rng, rows, head_dim, queries, i % 2) for i in range(8)]
    run  = bench(name).run(interleaved(jobs))
    check(run, [job.results for job in jobs])
    assert run.accepted == run.accept_cycles == sum(len(job.k) + len(job.v) for job in jobs)
    # After the last beat only its own results leave.
    assert run.cycles - run.accept_cycles <= len(jobs[-1].results) + 10


@pytest.mark.parametrize("name, rows, head_dim, queries", [("one", 64, 96, 1), ("one", 1, 8, 1), ("three", 100, 64, 3)])
def test_own_buffer(name, rows, head_dim, queries):
    """K0 V0 K1 V1 …: each V header waits for the last score of its buffer, and no longer."""
    rng  = np.random.default_rng(1)
    jobs = [Job(rng, rows, head_dim, queries, i % 2) for i in range(8)]
    run  = bench(name).run(alternating(jobs))
    check(run, [job.results for job in jobs])
    assert run.accept_cycles - run.accepted == ORDER_CYCLES*len(jobs)


def test_results_fit_into_the_values():
    """V records as long as their results, one after the other from the same scores: still a beat every cycle."""
    job = Job(np.random.default_rng(2), rows=13, head_dim=96, queries=3)
    run = bench("three").run(np.concatenate([job.k, *[job.v]*20]))
    check(run, [job.results]*20)
    assert len(job.v) >= len(job.results)
    assert run.accept_cycles - run.accepted == ORDER_CYCLES

# Faults -------------------------------------------------------------------------------------------


def noise(rng, beats):
    return rng.integers(0, 2**64, beats, dtype=np.uint64)


def faulty_key(rng, rows, beats, queries, buffer, lengths=None, mantissas=None):
    """K record of any declared shape, with as many beats as that makes."""
    parts = [np.array([K_HEADER.pack(rows=rows, beats=beats, queries=queries, buffer=buffer)], dtype=np.uint64)]
    for i in range(queries):
        length = QUERY_HEADER.pack(mantissa=mantissas[i] if mantissas else 1, length=lengths[i] if lengths else 1)
        parts += [np.array([length], dtype=np.uint64), noise(rng, beats)]
    return np.concatenate([*parts, noise(rng, rows*beats)])


def faulty_value(rng, rows, beats, queries, buffer):
    header = np.array([V_HEADER.pack(rows=rows, beats=beats, queries=queries, buffer=buffer)], dtype=np.uint64)
    return np.concatenate([header, noise(rng, rows*beats)])


KEY_FAULTS = {
    "no rows"           : (dict(rows=0), "rows"),
    "too many rows"     : (dict(rows=513), "rows"),
    "most rows"         : (dict(rows=65535, beats=1), "rows"),
    "no beats"          : (dict(beats=0), "beats"),
    "too many beats"    : (dict(beats=17), "beats"),
    "most beats"        : (dict(beats=31), "beats"),
    "no queries"        : (dict(queries=0), "queries"),
    "too many queries"  : (dict(queries=4), "queries"),
    "most queries"      : (dict(queries=31), "queries"),
    "length 0"          : (dict(lengths=[2, 0]), "length"),
    "length over rows"  : (dict(lengths=[6, 5]), "length"),
    "length 65535"      : (dict(lengths=[5, 65535]), "length"),
    "wide mantissa"     : (dict(mantissas=[2**17, 1]), "multiplier"),
    "widest mantissa"   : (dict(mantissas=[2**17 - 1, 2**20 - 1]), "multiplier"),
    "two faults"        : (dict(lengths=[1, 6], mantissas=[2**19, 2**18]), "multiplier"),
}


@pytest.mark.parametrize("flow", [{}, dict(gap_probability=0.3, stall_probability=0.3)])
@pytest.mark.parametrize("fault", KEY_FAULTS)
def test_refused_key(fault, flow):
    """The K record is drained, so is its V record; records before, between and after are right."""
    rng         = np.random.default_rng(3)
    changes, error = KEY_FAULTS[fault]
    shape       = {**dict(rows=5, beats=3, queries=2, buffer=1), **changes}
    queries     = {name: shape.pop(name, None) for name in ("lengths", "mantissas")}
    before, after = Job(rng, 7, 96, 3, buffer=1), Job(rng, 9, 64, 2, buffer=1)
    between     = Job(rng, 20, 128, 1, buffer=0)
    stream      = np.concatenate([before.k, before.v, between.k, faulty_key(rng, **shape, **queries), between.v,
        faulty_value(rng, **shape), after.k, after.v])
    errors      = {error: 1 if any(queries.values()) else 2, "buffer": 1}
    check(bench("three").run(stream, **flow), [before.results, between.results, after.results], errors)


@pytest.mark.parametrize("changes", [dict(rows=6), dict(beats=2), dict(queries=1), dict(buffer=1)])
def test_refused_value(changes):
    """A V record that does not match is drained; the scores stay, and the right one may follow."""
    rng    = np.random.default_rng(4)
    other  = faulty_key(rng, 5, 3, 4, buffer=1)
    job    = Job(rng, 5, 24, 2, buffer=0)
    shape  = {**dict(rows=5, beats=3, queries=2, buffer=0), **changes}
    stream = np.concatenate([other, job.k, faulty_value(rng, **shape), job.v])
    check(bench("three").run(stream), [job.results], {"queries": 1, "buffer": 1})


def test_magic():
    """Everything up to the end of the list is dropped, K headers too; the next list is right."""
    rng    = np.random.default_rng(5)
    jobs   = [Job(rng, 6, 64, 2, buffer=i % 2) for i in range(4)]
    wrong  = np.array([0x4D << 56 | 5], dtype=np.uint64)
    parts  = [jobs[0].k, jobs[0].v, wrong, jobs[1].k, jobs[1].v, jobs[2].k, jobs[2].v, wrong, jobs[3].k, jobs[3].v]
    ends   = [False, False, False, False, True, False, False, True, False, True]
    lasts  = np.concatenate([[*np.zeros(len(part) - 1), end] for part, end in zip(parts, ends)])
    check(bench("three").run(np.concatenate(parts), lasts), [jobs[0].results, jobs[2].results, jobs[3].results], {"magic": 2})


def test_truncated():
    """A list that ends inside a record, wherever: no results of it, and the next list is right."""
    rng  = np.random.default_rng(6)
    for record in "kv":
        job = Job(rng, 2, 16, 2, buffer=1)
        for end in range(1, len(getattr(job, record))):
            following = Job(rng, 3, 24, 3, buffer=end % 2)
            parts     = [job.k[:end]] if record == "k" else [job.k, job.v[:end]]
            parts    += [following.k, following.v]
            lasts     = np.concatenate([[*np.zeros(len(part) - 1), True] for part in parts])
            check(bench("three").run(np.concatenate(parts), lasts), [following.results], {"truncated": 1})


def test_reset_inside_a_record():
    """A reset at any beat of a V record leaves nothing behind."""
    rng = np.random.default_rng(7)
    job = Job(rng, 3, 16, 1, buffer=0)
    for end in range(1, len(job.v) + 1):
        stream = np.concatenate([job.k, job.v[:end]])
        # Stopped by the limit of cycles, the bench resets the core.
        with pytest.raises(TimeoutError):
            bench("one").run(stream, np.zeros(len(stream)), max_cycles=len(stream) + ORDER_CYCLES + 1)
        check(bench("one").run(np.concatenate([job.k, job.v])), [job.results])


@pytest.mark.parametrize("wrong", [
    dict(head_dim_max=12), dict(head_dim_max=136), dict(head_dim_max=0), dict(queries_max=0), dict(queries_max=32), dict(rows_max=0),
    dict(rows_max=2**16), dict(rows_max=4096, parameters=AttentionParameters(10, 16, 15))])
def test_parameters(wrong):
    with pytest.raises(ValueError, match="must be|fit"):
        Attention(**wrong)

# Mutations ----------------------------------------------------------------------------------------

# What is broken: (pattern in the Verilog, replacement).
MUTATIONS = {
    "a K row is skipped"         : (r"assign write_we = (.*);", r"assign write_we = (\1) && (address != 1);"),
    "an exp entry is wrong"      : (r"(exp_table\w*)\[0\] = ('h\w+);", r"\1[0] = \2 ^ 1;"),
    "a sign is flipped"          : (r"(sum0_2 <= \(\w+) \+", r"\1 -"),
    "the causal length is off"   : (r"(tags_row) >= (\w*length0)", r"\1 > \2"),
    "the maximum is never fresh" : (r"\{1'd0, \w*first_row_15\}\) \|", r"{2'd0}) |"),
    "numerators are never fresh" : (r"\w*first_row_8 \? 1'd0 :", r"1'd0 ? 1'd0 :"),
    "a bit of m is flipped"      : (r"(mantissa <= )(\w+)", r"\g<1>1024 ^ \2"),
    "a bit of m is lost"         : (r"(mantissa <= \w+\[)16:0\]", r"\g<1>15:0]"),
    "the exponent is ignored"    : (r"(exponent <= )\w+\[25:24\]", r"\g<1>2'd0"),
    "the exponent is too early"  : (r"(later1 <= )later0", r"\g<1>exponent"),
    "a shift is wrong"           : (r"(proxy2\[)15:0\]", r"\g<1>16:1]"),
    "a score wraps"              : (r"fits \? shifted", r"1'd1 ? shifted"),
    "a score clamps too soon"    : (r"fits <= \(1'd1 & .*;", r"fits <= 1'd0;"),
}


def test_mutations_are_found():
    """The comparison of `test_heads` turns red for every one of them."""
    original = bench_verilog(Attention(head_dim_max=16, rows_max=16), "attention_mutant")
    rng      = np.random.default_rng(8)
    jobs     = [Job(rng, 12, 16, buffer=i % 2, mantissas=2**16 + 20000, exponents=exponent, lengths=length)
        for i, (length, exponent) in enumerate([(12, 0), (12, 1), (5, 2), (5, 3)]*3)]
    stream, results = interleaved(jobs), [job.results for job in jobs]
    names    = [error for error, _ in ERRORS]
    check(StreamBench("attention_mutant", original, names).run(stream), results)
    for what, (pattern, replacement) in MUTATIONS.items():
        mutant, count = re.subn(pattern, replacement, original, count=1)
        assert count == 1, f"{what}: nothing to break"
        with pytest.raises(AssertionError):
            check(StreamBench("attention_mutant", mutant, names).run(stream), results)
            pytest.fail(f"{what}: not found")
