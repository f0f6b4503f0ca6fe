#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokenizers that panic, loop or grow: one line each from a process that can be ended, and the next call works again."""

import json
import os
import time

import pytest

from litetern.model.common.sandbox import Sandbox, SandboxEnded, SandboxError
from litetern.model.tokenizer.tokenizer import Tokenizer, convert, load_tokenizer
from tiny_checkpoint import tokenizer

TEXT  = "Once upon a time, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa there was a girl."
PLAIN = tokenizer(320).to_str().encode()


def changed(**parts):
    return json.dumps(json.loads(PLAIN) | parts).encode()


def sequence(kind, steps, step, times):
    return {"type": "Sequence", steps: [step]*times}


BOMB = {"type": "Replace", "pattern": {"Regex": "."}, "content": "x"*1000}

# Tokenizers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts, line", [
    ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"}},                            r"cannot encode this \(.*UNK"),
    ({"model": {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]], "byte_fallback": False}},        r"cannot encode this \(.*unk_id"),
    ({"model": {"type": "Unigram", "unk_id": 7, "vocab": [["a", 0.0]], "byte_fallback": False}},           "tokenizer cannot be read"),
    ({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},                                         "tokenizer cannot be read"),
    ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}},                                "tokenizer cannot be read"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},                              "tokenizer cannot be read"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},                          "cannot be read"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "x"}},                        "cannot encode this .*out of bounds"),
    ({"normalizer": sequence("Sequence", "normalizers", BOMB, 5)},                                         "cannot encode this .*takes more"),
    ({"normalizer": {"type": "Prepend", "prepend": "y"*20000000}},                                         "cannot encode this .*takes more"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a*)*(b*)*(.*)*c(x+x+)+y"}, "behavior": "Isolated", "invert": False}},
        "cannot encode this"),
    ({"pre_tokenizer": {"type": "FixedLength", "length": 0}},                                              "cannot encode this"),
    ({"decoder": {"type": "Strip", "content": "a", "start": 2**63, "stop": 2**63}},                        "cannot decode this .*out of bounds"),
    ({"decoder": sequence("Sequence", "decoders", BOMB, 5)},                                               "cannot decode this .*takes more"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_tokenizers_that_fail(parts, line):
    start = time.monotonic()
    with pytest.raises(ValueError, match=line) as error:
        found = load_tokenizer(changed(**parts))
        found.decode(found.encode(TEXT))
    assert "\n" not in str(error.value) and len(str(error.value)) < 400 and time.monotonic() - start < 10


def test_no_json_of_a_tokenizer():
    for data in (b"{}", b"[]", b"\xff", b"["*100000, b'{"normalizer":'*3000 + b"1" + b"}"*3000):
        with pytest.raises(ValueError, match="checkpoint: tokenizer cannot be read"):
            load_tokenizer(data)
    with pytest.raises(ValueError, match="x: holds no tokenizer"):
        load_tokenizer(b"", "x")


def test_a_text_that_fails_leaves_the_next_one_alone():
    """The process that had to be ended begins anew."""
    found = load_tokenizer(changed(normalizer={"type": "Replace", "pattern": {"Regex": "Z"}, "content": "z"*3000000}))
    first = found.encode(TEXT)
    with pytest.raises(ValueError, match="cannot encode this"):
        found.encode("Z"*400)
    assert found.encode(TEXT) == first and found.decode(first) == TEXT


def test_what_was_of_the_training_is_off():
    """Cutting, padding and merges left to chance: equal texts are equal tokens."""
    model = json.loads(PLAIN)["model"]
    found = load_tokenizer(changed(
        model      = model | {"dropout": 0.9},
        truncation = {"max_length": 2, "strategy": "LongestFirst", "stride": 5, "direction": "Right"},
        padding    = {"strategy": {"Fixed": 2000000000}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "x"}))
    assert found.encode(TEXT) == load_tokenizer(PLAIN).encode(TEXT) == tokenizer(320).encode(TEXT).ids


def test_as_the_library():
    plain, found = tokenizer(320), load_tokenizer(PLAIN)
    ids = plain.encode("<|endoftext|>" + TEXT).ids
    assert found.encode("<|endoftext|>" + TEXT, special=True) == ids and 0 not in found.encode("<|endoftext|>" + TEXT)
    assert found.decode(ids) == plain.decode(ids) == TEXT and found.decode(ids, special=True) == "<|endoftext|>" + TEXT
    assert found.special == {0: "<|endoftext|>"} and found.token(0) == "<|endoftext|>" and found.token(99999) is None
    assert found.largest == plain.get_vocab_size() - 1 and found.bytes == frozenset()
    assert found.encode_batch([TEXT, ""]) == [plain.encode(TEXT).ids, []]


def test_a_call_is_quick():
    """A chat decodes after each token: one process for all calls, and for all who load the same bytes."""
    found = load_tokenizer(PLAIN)
    ids, start = found.encode(TEXT), time.monotonic()
    for _ in range(200):
        found.decode(ids)
    assert time.monotonic() - start < 1 and load_tokenizer(PLAIN) is found


def test_pieces_that_take_too_much():
    """Each way to cut a piece is tried: a long one takes its length squared."""
    with pytest.raises(ValueError, match="cannot become a tokenizer"):
        convert("from_pieces", pieces=["a"*n for n in range(1, 8000)], scores=[0.0]*7999, kinds=[1]*7999)

# Process ------------------------------------------------------------------------------------------


def test_processes_end_with_us():
    found   = Tokenizer(PLAIN)
    process = found._sandbox._process
    assert os.path.exists(f"/proc/{process.pid}")
    del found
    assert process.poll() is not None


def test_a_process_that_is_killed():
    sandbox = Sandbox("litetern.model.tokenizer.tokenizer_process", 256 << 20)
    sandbox.ask({"call": "load", "text": PLAIN.decode()})
    sandbox._process.kill()
    sandbox._process.wait()
    with pytest.raises(SandboxError, match="NoneType"):  # A new one: nothing is loaded.
        sandbox.ask({"call": "token", "index": 0})
    sandbox.close()


def test_an_answer_without_end():
    sandbox = Sandbox("litetern.model.tokenizer.tokenizer_process", 256 << 20)
    sandbox.ask({"call": "load", "text": PLAIN.decode()})
    with pytest.raises(SandboxEnded, match="answers too late, or too much"):
        sandbox.ask({"call": "encode", "texts": ["a"*1000000], "special": False}, most=1000)
    assert not sandbox.running
