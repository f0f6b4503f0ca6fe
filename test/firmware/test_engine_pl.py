#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The engine in front of a PL that fails or cannot do what the model needs: one line, nothing read or written beyond, and on it goes."""

import ctypes

import numpy as np
import pytest

from litetern.model.formats.head import with_head
from litetern.model.formats.image import IMAGE_HEADER
from litetern.model.numerics.sampling import SamplingSettings

from firmware_engine import *
from litetern.model.common.interface import Function
from litetern.model.formats.engine import PL_STATUS
from engine_text import TEXT, expect_tokens
from tiny_model import image_bytes, tiny_model

# Failures of the PL -------------------------------------------------------------------------------

PL_BUSY, PL_DONE, PL_ERROR, PL_RANGE = range(len(PL_STATUS))


class FailingPl:
    """Answers of a PL that breaks at its n-th list; the C cores do the rest. Host only: functions of Python stand in the struct.

    status : what it says from then on; None: what the C cores say.
    landed : bytes of results that it says have landed.
    spoil  : called with the results (uint8) of each list that is done.
    """
    def __init__(self, engine, at, status, landed=None, spoil=None):
        build = engine.build
        kinds = {name: kind.ctypes for name, kind, _ in PL.members if isinstance(kind, Function)}
        table = engine.table
        real  = {name: kind(int(table[name])) for name, kind in kinds.items()}
        self.lists, self.aborted, self.time = 0, [], 0
        broken = lambda: self.lists > at

        results = {}

        def begin(context, port, core, list_address, destination, limit):
            self.lists += 1
            results[port] = build.view(build.base + destination, np.uint8, limit)
            real["start"](context, port, core, list_address, destination, limit)

        def progress(context, port):
            return landed if broken() and landed is not None else real["progress"](context, port)

        def state(context, port):
            answer = real["status"](context, port) if status is None or not broken() else status
            if answer == PL_DONE and spoil:
                spoil(results[port])
            return answer

        def abort(context, port):
            self.aborted.append(port)
            real["abort"](context, port)

        def microseconds():
            self.time += 100
            return self.time & 0xFFFFFFFF

        self.kept = []
        functions = {"start": begin, "progress": progress, "status": state, "abort": abort, "microseconds": microseconds}
        for name, function in functions.items():
            callback    = kinds[name](function)
            table[name] = ctypes.cast(callback, ctypes.c_void_p).value
            self.kept.append(callback)
        # The engine has copied the struct: start it again with ours.
        engine.error = build.call("engine_init", engine.engine, engine.image, engine.image_bytes, engine.arena, engine.arena_bytes, 1,
            engine.pl) & 0xFFFFFFFF


@pytest.mark.parametrize("at", [0, 1, 5, 20])
@pytest.mark.parametrize("status, landed, error", [
    (PL_ERROR, None,  ERROR_LIST),
    (PL_RANGE, None,  ERROR_RANGE),
    (PL_DONE,  8,     ERROR_LIST),
    (PL_BUSY,  2**31, ERROR_LIST),  # More than there is room for: nobody looks for rows there.
    (PL_BUSY,  0,     ERROR_TIMEOUT),
])
def test_pl_that_fails(host, tiny, at, status, landed, error):
    image, model = tiny
    engine = Engine(host, image, pl={"timeout_us": 5000})
    pl     = FailingPl(engine, at, status, landed)
    assert engine.error == OK and engine.generate(TEXT, 4, ignore_eos=True) == OK
    events = list(engine.events())
    assert events[-1].kind == ERROR and events[-1].error == error and pl.aborted
    assert engine.position() == 0
    # The session is usable again when the PL is.
    pl.lists = -10**6
    expect_tokens(engine, model, TEXT, 2)


def test_time_out_over_the_wrap_of_the_clock(host, tiny):
    engine  = Engine(host, tiny[0], pl={"timeout_us": 5000})
    pl      = FailingPl(engine, 3, PL_BUSY, 0)
    pl.time = 2**32 - 3000
    assert engine.generate(TEXT, 4) == OK
    assert list(engine.events(polls=1000))[-1].error == ERROR_TIMEOUT


@pytest.mark.parametrize("row", [2**32 - 1, 2**31, 128, 64])
def test_records_of_rows_that_are_not_there(host, row):
    """A shortlist names rows of the head: what lies beyond is neither read nor written."""
    shortlist = 9
    model  = with_head(tiny_model(seed=2, vocab=128), "hybrid", 1, shortlist)
    engine = Engine(host, image_bytes(model))

    def spoil(results):
        if len(results) == 8*shortlist:
            results.view("<u4")[5] = row
    pl = FailingPl(engine, 10**6, None, spoil=spoil)  # Keeps the functions.
    assert engine.generate(TEXT, 4, ignore_eos=True) == OK
    assert [(event.kind, event.error) for event in engine.events()][-1] == (ERROR, ERROR_LIST)
    engine = Engine(host, image_bytes(model))
    expect_tokens(engine, model, TEXT, 2)

# Limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pl, error", [
    ({"ports": 0},            ERROR_PL),
    ({"ports": 3},            ERROR_PL),
    ({"ports": 2**32 - 1},    ERROR_PL),  # Nothing is indexed by it before.
    ({"queries_max": 0},      ERROR_PL),
    ({"row_weights_max": 64}, ERROR_PL),
    ({"rows_max": 8},         ERROR_PL),
    ({"rows_max": 24},        OK),
])
def test_what_the_pl_cannot_do(host, tiny, pl, error):
    engine = Engine(host, tiny[0], pl=pl)
    assert engine.error == error
    assert error or engine.context == 24


@pytest.mark.parametrize("pl, sessions, context", [({"ports": 3}, 1, 16), ({"ports": 0}, 1, 16), ({"queries_max": 0}, 1, 16), ({}, 0, 16),
    ({}, 9, 16), ({}, 2**32 - 1, 16), ({}, 1, 2**32 - 1)])
def test_no_arena_for_what_cannot_be(host, tiny, pl, sessions, context):
    engine = Engine(host, tiny[0], pl=pl)
    assert host.call("engine_arena_bytes", engine.image, sessions, context, engine.pl) == 0


def test_arena_bytes_never_wrap(c, tiny):
    """A header alone: 128 TiB of KV cache are no small arena for a CPU of 32 bits."""
    engine = Engine(c, tiny[0])
    header = c.view(engine.image, IMAGE_HEADER.dtype, 1)
    for name, value in (("layers", 4096), ("heads", 2048), ("kv_heads", 2048), ("head_dim", 8), ("hidden", 16384)):
        header[name] = value
    bytes  = c.call("engine_arena_bytes", engine.image, 1, 1 << 20, engine.pl)
    if c.pointer_bytes == 4:
        assert bytes & 0xFFFFFFFF == 2**32 - 1
    else:
        assert bytes > 1 << 47


def test_the_longest_prompt_is_not_read(host, tiny):
    """Refused by its length, before tokens that are not there are looked at."""
    engine = Engine(host, tiny[0])
    tokens = host.put(np.array([1], np.uint32))
    settings = host.put(settings_bytes(SamplingSettings()))
    for pending in (0, 1):
        for count in (2**32 - 1, 2**32 - 2, 2**31, engine.context + 1):
            assert host.call("engine_generate", engine.engine, 0, tokens, count, settings, 1) & 0xFFFFFFFF == ERROR_CONTEXT
        assert engine.generate([1], 1, ignore_eos=True) == OK
        list(engine.events())
