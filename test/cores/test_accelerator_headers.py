#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Headers that ask for the impossible, through the whole accelerator, on both lanes at once: an error bit, no results, and what lies
around them in the same list is right."""

import pytest

from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY, K_HEADER, MATMUL_HEADER, QUERY_HEADER, REDUCE_NONE, V_HEADER, row_beats, x_beats

from accelerator_bench import CONFIG, Bench, Words, noise

# Bench --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared():
    return Bench()


@pytest.fixture(params=[0, 0.3], ids=["free", "stalls"])
def bench(shared, request):
    shared.clear(7)
    shared.pl.stall(ar=request.param, r=request.param, aw=request.param, w=request.param, b=request.param)
    yield shared
    assert shared.pl.fault is None


class Lists:
    """The lists of both lanes: started together, then compared."""
    def __init__(self, bench):
        self.bench, self.running = bench, []

    def start(self, lane, core, jobs, pieces=None):
        self.running.append((lane, *self.bench.start(lane, core, jobs, pieces)))

    def check(self, flags):
        """flags: {lane: status bits}."""
        for lane, target, expected in self.running:
            outcome = self.bench.driver.wait(lane)
            assert outcome.flags == {"done"} | flags[lane] and outcome.results == len(expected)
            self.bench.check(target, expected)

# Matmul -------------------------------------------------------------------------------------------

LONGEST = {FORMAT_TERNARY: row_beats(CONFIG.row_weights_max, FORMAT_TERNARY), FORMAT_INT8: row_beats(CONFIG.row_weights_max, FORMAT_INT8)}

GROUPS = {
    "no rows"            : (dict(rows=0),                                                 "rows"),
    "no rows, no vector" : (dict(rows=0, vectors=0),                                      "rows vectors"),
    "no beats"           : (dict(beats=0),                                                "beats"),
    "row too long"       : (dict(beats=LONGEST[FORMAT_TERNARY] + 1),                      "beats"),
    "int8 row too long"  : (dict(beats=LONGEST[FORMAT_INT8] + 1, format=FORMAT_INT8),     "beats"),
    "longest field"      : (dict(beats=4095, rows=1),                                     "beats"),
    "no vectors"         : (dict(vectors=0),                                              "vectors"),
    "two vectors"        : (dict(vectors=2),                                              "vectors"),
    "three vectors"      : (dict(vectors=3),                                              "vectors"),
    "most vectors"       : (dict(vectors=15),                                             "vectors"),
    "format"             : (dict(format=2),                                               "format"),
    "last format"        : (dict(format=15),                                              "format"),
    "arg-max"            : (dict(reduce=1),                                               "reduce"),
    "shortlist"          : (dict(reduce=2, topk=4),                                       "reduce"),
    "no such reduction"  : (dict(reduce=3),                                               "reduce"),
    "all at once"        : (dict(rows=0, beats=0, vectors=7, reduce=3),                   "rows beats vectors reduce"),
}


def bad_group(bench, **fields):
    """A group with an impossible header and as many beats as it declares."""
    header = dict(rows=3, beats=4, format=FORMAT_TERNARY, vectors=1, reduce=REDUCE_NONE) | fields
    known  = header["format"] if header["format"] in LONGEST else FORMAT_INT8
    body   = header["vectors"]*x_beats(header["beats"], known) + header["rows"]*header["beats"]
    return Words(bench.arena, [MATMUL_HEADER.pack(**header), *noise(bench, body)])


@pytest.mark.parametrize("fault", GROUPS)
def test_group(bench, fault):
    """One lane meets the header between and behind good groups; the other streams heads meanwhile and hears nothing of it."""
    fields, errors = GROUPS[fault]
    flags          = {"error", *(f"matmul_{error}" for error in errors.split())}
    bad            = list(GROUPS).index(fault) % 2
    heads          = bench.heads(3)
    lists          = Lists(bench)
    lists.start(bad, "matmul", [bench.group(), bad_group(bench, **fields), bench.group(), bench.group(), bad_group(bench, **fields)])
    lists.start(1 - bad, "attention", heads, [piece for head in heads for piece in head.key_pieces + head.value_pieces])
    lists.check({bad: flags, 1 - bad: set()})
    again = Lists(bench)
    for lane in range(2):
        again.start(lane, "matmul", [bench.group()])
    again.check({0: set(), 1: set()})

# Attention ----------------------------------------------------------------------------------------

HEADS = {
    "no rows"          : (dict(rows=0),                                 "rows buffer"),
    "too many rows"    : (dict(rows=CONFIG.rows_max + 1, beats=1),      "rows buffer"),
    "most rows"        : (dict(rows=65535, beats=1),                    "rows buffer"),
    "no beats"         : (dict(beats=0),                                "beats buffer"),
    "too many beats"   : (dict(beats=17),                               "beats buffer"),
    "most beats"       : (dict(beats=31),                               "beats buffer"),
    "no queries"       : (dict(queries=0),                              "queries buffer"),
    "too many queries" : (dict(queries=CONFIG.queries_max + 1),         "queries buffer"),
    "most queries"     : (dict(queries=31),                             "queries buffer"),
    "length 0"         : (dict(length=0),                               "length buffer"),
    "length over rows" : (dict(length=6),                               "length buffer"),
    "wide mantissa"    : (dict(mantissa=2**17),                         "multiplier buffer"),
    "widest mantissa"  : (dict(mantissa=2**20 - 1, length=6),           "multiplier length buffer"),
}


def bad_head(bench, length=1, mantissa=1, **fields):
    """K and V records of any declared shape, with as many beats as that makes."""
    shape  = dict(rows=5, beats=3, queries=2, buffer=1) | fields
    rows   = shape["rows"]*shape["beats"]
    words  = [K_HEADER.pack(**shape)]
    for _ in range(shape["queries"]):
        words += [QUERY_HEADER.pack(mantissa=mantissa, length=length), *noise(bench, shape["beats"])]
    return Words(bench.arena, [*words, *noise(bench, rows), V_HEADER.pack(**shape), *noise(bench, rows)])


@pytest.mark.parametrize("fault", HEADS)
def test_head(bench, fault):
    """Both lanes meet the header, one of them between good heads, the other before."""
    fields, errors = HEADS[fault]
    flags          = {"error", *(f"attention_{error}" for error in errors.split())}
    lists          = Lists(bench)
    for lane in range(2):
        good  = bench.heads(2)
        whole = [head.key_pieces + head.value_pieces for head in good]
        bad   = bad_head(bench, **fields).pieces
        lists.start(lane, "attention", good, whole[0] + bad + whole[1] if lane else bad + whole[0] + whole[1])
    lists.check({0: flags, 1: flags})
    again = Lists(bench)
    for lane in range(2):
        again.start(lane, "attention", heads := bench.heads(1), heads[0].key_pieces + heads[0].value_pieces)
    again.check({0: set(), 1: set()})
