#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The C cores run descriptor lists: results, padding, guards and errors beside numpy, on every build.

::

    0       4 KB       64 KB          1 MB                2 MB
    | list  | …        | pieces …     | guard, results, guard
"""

import dataclasses

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.model.formats.engine import CORE, LIST_ERROR
from litetern.model.formats.stream import *
from litetern.model.formats.trits import pack_ternary
from litetern.model.numerics import circuits

from firmware_builds import BUILDS, firmware_build

LIST, PIECES, RESULTS, MEMORY = 0, 64 << 10, 1 << 20, 2 << 20
GUARD                         = 0xA5
MATMUL, ATTENTION             = CORE.MATMUL, CORE.ATTENTION
RESERVED                      = 2

ERRORS = {name.lower(): value for name, value, _ in LIST_ERROR.items}

SEED  = st.integers(0, 2**32 - 1)
DRAWN = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.fixture(params=[name for name in BUILDS if name != "checker"], scope="module")
def c(request):
    return firmware_build(request.param)

# Streams ------------------------------------------------------------------------------------------


def word(value):
    """uint8 [8] of a 64-bit word."""
    return np.frombuffer(int(value).to_bytes(8, "little"), np.uint8)


def matmul_group(random, rows, columns, format, vectors, reduce=REDUCE_NONE, topk=0):
    """(stream bytes, result bytes) of a random group."""
    beats   = row_beats(columns, format)
    x       = random.integers(-128, 128, (vectors, columns)).astype(np.int8)
    padded  = np.zeros((vectors, 8*x_beats(beats, format)), np.int8)
    padded[:, :columns] = x
    if format == FORMAT_TERNARY:
        weights = random.integers(-1, 2, (rows, columns)).astype(np.int8)
        packed  = pack_ternary(weights)
    else:
        weights = random.integers(-128, 128, (rows, columns)).astype(np.int8)
        packed  = np.zeros((rows, 8*beats), np.int8)
        packed[:, :columns] = weights
    if random.random() < 0.3:
        weights[:] = weights[:1]  # Ties.
        packed[:]  = packed[:1]
    y      = circuits.matmul(weights, x)
    header = MATMUL_HEADER.pack(rows=rows, beats=beats, format=format, vectors=vectors, reduce=reduce, topk=topk)
    if reduce == REDUCE_NONE:
        results = np.zeros(-(-y.size//2)*2, np.int32)
        results[:y.size] = y.reshape(-1)
    else:
        best    = circuits.reduce_rows(y, reduce, topk)
        results = np.array([MATMUL_RECORD.pack(value=int(y[row, v]) & 0xFFFFFFFF, row=int(row)) for v in range(vectors) for row in best[v]],
            np.uint64)
    return np.concatenate([word(header), padded.view(np.uint8).reshape(-1), packed.view(np.uint8).reshape(-1)]), results.view(np.uint8)


def attention_records(random, rows, head_dim, lengths, buffer, parameters=circuits.ATTENTION):
    """(K record, V record, results of V) of random keys, values, multipliers and queries with causal lengths."""
    beats, count = head_dim//8, len(lengths)
    spread       = random.choice([8, 128])
    keys, values, q = (random.integers(-spread, spread, (n, head_dim)).astype(np.int8) for n in (rows, rows, count))
    mantissas    = random.integers(0, 2**random.integers(1, parameters.mantissa_bits + 1), count)
    mantissas[random.random(count) < 0.1] = parameters.mantissa_max
    exponents    = random.integers(0, EXPONENT_MAX + 1, count)
    k, results   = [word(K_HEADER.pack(rows=rows, beats=beats, queries=count, buffer=buffer))], []
    for i, length in enumerate(lengths):
        multiplier = dict(mantissa=int(mantissas[i]), exponent=int(exponents[i]))
        k += [word(QUERY_HEADER.pack(**multiplier, length=length)), q[i].view(np.uint8)]
        numerators, denominator, maximum = circuits.attention(q[i], keys[:length], values[:length], **multiplier, parameters=parameters)
        results += [numerators, [denominator, maximum]]
    v = [word(V_HEADER.pack(rows=rows, beats=beats, queries=count, buffer=buffer)), values.view(np.uint8).reshape(-1)]
    return np.concatenate([*k, keys.view(np.uint8).reshape(-1)]), np.concatenate(v), np.concatenate(results).astype(np.int32).view(np.uint8)

# Runs ---------------------------------------------------------------------------------------------

NOTHING = (2**32 - 1, 0)
ALL     = (0, MEMORY - 1)


def cores_memory(c, address, ranges):
    """struct cores_memory: MEMORY bytes from bus address 0 on, and of those the ranges (first, last) READ0, READ1, WRITE0, WRITE1."""
    pointers = np.array([address, 0], np.uint32 if c.pointer_bytes == 4 else np.uint64)
    return c.put(pointers.tobytes() + np.array([MEMORY], np.uint64).tobytes() + np.array([0, 0, *np.ravel(ranges)], np.uint32).tobytes())


def cores_softmax(c, parameters):
    """struct cores_softmax of an AttentionParameters; 0 where the C cores have no such resolution."""
    core, softmax = c.room(c.call("cores_softmax_bytes") & 0xFFFFFFFF), c.put(np.array(dataclasses.astuple(parameters), np.uint32))
    return core if c.call("cores_resolve", core, softmax) & 0xFFFFFFFF else 0


class Run:
    """A memory with a stream cut into pieces at random beats, run by cores_run_list() or in shares. parameters: of the attention core;
    None: there is none."""
    def __init__(self, c, core, stream, random=None, limit=MEMORY - RESULTS - 8, parameters=circuits.ATTENTION):
        c.free()
        self.c, self.core, self.limit = c, core, limit
        self.softmax = cores_softmax(c, parameters) if parameters else 0
        self.ranges  = [ALL, NOTHING, ALL, NOTHING]
        self.address = c.room(MEMORY)
        self.memory  = c.view(self.address, np.uint8, MEMORY)
        self.memory[:] = GUARD
        self.run     = c.room(c.call("cores_run_bytes") & 0xFFFFFFFF)
        beats        = stream.size//8
        cuts         = sorted(random.choice(beats - 1, min(int(random.integers(0, 12)), beats - 1), replace=False) + 1) if random and beats > 1 else []
        where, words = PIECES, []
        for first, end in zip([0, *cuts], [*cuts, beats]):
            self.memory[where:where + 8*(end - first)] = stream[8*first:8*end]
            words.append(descriptor(where, 8*int(end - first), last=end == beats))
            where += 8*int(end - first) + 8*int(random.integers(0, 20) if random else 0)
        assert where <= RESULTS
        self.words = words

    def go(self, share=None):
        """Returns the errors; then `results` and `beats` are there."""
        c, memory = self.c, self.address
        self.memory[LIST:LIST + 8*len(self.words)] = np.array(self.words, np.uint64).view(np.uint8)
        arguments = (self.run, cores_memory(c, memory, self.ranges), self.softmax, self.core, LIST, RESULTS + 8, self.limit)
        if share is None:
            written, beats = c.room(4), c.room(4)
            errors = c.call("cores_run_list", *arguments, written, beats) & 0xFFFFFFFF
            written, self.beats = (int(c.get(a, np.uint32, 1)[0]) for a in (written, beats))
        else:
            c.call("cores_start", *arguments)
            for _ in range(10**6):
                if not c.call("cores_advance", self.run, share) & 0xFFFFFFFF:
                    break
            written, self.beats, errors, busy = c.get(self.run, np.uint32, 4).tolist()
            assert not busy
        self.results = self.memory[RESULTS + 8:RESULTS + 8 + written].copy()
        assert (self.memory[RESULTS:RESULTS + 8] == GUARD).all() and (self.memory[RESULTS + 8 + written:] == GUARD).all()
        return errors


def expect(run, results, share=None, errors=0):
    assert run.go(share) == errors
    np.testing.assert_array_equal(run.results.view(np.int32), results.view(np.int32))

# Matmul -------------------------------------------------------------------------------------------


@DRAWN
@given(seed=SEED, groups=st.integers(1, 3), share=st.sampled_from([None, 1, 7, 100]))
def test_matmul(c, seed, groups, share):
    random = np.random.default_rng(seed)
    parts  = [matmul_group(random, int(random.integers(1, 40)), int(random.integers(1, 300)), int(random.integers(0, 2)),
        int(random.choice([1, 2, 4, 8]))) for _ in range(groups)]
    stream = np.concatenate([part[0] for part in parts])
    run    = Run(c, MATMUL, stream, random)
    expect(run, np.concatenate([part[1] for part in parts]), share)
    assert run.beats == stream.size//8


@DRAWN
@given(seed=SEED, reduce=st.sampled_from([REDUCE_ARGMAX, REDUCE_TOPK]))
def test_reductions(c, seed, reduce):
    random = np.random.default_rng(seed)
    stream, results = matmul_group(random, int(random.integers(1, 300)), int(random.integers(1, 60)), int(random.integers(0, 2)),
        int(random.choice([1, 2, 4])), reduce, int(random.integers(1, TOPK_MAX + 1)))
    expect(Run(c, MATMUL, stream, random), results)


@pytest.mark.parametrize("format", [FORMAT_TERNARY, FORMAT_INT8])
@pytest.mark.parametrize("sign", [1, -1])
def test_longest_row_of_extremes(c, format, sign):
    columns = ROW_WEIGHTS_MAX
    beats   = row_beats(columns, format)
    weights = np.full((2, columns), sign if format == FORMAT_TERNARY else -128, np.int8)
    x       = np.full((1, columns), -128, np.int8)
    padded  = np.zeros(8*x_beats(beats, format), np.int8)
    padded[:columns] = x
    packed  = pack_ternary(weights) if format == FORMAT_TERNARY else weights.view(np.uint8)
    header  = MATMUL_HEADER.pack(rows=2, beats=beats, format=format, vectors=1)
    expect(Run(c, MATMUL, np.concatenate([word(header), padded.view(np.uint8), packed.reshape(-1)])), circuits.matmul(weights, x)[:, 0].view(np.uint8))


def test_bytes_that_no_packer_writes_are_zeros(c):
    row    = np.arange(243, 251, dtype=np.uint8)
    header = MATMUL_HEADER.pack(rows=1, beats=1, format=FORMAT_TERNARY, vectors=1)
    expect(Run(c, MATMUL, np.concatenate([word(header), np.full(40, 127, np.uint8), row])), np.zeros(8, np.uint8))


@pytest.mark.parametrize("error, fields", [
    ("rows",    {"rows": 0}),
    ("beats",   {"beats": 0}),
    ("beats",   {"beats": 411}),
    ("format",  {"format": 7}),
    ("vectors", {"vectors": 3}),
    ("vectors", {"vectors": 0}),
    ("reduce",  {"reduce": 3}),
    ("reduce",  {"reduce": REDUCE_TOPK, "topk": 0}),
    ("reduce",  {"reduce": REDUCE_TOPK, "topk": 257}),
])
@pytest.mark.parametrize("share", [None, 5])
def test_impossible_group_is_drained(c, error, fields, share):
    random = np.random.default_rng(3)
    good, results = matmul_group(random, 5, 50, FORMAT_TERNARY, 1)
    fields = {"rows": 3, "beats": 2, "format": FORMAT_TERNARY, "vectors": 1} | fields
    beats  = fields["beats"]*fields["vectors"]*(5 if fields["format"] == FORMAT_TERNARY else 1) + fields["rows"]*fields["beats"]
    bad    = np.concatenate([word(MATMUL_HEADER.pack(**fields)), random.integers(0, 256, 8*beats).astype(np.uint8)])
    expect(Run(c, MATMUL, np.concatenate([good, bad, good]), random), np.concatenate([results, results]), share, ERRORS[error])

# Attention ----------------------------------------------------------------------------------------


REFERENCE   = circuits.AttentionParameters(8, 16, 8, 18)  # Scores of 8 bits, multipliers of 18 bits at a shift of 24.
RESOLUTIONS = (circuits.ATTENTION, REFERENCE, circuits.AttentionParameters(2, 1, 1, 8), circuits.AttentionParameters(16, 28, 12, 20),
    circuits.AttentionParameters(12, 32, 8))


@DRAWN
@given(seed=SEED, units=st.integers(1, 4), share=st.sampled_from([None, 1, 9, 100]), parameters=st.sampled_from(RESOLUTIONS))
def test_attention(c, seed, units, share, parameters):
    random  = np.random.default_rng(seed)
    records = []
    for i in range(units):
        rows = int(random.integers(1, 50))
        records.append(attention_records(random, rows, 8*int(random.integers(1, 17)), random.integers(1, rows + 1, random.integers(1, 5)), i & 1,
            parameters))
    # K0 K1 V0 K2 V1 …
    order  = [records[0][0]]
    for i in range(1, units):
        order += [records[i][0], records[i - 1][1]]
    stream = np.concatenate([*order, records[-1][1]])
    run    = Run(c, ATTENTION, stream, random, parameters=parameters)
    expect(run, np.concatenate([record[2] for record in records]), share)
    assert run.beats == stream.size//8


def test_no_attention_core(c):
    stream = np.concatenate(attention_records(np.random.default_rng(6), 4, 16, [3], 0)[:2])
    expect(Run(c, ATTENTION, stream, parameters=None), np.zeros(0, np.uint8), errors=ERRORS["no_core"])


@pytest.mark.parametrize("parameters", [circuits.AttentionParameters(16, 1, 13), circuits.AttentionParameters(16, 20, 16)])
def test_sums_that_would_leave_int32(c, parameters):
    """4,096 rows of the largest weight and −128."""
    assert cores_softmax(c, parameters) == 0


@pytest.mark.parametrize("error, k, v", [
    ("rows",    {"rows": 0},     {"rows": 0}),
    ("beats",   {"beats": 0},    {"beats": 0}),
    ("beats",   {"beats": 17},   {"beats": 17}),
    ("queries", {"queries": 0},  {"queries": 0}),
    ("length",  {"length": 0},   {}),
    ("length",  {"length": 5},   {}),
    ("multiplier", {"mantissa": 2**17},     {}),
    ("multiplier", {"mantissa": 2**20 - 1}, {}),
    ("buffer",  {},              {"rows": 3}),
    ("buffer",  {},              {"buffer": 1}),
    ("buffer",  {},              {"queries": 1}),
])
@pytest.mark.parametrize("share", [None, 3])
def test_impossible_record_is_drained(c, error, k, v, share):
    random = np.random.default_rng(4)
    shape  = {"rows": 4, "beats": 2, "queries": 2, "buffer": 0}
    k, v   = shape | {"length": 4, "mantissa": 1} | k, shape | v
    length, mantissa = k.pop("length"), k.pop("mantissa")
    drop   = lambda beats: random.integers(0, 256, 8*beats).astype(np.uint8)
    query  = lambda n: np.concatenate([word(QUERY_HEADER.pack(mantissa=mantissa, length=n)), drop(k["beats"])])
    bad    = [word(K_HEADER.pack(**k)), *(query(length) for _ in range(k["queries"])), drop(k["rows"]*k["beats"]),
        word(V_HEADER.pack(**v)), drop(v["rows"]*v["beats"])]
    good   = attention_records(random, 6, 24, [6, 2], 0)
    expected = ERRORS[error] | (ERRORS["buffer"] if error != "buffer" else 0)
    expect(Run(c, ATTENTION, np.concatenate([*good[:2], *bad, *good[:2]]), random), np.concatenate([good[2], good[2]]), share, expected)

# Lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", [MATMUL, ATTENTION])
def test_wrong_magic_drops_the_list(c, core):
    random = np.random.default_rng(5)
    good   = matmul_group(random, 4, 30, FORMAT_INT8, 2) if core == MATMUL else attention_records(random, 4, 16, [3], 0)
    stream = np.concatenate([*good[:-1], word(0x11 << 56), *good[:-1]])
    run    = Run(c, core, stream, random)
    expect(run, good[-1], errors=ERRORS["magic"])
    assert run.beats == stream.size//8


@pytest.mark.parametrize("core", [MATMUL, ATTENTION])
@DRAWN
@given(seed=SEED)
def test_truncated_list(c, core, seed):
    random = np.random.default_rng(seed)
    good   = matmul_group(random, 4, 30, FORMAT_TERNARY, 2) if core == MATMUL else attention_records(random, 4, 16, [3, 4], 0)
    whole  = np.concatenate(good[:-1])
    ends   = [len(good[0])//8 - 1] if core == MATMUL else [len(good[0])//8, len(whole)//8]
    cut    = int(random.choice([beat for beat in range(1, len(whole)//8) if beat not in ends]))
    run    = Run(c, core, whole[:8*cut], random)
    assert run.go() == ERRORS["truncated"]
    assert bytes(run.results) == bytes(good[-1])[:len(run.results)]


def test_overrun_keeps_the_limit(c):
    stream, results = matmul_group(np.random.default_rng(6), 20, 30, FORMAT_TERNARY, 1)
    expect(Run(c, MATMUL, stream, limit=48), results[:48], errors=ERRORS["writer_overrun"])


def test_descriptor_without_length(c):
    run = Run(c, MATMUL, matmul_group(np.random.default_rng(7), 3, 30, FORMAT_TERNARY, 1)[0])
    run.words = [DESCRIPTOR.pack(address=PIECES//8, length=0), *run.words]
    assert run.go() == ERRORS["reader_descriptor"] and run.results.size == 0


@pytest.mark.parametrize("address", [MEMORY, 2**32 - 8])
def test_address_outside_of_the_memory(c, address):
    run = Run(c, MATMUL, matmul_group(np.random.default_rng(8), 3, 30, FORMAT_TERNARY, 1)[0])
    run.words  = [DESCRIPTOR.pack(address=address//8, length=1, last=1)]
    run.ranges = [ALL, (address, address), ALL, NOTHING]
    assert run.go() == ERRORS["reader_response"] and run.results.size == 0


def test_unknown_core(c):
    run = Run(c, RESERVED, matmul_group(np.random.default_rng(9), 3, 30, FORMAT_TERNARY, 1)[0])
    assert run.go() == ERRORS["no_core"] and run.results.size == 0
