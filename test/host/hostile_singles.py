#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hostile single files: GGUF (container, kinds of values, tensors), llama2.c's headers."""

import math
import struct

import numpy as np

from hostile_files import (ARRAY, BOOL, F32, F64, I32, PIECES, STRING, U32, U64, VOCAB, drawn_tensors, file_case, gguf, gguf_pairs,
    gguf_tensors, llama2c, llama2c_1, sparse, text, texts, tokenizer_bin, with_pair, with_tensor)

# GGUF's container ---------------------------------------------------------------------------------

_good  = gguf()
_count = lambda tensors, pairs: gguf(counts=(tensors, pairs))

for _name, _line, _data in (
    ("good",                 None,                     _good),
    ("version 2",            None,                     gguf(version=2)),
    ("empty",                "not a checkpoint",       b""),
    ("magic alone",          "damaged GGUF file",      b"GGUF"),
    ("array of 2^50",        "key 'k': 1,125,899,906,842,624", struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"k", ARRAY, U32, 1 << 50)),
    ("array of 2^64 - 1",    "key 'k'",                struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"k", ARRAY, 0, 2**64 - 1)),
    ("texts of 2^50",        "key 'k'",                struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"k", ARRAY, STRING, 1 << 50)),
    ("bools of 2^50",        "key 'k'",                struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"k", ARRAY, BOOL, 1 << 50)),
    ("text of 2^63",         "characters of a string", struct.pack("<4sIQQQ1sIQ", b"GGUF", 3, 0, 1, 1, b"k", STRING, 1 << 63)),
    ("key of 2^63",          "characters of a string", struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 63) + bytes(40)),
    ("texts without length", "2,097,152 strings in",                       with_pair("k", ARRAY, struct.pack("<IQ", STRING, 1 << 21))),
    ("array of arrays",      "arrays of arrays",       with_pair("k", ARRAY, struct.pack("<IQ", ARRAY, 1 << 20) + bytes(1200))),
    ("version 1",            "version 1",              gguf(version=1)),
    ("version 4",            "version 4",              gguf(version=4)),
    ("big-endian",           "big-endian",             gguf(version=3 << 24)),
    ("magic backwards",      "not a checkpoint",       gguf(magic=b"FUGG")),
    ("tensors 2^64 - 1",     "tensors in",             _count(2**64 - 1, 1)),
    ("tensors 2^63",         "tensors in",             _count(2**63, 1)),
    ("tensors 100,000",      "tensors in",             _count(100000, 1)),
    ("no tensors",           "token_embd.weight is missing",                       _count(0, len(gguf_pairs()))),
    ("a tensor more",        "characters of a string",                       _count(len(gguf_tensors()) + 1, len(gguf_pairs()))),
    ("a tensor less",        "is missing",             _count(len(gguf_tensors()) - 1, len(gguf_pairs()))),
    ("pairs 2^64 - 1",       "pairs in",               _count(len(gguf_tensors()), 2**64 - 1)),
    ("no pairs",             "dimensions",                       _count(len(gguf_tensors()), 0)),
    ("a pair more",          "damaged GGUF file",                       _count(len(gguf_tensors()), len(gguf_pairs()) + 1)),
    ("a pair less",          "damaged GGUF file",                       _count(len(gguf_tensors()), len(gguf_pairs()) - 1)),
    ("pair twice",           "stands there twice",     gguf(gguf_pairs() + gguf_pairs()[:1])),
    ("tensor twice",         "stands there twice",     gguf(tensors=gguf_tensors() + gguf_tensors()[:1])),
    ("cut in the pairs",     "damaged GGUF file",      _good[:500]),
    ("cut in the tensors",   "truncated",              _good[:len(_good)//2]),
    ("cut by a byte",        "truncated",              _good[:-32]),
    ("alignment 0",          "general.alignment 0",    with_pair("general.alignment", U32, struct.pack("<I", 0))),
    ("alignment 3",          "general.alignment 3",    with_pair("general.alignment", U32, struct.pack("<I", 3))),
    ("alignment 2^31",       "general.alignment",      with_pair("general.alignment", U32, struct.pack("<I", 1 << 31))),
    ("alignment a text",     "general.alignment",      with_pair("general.alignment", STRING, text("32"))),
    ("alignment 64",         "truncated",                       with_pair("general.alignment", U32, struct.pack("<I", 64))),
    ("key no UTF-8",         "not UTF-8",              with_pair(b"\xff\xfe", U32, bytes(4))),
    ("text no UTF-8",        "key 'k': 'utf-8'",             with_pair("k", STRING, text(b"\xff\xfe"))),
    ("key of no kind",       "type 99",                with_pair("k", 99, bytes(8))),
    ("bool of 7",            "no bool",                with_pair("k", BOOL, b"\x07")),
    ("key long",             "characters of a string", with_pair("k"*100000, U32, bytes(4))),
    ("key with an escape",   "k\\x1b",                 with_pair("k\x1b[2J", 99, bytes(4))),
    ("a million texts",      None,                       with_pair("k", ARRAY, texts([""]*1000000))),
):
    file_case(f"GGUF:{_name}", _line, _data)
file_case("GGUF:sparse behind the magic", "0 dimensions", sparse(1 << 36, b"GGUF\3\0\0\0" + (1).to_bytes(8, "little")*2))

# GGUF's values ------------------------------------------------------------------------------------

_u32  = lambda value: (U32, struct.pack("<I", value))
_f32  = lambda value: (F32, struct.pack("<f", value))
_list = lambda kind, form, *values: (ARRAY, struct.pack(f"<IQ{len(values)}{form}", kind, len(values), *values))

# Lines that name something else than the key.
_OTHER = {
    ("general.architecture", 0): "architecture 'mamba'", ("general.architecture", 1): "architecture ''",
    ("llama.embedding_length", 2): "hidden = 33", ("llama.block_count", 1): "blk.1.attn_q.weight is missing",
    ("llama.feed_forward_length", 1): "must be [56, 32]", ("llama.attention.head_count", 1): "q_width = 30",
    ("llama.attention.head_count_kv", 1): "must be [32, 32]", ("llama.attention.key_length", 1): "q_width = 14",
    ("tokenizer.ggml.model", 0): "'rwkv'",
    ("tokenizer.ggml.tokens", 0): "holds no tokenizer", ("tokenizer.ggml.tokens", 1): "list of 59",
    ("tokenizer.ggml.tokens", 2): "list of 61",
    ("tokenizer.ggml.tokens", 3): "59 are repeated", ("split.count", 0): "one of 3 parts",
}

for _key, _values in {
    "general.architecture"       : ((STRING, text("mamba")), (STRING, text("")), _u32(1), (ARRAY, texts(["llama"])),
        (STRING, text("x"*100000))),
    "llama.context_length"       : (_u32(0), _u32(2**32 - 1), (STRING, text("16")), _f32(16),
        (U64, struct.pack("<Q", 2**63)), (BOOL, b"\1")),
    "llama.embedding_length"     : (_u32(0), _u32(2**32 - 1), _u32(33), (STRING, text("32"))),
    "llama.block_count"          : (_u32(0), _u32(2), _u32(2**32 - 1), (I32, struct.pack("<i", -1)), (F64, struct.pack("<d", 1e30))),
    "llama.feed_forward_length"  : (_u32(0), _u32(56), _u32(2**32 - 1), _list(U32, "I", 48)),
    "llama.attention.head_count" : (_u32(0), _u32(3), _u32(2**32 - 1)),
    "llama.attention.head_count_kv" : (_u32(0), _u32(2), _u32(2**32 - 1), _list(U32, "I", 1)),
    "llama.attention.key_length" : (_u32(0), _u32(7), _u32(2**32 - 1)),
    "llama.attention.layer_norm_rms_epsilon" : (_f32(0), _f32(-1), _f32(math.nan), _f32(math.inf), (STRING, text("x"))),
    "llama.rope.freq_base"       : (_f32(0), _f32(-1), _f32(math.nan), _f32(math.inf), (STRING, text("x"))),
    "llama.rope.scale_linear"    : (_f32(0), _f32(math.nan), _f32(-4), (STRING, text("x"))),
    "tokenizer.ggml.model"       : ((STRING, text("rwkv")), _u32(1)),
    "tokenizer.ggml.tokens"      : ((ARRAY, texts([])), (ARRAY, texts(PIECES[:-1])), (ARRAY, texts([*PIECES, "x"])),
        (ARRAY, texts(["a"]*VOCAB)),
        (ARRAY, texts(["x"*100000, *PIECES[1:]])), _list(U32, "I", *range(VOCAB)), (STRING, text("abc"))),
    "tokenizer.ggml.scores"      : ((ARRAY, texts(["x"]*VOCAB)), _list(F32, "f", *[math.nan]*VOCAB), _list(F32, "f", *[0.0]*7), _u32(1)),
    "tokenizer.ggml.token_type"  : (_list(I32, "i", *[99]*VOCAB), _list(I32, "i", *[-1]*VOCAB), _list(I32, "i", 1), (STRING, text("x"))),
    "tokenizer.ggml.bos_token_id" : (_u32(VOCAB), _u32(2**32 - 1), (I32, struct.pack("<i", -1)), (STRING, text("x")), _f32(1)),
    "tokenizer.ggml.eos_token_id" : (_u32(VOCAB), _u32(2**32 - 1), (I32, struct.pack("<i", -1)), (STRING, text("x"))),
    "tokenizer.ggml.add_space_prefix" : (_u32(1), (STRING, text("false"))),
    "tokenizer.chat_template"    : ((STRING, text("x"*(2 << 20))), _u32(1), (ARRAY, texts(["x"]))),
    "general.name"               : (_u32(1), (ARRAY, texts(["x"])), (STRING, text("x"*1000))),
    "split.count"                : (_u32(3), _u32(2**32 - 1), (STRING, text("x"))),
}.items():
    for _number, (_kind, _value) in enumerate(_values):
        file_case(f"GGUF value:{_key} {_number}", _OTHER.get((_key, _number), _key), with_pair(_key, _kind, _value))
_gpt2 = {"tokenizer.ggml.model": (STRING, text("gpt2")), "tokenizer.ggml.merges": (ARRAY, texts([]))}
_with = lambda **pairs: gguf([pair for pair in gguf_pairs() if pair[0] not in pairs] + [(key, *pair) for key, pair in pairs.items()])
for _name, _line, _pairs in (
    ("gpt2 of no merges",     None,                            {}),
    ("merges without a space", "the merge 'th'",                {"tokenizer.ggml.merges": (ARRAY, texts(["th"]*3))}),
    ("merges of no tokens",   "out of vocabulary",             {"tokenizer.ggml.merges": (ARRAY, texts(["zz zzz"]))}),
    ("merges of numbers",     "tokenizer.ggml.merges",         {"tokenizer.ggml.merges": _u32(1)}),
    ("merges long",           "tokenizer.ggml.merges",         {"tokenizer.ggml.merges": (ARRAY, texts(["a "*100000]))}),
    ("words of no kind",      "of kind 'nothing'",             {"tokenizer.ggml.pre": (STRING, text("nothing"))}),
    ("words a number",        "tokenizer.ggml.pre",            {"tokenizer.ggml.pre": _u32(1)}),
):
    file_case(f"GGUF value:{_name}", _line, _with(**_gpt2 | _pairs))
for _key in ("general.architecture", "llama.embedding_length", "llama.block_count", "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.scores"):
    file_case(f"GGUF value:without {_key}", f"does not state {_key}", gguf([pair for pair in gguf_pairs() if pair[0] != _key]))
file_case("GGUF value:a name that escapes", None, with_pair("general.name", STRING, text("\x1b]0;x\x07\u202e")))

# GGUF's tensors -----------------------------------------------------------------------------------

for _name, _line, _fields in (
    ("no name",            "attn_q.weight is missing",             {"name": ""}),
    ("name no UTF-8",      "not UTF-8",    {"name": b"\xff"}),
    ("name long",          "characters of a string", {"name": "x"*100000}),
    ("no dimensions",      "0 dimensions", {"sizes": ()}),
    ("nine dimensions",    "9 dimensions", {"sizes": (1,)*9}),
    ("sizes 0",            "sizes are",    {"sizes": (0, 32)}),
    ("sizes 2^63",         "sizes are",    {"sizes": (1 << 63, 2)}),
    ("sizes wrap",         "truncated",    {"sizes": (1 << 32, 1 << 32)}),
    ("sizes 2^40 each",    "truncated",    {"sizes": (1 << 40,)*4}),
    ("other sizes",        "must be",      {"sizes": (64, 16)}),
    ("flat",               "must be",      {"sizes": (1024,)}),
    ("kind 99",            "type 99",      {"kind": 99}),
    ("kind 2^32 - 1",      "type 4294967295", {"kind": 2**32 - 1}),
    ("kind 4, removed",    "type 4",       {"kind": 4}),
    ("kind I32",           "of type I32",             {"kind": 26}),
    ("kind F64",           "not aligned, or within",             {"kind": 28}),
    ("kind Q4_0",          "NaN",             {"kind": 2, "offset": 0}),
    ("kind IQ1_M",         "no multiple of 256",             {"kind": 29}),
    ("kind I2_S",          "the code 3",             {"kind": 36}),
    ("offset 2^64 - 1",    "not aligned",             {"offset": 2**64 - 1}),
    ("offset 2^63",        "truncated",    {"offset": 2**63}),
    ("offset 1",           "not aligned",  {"offset": 1}),
    ("offset of another",  "not aligned, or within",             {"offset": 4096}),
    ("NaN",                "NaN",          {"data": struct.pack("<f", math.nan)*1024}),
    ("infinite",           "infinite",     {"data": struct.pack("<f", math.inf)*1024}),
    ("huge",               "of 512 sizes",             {"data": struct.pack("<f", 3e38)*1024}),
    ("zeros",              None,           {"data": bytes(4096)}),
):
    file_case(f"GGUF tensor:{_name}", _line, with_tensor(**_fields))

# llama2.c -----------------------------------------------------------------------------------------

_numbers = (32, 48, 1, 2, 1, VOCAB, 16)
_words   = tokenizer_bin()
_replace = lambda place, value: (*_numbers[:place], value, *_numbers[place + 1:])


def _filled(name, value):
    return llama2c(drawn=drawn_tensors() | {name: np.full_like(drawn_tensors()[name], value)})


for _name, _line, _data in (
    ("good",               None,             llama2c()),
    ("version 1",          None,             llama2c_1(1, *_numbers, 1)),
    ("empty",              "too few",        b""),
    ("a byte",             "too few",        b"x"),
    ("27 bytes",           "too few",        llama2c()[:27]),
    ("28 bytes",           "needs",          llama2c()[:28]),
    ("zeros",              "header: hidden", bytes(4096)),
    ("ones",               "header: hidden", b"\xff"*4096),
    ("text",               "header: hidden",               b"once upon a time, there was "*100),
    ("version 2",          "version 2",      llama2c_1(2, *_numbers, 1)),
    ("version 1 of 40 bytes", "too few",     llama2c_1(1, *_numbers, 1)[:40]),
    ("tied 9",             "tied",           llama2c_1(1, *_numbers, 9)),
    ("not tied",           "needs",          llama2c_1(1, *_numbers, 0)),
    ("cut by a byte",      "needs",          llama2c()[:-1]),
    ("a byte more",        "needs",          llama2c() + b"x"),
    ("NaN",                "NaN",            _filled("q", math.nan)),
    ("infinite",           "infinite",       _filled("embedding", math.inf)),
    ("huge gains",         "final_norm holds 3",               _filled("final_norm", 3e38)),
    ("huge embedding",     "run over",       _filled("embedding", 3e38)),
    ("zip archive",        "pickled",        b"PK\x03\x04" + bytes(4096)),
    ("pickle",             "pickled",        b"\x80\x02" + bytes(4096)),
    *((f"{name} {value}", "header: " if not 0 < value < 1 << 30 else "m.bin: ", llama2c(_replace(place, value))) for place, name in enumerate(
        ("hidden", "ffn", "layers", "heads", "kv_heads", "vocab", "context")) for value in (0, -1, 7, 1 << 20, 2**31 - 1, -2**31)),
):
    file_case(f"llama2.c:{_name}", _line, _data, "m.bin", **{"tokenizer.bin": _words})
file_case("llama2.c:no tokenizer", "tokenizer", llama2c(), "m.bin")
file_case("llama2.c:sparse", "such files have at most", sparse(1 << 40, struct.pack("<7i", 16384, 16384, 4096, 128, 128, 1 << 20, 2048)),
    "m.bin")
for _name, _file in (("suffix pt", "m.pt"), ("suffix onnx", "m.onnx"), ("no suffix", "m")):
    file_case(f"llama2.c:{_name}", "not a checkpoint that is known", llama2c(), _file)
file_case("llama2.c:suffix safetensors", "name its folder", llama2c(), "m.safetensors")
