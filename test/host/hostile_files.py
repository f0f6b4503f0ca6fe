#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Good tiny checkpoints of all kinds and the parts that they are made of, for cases that break them.

    CASES : {name: Case}; cases of a kind (the part of the name before the colon) try one way in.
"""

import functools
import json
import os
import pathlib
import struct
import tempfile

from dataclasses import dataclass

import numpy as np

from tiny_checkpoint import write_checkpoint

# Good checkpoints ---------------------------------------------------------------------------------

HIDDEN, FFN, VOCAB, CONTEXT = 32, 48, 60, 16  # Of the single files: one layer, two heads, one KV head of 16.

PIECES = ["<unk>", "<s>", "</s>", *"\u2581abcdefghijklmnopqrstuvwxyz.,!?'\"", "th", "he", "the", "\u2581a", "in", "er"]
PIECES += [f"w{i}" for i in range(VOCAB - len(PIECES))]


@functools.lru_cache
def drawn_tensors():
    """{our name: float32} of the single files' tensors."""
    random = np.random.default_rng(1)
    sizes  = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN//2, HIDDEN), "v": (HIDDEN//2, HIDDEN), "o": (HIDDEN, HIDDEN), "gate": (FFN, HIDDEN),
        "up": (FFN, HIDDEN), "down": (HIDDEN, FFN), "embedding": (VOCAB, HIDDEN), "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,),
        "final_norm": (HIDDEN,)}
    return {name: random.normal(1 if len(size) == 1 else 0, 0.1, size).astype("<f4") for name, size in sizes.items()}


@functools.lru_cache
def folder_files():
    """{file name: bytes} of a good folder."""
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder)
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


# GGUF: (key, type, value as bytes), and (name, sizes inner first, type, offset, data).

U32, I32, F32, BOOL, STRING, ARRAY, U64, F64 = 4, 5, 6, 7, 8, 9, 10, 12


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def texts(values):
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values))


def gguf_pairs():
    number = lambda key, value: (f"llama.{key}", U32, struct.pack("<I", value))
    return [
        ("general.architecture", STRING, text("llama")),
        ("general.alignment",    U32,    struct.pack("<I", 32)),
        number("context_length", CONTEXT), number("embedding_length", HIDDEN), number("block_count", 1), number("feed_forward_length", FFN),
        number("attention.head_count", 2), number("attention.head_count_kv", 1),
        ("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        ("llama.rope.freq_base", F32,    struct.pack("<f", 1e4)),
        ("tokenizer.ggml.model", STRING, text("llama")),
        ("tokenizer.ggml.tokens",     ARRAY, texts(PIECES)),
        ("tokenizer.ggml.scores",     ARRAY, struct.pack(f"<IQ{VOCAB}f", F32, VOCAB, *[-float(i) for i in range(VOCAB)])),
        ("tokenizer.ggml.token_type", ARRAY, struct.pack(f"<IQ{VOCAB}i", I32, VOCAB, 2, 3, 3, *[1]*(VOCAB - 3))),
        ("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 1)),
        ("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 2)),
    ]


def gguf_tensors():
    names  = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
        "attn_norm": "attn_norm", "ffn_norm": "ffn_norm"}
    names  = {key: f"blk.0.{name}.weight" for key, name in names.items()}
    names |= {"embedding": "token_embd.weight", "final_norm": "output_norm.weight"}
    result, offset = [], 0
    for key, name in names.items():
        data = drawn_tensors()[key]
        result.append((name, data.shape[::-1], 0, offset, data.tobytes()))
        offset += -(-data.nbytes//32)*32
    return result


def gguf(pairs=None, tensors=None, version=3, counts=None, magic=b"GGUF"):
    pairs, tensors = gguf_pairs() if pairs is None else pairs, gguf_tensors() if tensors is None else tensors
    head  = magic + struct.pack("<IQQ", version, *(counts or (len(tensors), len(pairs))))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    for name, sizes, kind, offset, _ in tensors:
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes) + struct.pack("<IQ", kind, offset)
    body = bytes(-len(head) % 32)
    for *_, data in tensors:
        body += data + bytes(-len(data) % 32)
    return head + body


def with_pair(key, kind, value):
    """The good file with a pair replaced, or added."""
    pairs = gguf_pairs()
    place = next((i for i, pair in enumerate(pairs) if pair[0] == key), len(pairs))
    pairs[place:place + 1] = [(key, kind, value)]
    return gguf(pairs)


def with_tensor(**fields):
    """The good file whose first tensor (blk.0.attn_q.weight) has other fields: name, sizes, kind, offset, data."""
    tensors    = gguf_tensors()
    tensors[0] = tuple({**dict(zip(("name", "sizes", "kind", "offset", "data"), tensors[0])), **fields}.values())
    return gguf(tensors=tensors)


# llama2.c.

ORDER = ("embedding", "attn_norm", "q", "k", "v", "o", "ffn_norm", "gate", "down", "up", "final_norm")


def llama2c(numbers=None, drawn=None):
    drawn  = drawn_tensors() if drawn is None else drawn
    angles = np.zeros((CONTEXT, HIDDEN//2), "<f4")
    header = struct.pack("<7i", *(numbers or (HIDDEN, FFN, 1, 2, 1, VOCAB, CONTEXT)))
    return header + b"".join(drawn[name].tobytes() for name in ORDER) + angles.tobytes()


def llama2c_1(*header):
    """Version 1: the header's words behind the magic, its byte `tied`."""
    *words, tied = header
    order = ("attn_norm", "ffn_norm", "final_norm", "embedding", "q", "k", "v", "o", "gate", "down", "up")
    return (b"24ka" + struct.pack("<8iB", *words, tied)).ljust(256, b"\0") + b"".join(drawn_tensors()[name].tobytes() for name in order)


def tokenizer_bin(tokens=None):
    return struct.pack("<i", 8) + b"".join(struct.pack("<fi", -float(i), len(token.encode())) + token.encode()
        for i, token in enumerate(PIECES if tokens is None else tokens))

# Cases --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """make(folder) writes the files into an empty folder and returns the arguments of the command; line: what its one line must hold, None
    for files that must be taken."""
    make    : object
    line    : str
    command : str = "pack"

    @property
    def good(self):
        return self.line is None


CASES = {}


def folder_case(name, line, **files):
    """A good folder with files replaced: bytes, text, an object for JSON, None for none, or a function of the path."""
    def make(folder):
        for file, data in (folder_files() | files).items():
            if callable(data):
                data(folder/file)
            elif data is not None:
                data = data if isinstance(data, (bytes, str)) else json.dumps(data)
                (folder/file).write_bytes(data if isinstance(data, bytes) else data.encode())
        return [folder]
    assert name not in CASES, name
    CASES[name] = Case(make, line)


def file_case(name, line, data, file="m.gguf", **others):
    """A single file (bytes, a function of the path), with others beside it."""
    def make(folder):
        for file_, value in ({file: data} | others).items():
            value(folder/file_) if callable(value) else (folder/file_).write_bytes(value)
        return [folder/file]
    assert name not in CASES, name
    CASES[name] = Case(make, line)


def sparse(size, start=b""):
    """Function of a path: a file that seems long and takes no room."""
    def make(path):
        path.write_bytes(start)
        os.truncate(path, size)
    return make


def config(remove=(), **settings):
    return {key: value for key, value in json.loads(folder_files()["config.json"]).items() if key not in remove} | settings
