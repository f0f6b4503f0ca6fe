#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hostile tokenizers and chat templates of folders, tokenizers of llama2.c, and images that the chat is given."""

import copy
import functools
import json
import pathlib
import struct
import tempfile

from hostile_files import CASES, Case, config, file_case, folder_case, folder_files, llama2c, tokenizer_bin

# Tokenizers of folders ----------------------------------------------------------------------------


def edited(**parts):
    """The good tokenizer.json with top-level parts replaced."""
    return {**json.loads(folder_files()["tokenizer.json"]), **parts}


def model(**fields):
    tokenizer = edited()
    tokenizer["model"] = {**tokenizer["model"], **fields}
    return tokenizer


def added(*tokens):
    tokenizer = edited()
    tokenizer["added_tokens"] = [{"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        "special": True} for number, content in tokens]
    return tokenizer


_deep = json.loads("["*500 + "]"*500)

for _name, _line, _data in (
    ("empty",                "tokenizer.json", b""),
    ("no JSON",              "tokenizer.json", b"{"),
    ("a list",               "tokenizer.json", []),
    ("a number",             "tokenizer.json", 5),
    ("no UTF-8",             "tokenizer.json", b"\xff\xfe\xfd"),
    ("no model",             "tokenizer.json", {"version": "1.0"}),
    ("unknown model",        "tokenizer.json", edited(model={"type": "Magic"})),
    ("model a list",         "tokenizer.json", edited(model=_deep)),
    ("vocabulary a number",  "tokenizer.json", model(vocab=5)),
    ("merges of nothing",    "tokenizer.json", model(merges=["no such pair"])),
    ("id beyond",            "states number 2147483648", added((2**31, "a token of its own"))),
    ("WordLevel, no unk",    "cannot encode", edited(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"})),
    ("Precompiled broken",   "tokenizer.json", edited(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})),
    ("Precompiled no base64", "tokenizer.json", edited(normalizer={"type": "Precompiled", "precompiled_charsmap": "???"})),
    ("Replace by a pattern", "tokenizer.json", edited(normalizer={"type": "Replace", "pattern": {"Regex": "("}, "content": "x"})),
    ("Replace bomb",         "cannot encode", edited(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"},
        "content": "a"*1000}]*6})),
    ("padding of 2e9",       None,             edited(padding={"strategy": {"Fixed": 2_000_000_000}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "x"})),
    ("truncation of 1",      None,             edited(truncation={"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"})),
    ("stride beyond",        None,             edited(truncation={"max_length": 2, "strategy": "LongestFirst", "stride": 9, "direction": "Right"})),
):
    folder_case(f"tokenizer:{_name}", _line, **{"tokenizer.json": _data})

# SentencePiece and llama2.c -----------------------------------------------------------------------

for _name, _data in (("empty", b""), ("noise", bytes(range(256))*8), ("text", b"once upon a time "*100), ("huge field", b"\x0a\xff\xff\xff\xff\x0f" + bytes(64)),
        ("endless varint", b"\xff"*64)):
    folder_case(f"SentencePiece:{_name}", "tokenizer.model", **{"tokenizer.json": None, "tokenizer.model": _data})

_word = lambda length, text: struct.pack("<fi", 0.0, length) + text

for _name, _data in (
    ("empty",           b""),
    ("cut",             tokenizer_bin()[:-1]),
    ("negative length", struct.pack("<i", 8) + _word(-1, b"x")),
    ("endless word",    struct.pack("<i", 8) + _word(2**31 - 1, b"x")),
    ("one word",        struct.pack("<i", 8) + _word(1, b"x")),
    ("more words",      tokenizer_bin() + _word(1, b"x")),
):
    file_case(f"tokenizer.bin:{_name}", "tokenizer.bin", llama2c(), "m.bin", **{"tokenizer.bin": _data})

# Images -------------------------------------------------------------------------------------------


@functools.lru_cache
def image():
    """bytes of a good image."""
    from litetern.host.pack import pack
    with tempfile.TemporaryDirectory() as folder:
        for name, data in folder_files().items():
            (pathlib.Path(folder)/name).write_bytes(data)
        pack(folder, pathlib.Path(folder)/"m.tern")
        return (pathlib.Path(folder)/"m.tern").read_bytes()


def image_case(name, line, change):
    def make(folder):
        data = change(copy.copy(image()))
        (folder/"m.tern").write_bytes(data)
        return ["--pl", "c", "--model", folder/"m.tern", "--prompt", "a", "--tokens", "1"]
    CASES[f"image:{name}"] = Case(make, line, "chat")


def word(place, value):
    """Function of an image: its 32-bit word at a place replaced."""
    return lambda data: data[:place] + struct.pack("<I", value) + data[place + 4:]


for _name, _line, _change in (
    ("empty",         "m.tern", lambda data: b""),
    ("a byte",        "m.tern", lambda data: b"L"),
    ("text",          "m.tern", lambda data: b"once upon a time "*1000),
    ("zeros",         "m.tern", lambda data: bytes(len(data))),
    ("cut",           "m.tern", lambda data: data[:-1]),
    ("half",          "m.tern", lambda data: data[:len(data)//2]),
    ("longer",        "m.tern", lambda data: data + bytes(128)),
    ("other magic",   "m.tern", word(0, 0x12345678)),
    ("old version",   "pack",   word(4, 1)),
    ("newer version", "version", word(4, 2**32 - 1)),
    ("a bit of the body",   "m.tern", lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:]),
    ("a bit of the header", "m.tern", lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:]),
    ("length 2^32 - 1",     "m.tern", word(8, 2**32 - 1)),
):
    image_case(_name, _line, _change)
