#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints of others, as files: folders with config.json and safetensors, GGUF, llama2.c with its tokenizer (see run.py).

An input is a bundle: for each file, a byte and a word (lengths of name and content), both. A folder is what holds a config.json; else the
first file is the checkpoint. Tokenizers are libraries of others, in processes of their own: here something stands for them that knows one token.
"""

import functools
import json
import pathlib
import re
import shutil
import struct
import tempfile

from litetern.model.importers import load_checkpoint
from litetern.model.importers import ggml, llama2c as llama2c_importer, vocabulary

from hostile_files import folder_files, gguf, llama2c, llama2c_1, tokenizer_bin

MEMORY  = pathlib.Path("/dev/shm")  # Files that never reach a disk.
WORDS   = (0, 1, 2, 3, 7, 8, 31, 32, 127, 128, 255, 256, 4096, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
VALUES  = (0, 1, -1, 2, 7, 0.5, 2**31, 2**63, 10**30, 1e308, float("inf"), float("nan"), "", "x", "llama", "F32", "../x", None, True, False, [], {},
    [0], ["x"], {"x": 0})
_seen   = set()

# Stand-ins ----------------------------------------------------------------------------------------


class _Tokenizer:
    largest, special, bytes = 0, {}, frozenset()

    def before(self):
        return []

    def token(self, index):
        return None

    def encode(self, text, **_):
        return [0]


@functools.cache
def stand_in():
    """From the first input on: whoever only asks for seeds keeps the real ones."""
    for module in (vocabulary, ggml, llama2c_importer):
        if hasattr(module, "convert"):
            module.convert = lambda *_, **__: b"{}"
    vocabulary.load_tokenizer = lambda *_: _Tokenizer()

# Bundles ------------------------------------------------------------------------------------------


def bundle(files):
    return b"".join(struct.pack("<BI", len(name.encode()), len(data)) + name.encode() + data for name, data in files)


def files_of(data):
    """[(name, bytes)] of a bundle, as far as it is one."""
    files, place = [], 0
    while place + 5 <= len(data) and len(files) < 16:
        length, size = struct.unpack_from("<BI", data, place)
        name = re.sub(rb"[^\w.-]", b"_", data[place + 5:place + 5 + length], flags=re.A).decode()  # Names are their users'.
        files.append((name, data[place + 5 + length:place + 5 + length + size]))
        place += 5 + length + size
    return files


def seeds():
    folder = {name: data for name, data in folder_files().items() if name != "tokenizer.json"}
    numbers = (32, 48, 1, 2, 1, 64, 16)
    return [bundle([*folder.items(), ("tokenizer.json", b"{}")]), bundle([("m.gguf", gguf())]),
        bundle([("m.bin", llama2c()), ("tokenizer.bin", tokenizer_bin())]), bundle([("m.bin", llama2c_1(1, *numbers, 1)), ("tokenizer.bin", tokenizer_bin())])]

# Mutations ----------------------------------------------------------------------------------------


def _json(draw, value):
    """The value with a part replaced, removed or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.1:
            return {other: part for other, part in value.items() if other != key}
        if draw.random() < 0.1:
            return {**value, f"{key}2": value[key]}
        return {**value, key: _json(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], *([_json(draw, value[place])] if draw.random() < 0.9 else [value[place]]*2), *value[place + 1:]]
    return draw.choice(VALUES)


def _bytes(draw, data):
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not data:
            return bytes([draw.randrange(256)])
        # Heads decide: most changes are made there.
        place = draw.randrange(min(len(data), draw.choice((64, 2048, len(data)))))
        kind  = draw.randrange(5)
        if kind == 0:
            data = data[:place] + bytes([draw.randrange(256)]) + data[place + 1:]
        elif kind == 1:
            data = data[:place]
        elif kind == 2:
            width = draw.choice((4, 8))
            data  = data[:place] + (draw.choice(WORDS) & (1 << 8*width) - 1).to_bytes(width, "little") + data[place + width:]
        elif kind == 3:
            data = data[:place] + data[place:place + draw.randrange(1, 64)] + data[place:]
        else:
            data = data[:place] + data[place + draw.randrange(1, 64):]
    return data


def _safetensors(draw, data):
    size   = int.from_bytes(data[:8], "little")
    header = json.dumps(_json(draw, json.loads(data[8:8 + size]))).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + size:]


def mutate(draw, data):
    files = files_of(data)
    if not files or draw.random() < 0.02:
        return _bytes(draw, data)
    place = draw.randrange(len(files))
    name, content = files[place]
    if draw.random() < 0.03:
        del files[place]
        return bundle(files)
    try:
        if name.endswith(".json") and draw.random() < 0.85:
            content = json.dumps(_json(draw, json.loads(content))).encode()
        elif name.endswith(".safetensors") and draw.random() < 0.7:
            content = _safetensors(draw, content)
        else:
            content = _bytes(draw, content)
    except (ValueError, RecursionError):
        content = _bytes(draw, content)
    files[place] = name, content
    return bundle(files)

# Run ----------------------------------------------------------------------------------------------


def run(data):
    """What came of it: shape, or the line of a refusal that is new."""
    stand_in()
    files  = files_of(data)
    folder = pathlib.Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        for name, content in files:
            if name not in ("", ".", ".."):
                (folder/name[:100]).write_bytes(content)
        path = folder if not files or any(name == "config.json" for name, _ in files) else folder/files[0][0][:100]
        checkpoint = load_checkpoint(path)
        return str(checkpoint.config), checkpoint.weights
    except ValueError as refusal:
        kind = re.sub(r"[\d.,]+|'[^']*'|\"[^\"]*\"|/\S+", "#", str(refusal))[:80]
        if kind in _seen or "\n" in str(refusal):
            raise
        _seen.add(kind)
        return kind
    finally:
        shutil.rmtree(folder, ignore_errors=True)
