#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hostile folders: what is no file, values of config.json, headers of safetensors, the index of shards."""

import copy
import functools
import json
import os
import struct

from hostile_files import config, file_case, folder_case, folder_files, llama2c, sparse

# Files that are none ------------------------------------------------------------------------------


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path)


def folder(path):
    path.mkdir()


NO_FILES = {"pipe": pipe, "device": device, "loop": loop, "folder": folder, "sparse": sparse(1 << 40)}

for _kind, _make in NO_FILES.items():
    for _file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "calibration.json", "chat_template.jinja",
            "model.safetensors.index.json"):
        if _file == "model.safetensors.index.json":  # A stray beside model.safetensors: not looked at.
            folder_case(f"files:{_kind} {_file}", None, **{_file: _make})
            continue
        if _kind == "loop" and _file not in ("config.json", "model.safetensors"):  # A link that leads nowhere is not there.
            continue
        folder_case(f"files:{_kind} {_file}", _file, **{_file: _make})
    file_case(f"files:{_kind} m.gguf", "m.gguf", _make)
    file_case(f"files:{_kind} m.bin", "m.bin", _make, "m.bin")
file_case("files:pipe tokenizer.bin", "tokenizer.bin", llama2c(), "m.bin", **{"tokenizer.bin": pipe})
file_case("files:device tokenizer.bin", "tokenizer.bin", llama2c(), "m.bin", **{"tokenizer.bin": device})

# config.json --------------------------------------------------------------------------------------

WHOLES  = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "max_position_embeddings")
VALUES  = {
    **dict.fromkeys(WHOLES,                        (0, -1, 1.5, 1e30, "8", [8], True, 2**63)),
    **dict.fromkeys(("rms_norm_eps",),             ("x", 0, -1, 1e30, [], True)),
    **dict.fromkeys(("rope_theta",),               ("x", 0, -1, 1e30, [], True)),
    **dict.fromkeys(("bos_token_id", "eos_token_id"), (-1, 320, 1e30, 1.5, "x", [], [0, -1], {"a": 1}, True)),
    **dict.fromkeys(("tie_word_embeddings", "attention_bias", "mlp_bias"), ("false", 1, [])),
    **dict.fromkeys(("quantization_config", "rope_scaling", "rope_parameters"), (5, "x", [1], True)),
    "architectures" : (5, "BitnetForCausalLM", [5], {"a": 1}, [["BitnetForCausalLM"]], [], None),
    "hidden_act"    : (5, "gelu", ["silu"]),
}

for _name, _values in VALUES.items():
    for _value in _values:
        folder_case(f"config:{_name} {json.dumps(_value)}", "architecture" if _name == "architectures" else _name,
            **{"config.json": config(**{_name: _value})})
for _name in ("hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings", "num_attention_heads", "intermediate_size"):
    folder_case(f"config:without {_name}", f"does not state {_name}", **{"config.json": config([_name])})

for _name, _line, _text in (
    ("1e400",         "rms_norm_eps",          json.dumps(config())[:-1] + ', "rms_norm_eps": 1e400}'),
    ("NaN",           "NaN is no number",      json.dumps(config())[:-1] + ', "rms_norm_eps": NaN}'),
    ("Infinity",      "Infinity is no number", json.dumps(config())[:-1] + ', "rope_theta": Infinity}'),
    ("twice",         "stands there twice",    json.dumps(config())[:-1] + ', "hidden_size": 64}'),
    ("long number",   "hidden_size",           json.dumps(config(["hidden_size"]))[:-1] + ', "hidden_size": ' + "9"*2000000 + "}"),
    ("deep",          "nested too deeply",     "["*1000000),
    ("deep objects",  "nested too deeply",     '{"a":'*1000000),
    ("wide",          "architecture",          '{"a":[' + "[],"*2000000 + "[]]}"),
    ("a list",        "must be a JSON object", "[1, 2]"),
    ("empty",         "config.json",           ""),
    ("cut",           "config.json",           '{"architectures": ["Bitnet'),
    ("blanks",        "such files have at most", " "*(9 << 20)),
    ("UTF-16",        "config.json",           json.dumps(config()).encode("utf-16")),
    ("no UTF-8",      "config.json",           b'{"a": "\xff\xfe"}'),
    ("escapes",       "architecture",          '{"architectures": ["\\u001b[2J\\u0007x"]}'),
    ("half character", "architectures",        '{"architectures": ["\\ud800"]}'),
    ("long name",     "architectures",         json.dumps({"architectures": ["x"*1000000]})),
    ("missing",       "config.json",           None),
):
    folder_case(f"json:{_name}", _line, **{"config.json": _text})

for _name, _line, _settings in (
    ("good",                None,            {"rope_scaling": None, "hidden_act": None, "eos_token_id": [0, 1], "rope_theta": 5e5}),
    ("context 16,000,000",  "--context",     {"max_position_embeddings": 16000000}),
    ("context 2^24",        "--context",     {"max_position_embeddings": 1 << 24}),
    ("large",               "does not fit",  {"hidden_size": 16384, "intermediate_size": 16384, "num_hidden_layers": 4096, "head_dim": 128}),
    ("largest",             "rows hold at most", {"hidden_size": 1 << 20, "intermediate_size": 1 << 20, "num_hidden_layers": 4096}),
    ("vocabulary",          "does not fit",  {"vocab_size": (1 << 24) - 1}),
    ("many heads",          "q_width = 1048576",         {"num_attention_heads": 1 << 20}),
    ("odd width",           "hidden",        {"hidden_size": 65}),
    ("odd heads",           "must be [40, 64]",         {"num_attention_heads": 5, "head_dim": 8}),
    ("more layers",         "missing",       {"num_hidden_layers": 4096}),
    ("RoPE of no kind",     "RoPE of type 'dynamic'",         {"rope_scaling": {"type": "dynamic", "factor": 1e30}}),
    ("RoPE, type a list",   "type",          {"rope_scaling": {"type": ["linear"]}}),
    ("RoPE, theta 0",       "rope_theta",    {"rope_parameters": {"rope_theta": 0}}),
    ("quantised, no method", "quant_method", {"quantization_config": {"quant_method": 5}}),
    ("quantised, other",    "gptq",          {"quantization_config": {"quant_method": "gptq"}}),
    ("quantised, mode",     "quantization_mode", {"quantization_config": {"quantization_mode": 1}}),
    ("quantised, class",    "linear_class",  {"quantization_config": {"linear_class": ["x"]}}),
    ("quantised, norm",     "use_rms_norm",  {"quantization_config": {"use_rms_norm": "no"}}),
):
    folder_case(f"shape:{_name}", _line, **{"config.json": config(**_settings)})

# Safetensors --------------------------------------------------------------------------------------

NORM = "model.norm.weight"


@functools.lru_cache
def _header():
    data = folder_files()["model.safetensors"]
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + size]), data[8 + size:]


def shard(header=None, body=None, size=None):
    """A file of a header (object, or bytes) and a body."""
    header = _header()[0] if header is None else header
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if size is None else size) + header + (_header()[1] if body is None else body)


def described(**fields):
    """The good file whose norm is described by other fields."""
    header = copy.deepcopy(_header()[0])
    header[NORM] |= fields
    return shard({name: {key: value for key, value in entry.items() if value is not None} for name, entry in header.items()})


def filled(value, name=NORM):
    """The good file whose tensor holds a value somewhere."""
    header, body = _header()
    first        = header[name]["data_offsets"][0]
    return shard(body=body[:first + 8] + struct.pack("<f", value) + body[first + 12:])


_good = folder_files()["model.safetensors"]
_size = len(_header()[1])
for _name, _line, _data in (
    ("empty",               "too few",         b""),
    ("seven bytes",         "too few",         b"1234567"),
    ("header of 2^64 - 1",  "are the most",    shard(size=2**64 - 1)),
    ("header of 2^63",      "are the most",    shard(size=2**63)),
    ("header of 100 MB",    "are the most",    shard(size=100000000)),
    ("header of 0",         "JSON",            shard(size=0)),
    ("header a list",       "no JSON object",  shard(b"[]")),
    ("header no JSON",      "JSON",            shard(b"{" + b"x"*100)),
    ("header deep",         "nested",          shard(b"["*100000)),
    ("header without end",  "JSON",            shard(b'{"' + b"a"*1000000)),
    ("entry a number",      "described",       shard(_header()[0] | {NORM: 5})),
    ("name long",           "described",       shard(_header()[0] | {"x"*1000: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})),
    ("twice",               "twice",           shard(json.dumps(_header()[0]).encode()[:-1] + b', "model.norm.weight": {}}')),
    ("without kind",        "dtype",           described(dtype=None)),
    ("kind a number",       "dtype",           described(dtype=5)),
    ("kind unknown",        "F8_E4M3",         described(dtype="F8_E4M3")),
    ("kind I32",            "must be floats",  described(dtype="I32")),
    ("kind F64",            "takes",           described(dtype="F64")),
    ("shape negative",      "shape",           described(shape=[-64])),
    ("shape of floats",     "shape",           described(shape=[64.0])),
    ("shape nested",        "shape",           described(shape=[[64]])),
    ("shape product wraps", "takes",           described(shape=[1 << 32, 1 << 32])),
    ("shape huge",          "shape",           described(shape=[1 << 63])),
    ("shape long",          "shape",           described(shape=[1]*1000)),
    ("shape of text",       "shape",           described(shape="64")),
    ("other shape",         "must be [64]",    described(shape=[8, 8])),
    ("zero size",           "takes",           described(shape=[0])),
    ("offsets reversed",    "data_offsets",    described(data_offsets=[256, 0])),
    ("offsets negative",    "data_offsets",    described(data_offsets=[-256, 0])),
    ("offsets beyond",      "begins at",       described(data_offsets=[1 << 40, (1 << 40) + 256])),
    ("offsets overlap",     "begins at",       described(data_offsets=[0, 256])),
    ("offsets three",       "data_offsets",    described(data_offsets=[0, 256, 512])),
    ("offsets of text",     "data_offsets",    described(data_offsets="ab")),
    ("bytes behind",        "its header needs", _good + b"hidden"),
    ("a hole",              "begins at",       shard(
        _header()[0] | {"x": {"dtype": "U8", "shape": [1], "data_offsets": [_size + 9, _size + 10]}}, _header()[1] + bytes(10))),
    ("NaN",                 "infinite values or NaN", filled(float("nan"))),
    ("infinity",            "infinite values or NaN", filled(float("inf"))),
    ("huge gain",           "not a number to compute with", filled(1e38)),
    ("huge weight",         "q_scale holds",                filled(3e38, "model.layers.0.self_attn.q_proj.weight")),
    ("huge embedding",      "run over float32", filled(3e38, "model.embed_tokens.weight")),
    ("pickled",             "are the most",            b"\x80\x04\x95" + bytes(200)),
    ("cut in the header",   "are the most",    _good[:100]),
    ("cut in the body",     "its header needs", _good[:-1]),
    ("cut in the middle",   "its header needs", _good[:len(_good)//2]),
    ("no tensors",          "missing",         shard({}, b"")),
    ("many names",          "are the most",    shard(
        {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(200000)}, b"")),
):
    folder_case(f"safetensors:{_name}", _line, **{"model.safetensors": _data})
folder_case("safetensors:missing", "safetensors", **{"model.safetensors": None})
folder_case("safetensors:pickled instead", "pickled", **{"model.safetensors": None, "pytorch_model.bin": b"\x80\x04\x95" + bytes(200)})

for _name, _line, _map in (
    ("list",                "weight_map",   ["model.safetensors"]),
    ("number",              "weight_map",   5),
    ("empty",               "weight_map",   {}),
    ("to numbers",          "weight_map",   {NORM: 5}),
    ("to lists",            "weight_map",   {NORM: ["model.safetensors"]}),
    ("to the folder above", "weight_map",   {NORM: "../model.safetensors"}),
    ("to a path",           "weight_map",   {NORM: "/etc/passwd"}),
    ("to no file",          "m.safetensors is missing", {NORM: "m.safetensors"}),
    ("to a long name",      "weight_map",   {NORM: "x"*300}),
    ("to a NUL",            "is missing",   {NORM: "a\0b"}),
    ("to nothing",          "weight_map",   {NORM: ""}),
    ("to dots",             "weight_map",   {NORM: ".."}),
    ("null",                "weight_map",   None),
    ("good",                None,           {NORM: "model-1.safetensors"}),
):
    folder_case(f"index:{_name}", _line, **{"model.safetensors.index.json": {"weight_map": _map}, "model.safetensors": None,
        "model-1.safetensors": _good})
