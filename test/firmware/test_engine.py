#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The engine beside numpy over shapes, ports, passes and shares of progress; sessions, limits and failures of the PL."""

import ctypes

import numpy as np
import pytest

from dataclasses import replace

from litetern.model.formats.config import GROUPS
from litetern.model.formats.head import with_head
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters
from litetern.model.numerics.sampling import SamplingSettings

from engine_text import TEXT, expect_tokens
from firmware_engine import *
from tiny_model import image_bytes, tiny_image, tiny_model

SHAPES = {
    "gqa"        : {},
    "wide"       : {"hidden": 192, "ffn": 480, "heads": 3, "kv_heads": 3, "head_dim": 64, "vocab": 322},
    "head_dim 96": {"hidden": 96, "ffn": 64, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 96},
    "one kv head": {"heads": 5, "kv_heads": 1, "head_dim": 8, "ffn": 8, "hidden": 8},
    "relu2"      : {"activation": "relu2", "sub_norms": False, "tied": False, "ffn": 136},
    "odd vocab"  : {"vocab": 119, "layers": 1, "hidden": 40},
    "long rows"  : {"layers": 1, "hidden": 1024, "ffn": 2048, "heads": 8, "kv_heads": 4, "head_dim": 128},
}

# Equal bits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", list(SHAPES))
def test_logits_equal_numpy(c, shape):
    image, model = tiny_image(seed=4, **SHAPES[shape])
    prompt       = [token % model.config.vocab for token in TEXT]
    expect_tokens(Engine(c, image), model, prompt, 6)


REFERENCE = AttentionParameters(8, 16, 8, 18)


@pytest.mark.parametrize("parameters", [ATTENTION, REFERENCE, AttentionParameters(16, 28, 12, 20)])
@pytest.mark.parametrize("factor", [1, 30, 1000, 1e5])
def test_multipliers_of_any_size(c, factor, parameters):
    """q and k so much larger, and any resolution: an image's own, on the same build."""
    model = tiny_model(seed=8)
    for layer in model.layers:
        layer.attn_norm = layer.attn_norm*np.float32(factor)
        layer.k_steps   = layer.k_steps*np.float32(factor)
    expect_tokens(Engine(c, image_bytes(replace(model, attention=parameters))), replace(model, attention=parameters), TEXT, 3)


def test_what_the_attention_core_cannot_resolve(host):
    """4,096 rows of weights of 16 bits leave int32."""
    model = replace(tiny_model(), attention=AttentionParameters(16, 20, 16))
    assert Engine(host, image_bytes(model)).error == ERROR_SOFTMAX


@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize("queries_max", [1, 2, 3])
@pytest.mark.parametrize("share", [1, 13, 100])
def test_ports_passes_and_shares_change_nothing(host, ports, queries_max, share):
    for name in ("one kv head", "gqa"):
        image, model = tiny_image(seed=5, **SHAPES[name])
        expect_tokens(Engine(host, image, share=share, pl={"ports": ports, "queries_max": queries_max}), model, [3, 1, 4], 4)


@pytest.mark.parametrize("share", [5, 40])
def test_results_that_land_slowly(host, share):
    image, model = tiny_image(seed=6, **SHAPES["wide"])
    engine       = Engine(host, image, share=share)
    expect_tokens(engine, model, TEXT, 3)
    assert engine.polls > 1000


@pytest.mark.parametrize("head", ["int8", "hybrid"])
@pytest.mark.parametrize("ports", [1, 2])
def test_results_in_a_memory_of_their_own(c, head, ports):
    """Attention and groups go there as far as they fit, nothing behind its end, and the arena needs so much less."""
    model = with_head(tiny_model(seed=7), head)
    image = image_bytes(model)
    used  = []
    for bytes in (0, 512, 2048, 8192, 65536):
        engine = Engine(c, image, pl={"ports": ports}, results_bytes=bytes + 128)
        engine.table["results_bytes"] = bytes
        memory    = c.view(engine.results, np.uint8, bytes + 128)
        memory[:] = 0xA5
        assert c.call("engine_init", engine.engine, engine.image, len(image), engine.arena, engine.arena_bytes, 1, engine.pl) == OK
        expect_tokens(engine, model, TEXT, 3)
        assert (memory[bytes:] == 0xA5).all()
        arena = c.call("engine_arena_bytes", engine.image, 1, 16, engine.pl)
        used.append((bool((memory != 0xA5).any()), arena))
    assert [some for some, _ in used] == [False, True, True, True, True]
    arenas = [arena for _, arena in used]
    assert arenas[-1] < arenas[0] and sorted(arenas, reverse=True) == arenas


def test_a_misplaced_memory_of_results_is_refused(host, tiny):
    image, _ = tiny
    engine   = Engine(host, image, results_bytes=4096)
    assert engine.error == OK
    begin = lambda arena_bytes: host.call("engine_init", engine.engine, engine.image, len(image), engine.arena, np.uint64(arena_bytes), 1, engine.pl)
    for arena_bytes in (1 << 32, (1 << 64) - 120, (1 << 64) - 1):  # Beyond the bus, in sums that wrap, too.
        assert begin(arena_bytes) == ERROR_ALIGNMENT
    host.view(engine.pl + 2*host.pointer_bytes, np.uint64, 1)[0] += 32
    assert begin(engine.arena_bytes) == ERROR_ALIGNMENT


def test_sampling_with_penalty(c, tiny):
    image, model = tiny
    expect_tokens(Engine(c, image), model, TEXT, 12, SamplingSettings(temperature=1.5, top_k=40, top_p=0.9, repetition_penalty=1.3, seed=77))


def test_events_tell_progress_and_bytes(host, tiny):
    image, model = tiny
    config = model.config
    engine = Engine(host, image)
    assert engine.generate(TEXT, 2, ignore_eos=True) == OK
    events = list(engine.events())
    assert [event.kind for event in events] == [PROMPT]*5 + [TOKEN]*2
    assert [event.prompt_done for event in events] == [1, 2, 3, 4, 5, 6, 6] and {event.prompt_tokens for event in events} == {6}
    assert [event.position for event in events] == [1, 2, 3, 4, 5, 6, 7] and [event.generated for event in events] == [0]*5 + [1, 2]
    packed  = sum(getattr(layer, name).packed.size for layer in model.layers for name in GROUPS)
    kv      = 2*config.layers*config.kv_width
    without = config.vocab*config.hidden
    # Besides weights and KV: x, queries and headers, less than a tenth of them.
    for event, head in ((events[4], 0), (events[5], without)):
        assert packed + head + kv*event.position < event.pl_bytes < 1.5*(packed + head + kv*event.position)
    assert events[6].pl_bytes - events[5].pl_bytes == kv

# Sessions -----------------------------------------------------------------------------------------


def test_sessions_take_turns_and_do_not_meet(c, tiny):
    image, model = tiny
    prompts = [TEXT, [8, 7], [1, 2, 3, 4]]
    alone   = [[event.token for event in expect_tokens(Engine(c, image), model, prompt, 8)] for prompt in prompts]
    engine  = Engine(c, image, sessions=3)
    for session, prompt in enumerate(prompts):
        assert engine.generate(prompt, 8, session, ignore_eos=True) == OK
    events  = list(engine.events())
    assert [[event.token for event in events if event.session == session and event.kind == TOKEN] for session in range(3)] == alone
    assert [event.session for event in events][:6] == [0, 1, 2, 0, 1, 2]


def test_a_text_may_come_in_pieces(host, tiny):
    image, model = tiny
    whole  = [event.token for event in expect_tokens(Engine(host, image), model, TEXT, 4)]
    engine = Engine(host, image)
    assert engine.generate(TEXT[:4], 0) == OK
    assert [event.kind for event in engine.events()] == [PROMPT]*4 and engine.position() == 4
    assert engine.generate(TEXT[4:], 2, ignore_eos=True) == OK
    first  = [event.token for event in engine.events() if event.kind == TOKEN]
    # The token sampled last was not read yet: it goes in front.
    assert engine.generate([], 2, ignore_eos=True) == OK
    assert first + [event.token for event in engine.events() if event.kind == TOKEN] == whole


def test_reset_forgets(host, tiny):
    image, model = tiny
    engine = Engine(host, image)
    first  = expect_tokens(engine, model, TEXT, 3)
    assert engine.reset() == OK and engine.position() == 0
    again  = expect_tokens(engine, model, TEXT, 3)
    assert [event.token for event in first] == [event.token for event in again]
    assert engine.generate(TEXT, 30, ignore_eos=True) == OK
    for _ in range(50):
        engine.poll()
    assert engine.reset() == OK
    assert list(engine.events())[-1].end == END_STOPPED and engine.position() == 0
    expect_tokens(engine, model, TEXT, 3)


@pytest.mark.parametrize("running", [False, True])
def test_reset_forgets_what_the_penalty_has_seen(host, tiny, running):
    """The old text holds just those tokens that the new one would choose."""
    image, model = tiny
    penalty = SamplingSettings(repetition_penalty=10.0)
    likely  = [event.token for event in expect_tokens(Engine(host, image), model, TEXT, 6, penalty)]
    engine  = Engine(host, image)
    assert engine.generate(likely, 20 if running else 0, ignore_eos=True, settings=penalty) == OK
    events  = engine.events()
    for _ in likely:
        next(events)
    assert engine.reset() == OK
    list(engine.events())
    expect_tokens(engine, model, TEXT, 6, penalty)


def test_stop_ends_at_the_next_token(host, tiny):
    image, model = tiny
    expected = [event.token for event in expect_tokens(Engine(host, image), model, TEXT, 8)]
    engine   = Engine(host, image)
    assert engine.generate(TEXT, 30, ignore_eos=True) == OK
    tokens   = []
    for event in engine.events():
        if event.kind == TOKEN:
            tokens.append(event.token)
        if len(tokens) == 3:
            engine.stop()
    assert len(tokens) in (3, 4) and event.end == END_STOPPED
    assert engine.generate([], 8 - len(tokens), ignore_eos=True) == OK
    assert tokens + [event.token for event in engine.events() if event.kind == TOKEN] == expected


def test_eos_ends_unless_ignored(host):
    image, model = tiny_image(seed=7)
    tokens = [event.token for event in expect_tokens(Engine(host, image), model, TEXT, 6)]
    at     = next(i for i in range(1, 6) if tokens[i] not in tokens[:i])
    model.ends = (127, tokens[at], 128)
    engine = Engine(host, image_bytes(model))
    assert engine.generate(TEXT, 20) == OK
    events = [event for event in engine.events() if event.kind == TOKEN]
    assert [event.token for event in events] == tokens[:at + 1] and events[-1].end == END_EOS

# Limits -------------------------------------------------------------------------------------------


def test_context_ends(host, tiny):
    image, model = tiny
    engine  = Engine(host, image)
    context = engine.context
    assert context == model.config.context
    assert engine.generate([5]*(context + 1), 1) == ERROR_CONTEXT
    assert engine.generate([5]*(context - 2), 10, ignore_eos=True) == OK
    events  = [event for event in engine.events() if event.kind == TOKEN]
    assert len(events) == 3 and events[-1].end == END_CONTEXT and engine.position() == context
    assert engine.generate([], 1) == ERROR_CONTEXT
    assert engine.reset() == OK and engine.generate([5]*context, 1, ignore_eos=True) == OK
    assert list(engine.events())[-1].generated == 1


def test_arena_bounds_the_context(host, tiny):
    image, model = tiny
    needed = {}
    for context in (16, 32):
        engine = Engine(host, image)
        needed[context] = host.call("engine_arena_bytes", engine.image, 2, context, engine.pl)
    for context, size in needed.items():
        engine = Engine(host, image, sessions=2, arena_bytes=size)
        assert engine.error == OK and engine.context == context
        expect_tokens(engine, model, TEXT, 3, session=1)
    assert Engine(host, image, sessions=2, arena_bytes=needed[16] - 128).error == ERROR_MEMORY
    assert Engine(host, image, sessions=2, arena_bytes=0).error == ERROR_MEMORY


def test_requests_that_are_refused(host, tiny):
    image, model = tiny
    engine = Engine(host, image)
    assert engine.generate([], 1) == ERROR_EMPTY
    assert engine.generate([model.config.vocab], 1) == ERROR_TOKEN
    assert engine.generate([1], 1, session=1) == ERROR_SESSION
    bad = SamplingSettings()
    object.__setattr__(bad, "top_p", 2.0)
    assert engine.generate([1], 1, settings=bad) == ERROR_SETTINGS
    assert engine.generate([1], 1) == OK and engine.generate([1], 1) == ERROR_BUSY
    assert [event.kind for event in engine.events()] == [TOKEN]
    assert engine.reset(session=1) == ERROR_SESSION


def test_damaged_image_and_sessions(host, tiny):
    image = bytearray(tiny[0])
    image[60] ^= 1
    assert Engine(host, bytes(image)).error == ERROR_IMAGE
    assert Engine(host, tiny[0], sessions=0).error == ERROR_SESSION
    assert Engine(host, tiny[0], sessions=9).error == ERROR_SESSION


def test_every_error_has_one_line(host):
    for error in range(ERROR_SOFTMAX + 2):
        text = ctypes.string_at(host.call("engine_error_text", error)).decode()
        assert 5 < len(text) < 100 and "\n" not in text
