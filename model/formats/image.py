#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The image: one file that the host packs and the board streams. All offsets are bytes from its start, multiples of 128.

::

    IMAGE_HEADER | LAYER_RECORD × layers | tensors in the order in which a token reads them | tokenizer | metadata

Tensors: norm gains, steps and RoPE tables float32; groups of matrices in the stream's packing, ternary (1.6 bits a weight, a scale for
each matrix or a float32 step for each row) or int8 (a step for each row); embedding and head int8 rows of `hidden` bytes with a float32
step each, the head also or only as ternary planes (model/formats/head.py). A tied head is the embedding: the offsets are equal. Offsets of what
an image lacks are 0.
"""

import math
import os
import pathlib
import zlib

import numpy as np

from litetern.model.common.files import parse_json, File
from litetern.model.common.layout import Struct
from litetern.model.common.printable import printable
from litetern.model.formats.config import ACTIVATIONS, CONTEXT_MAX, GROUPS, LAYERS_MAX, VOCAB_MAX, ModelConfig
from litetern.model.formats.head import PLANES_MAX
from litetern.model.formats.marks import ENDS_MAX
from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS, FORMAT_INT8, FORMAT_TERNARY, ROW_WEIGHTS_MAX, TOPK_MAX, row_beats
from litetern.model.numerics import ops
from litetern.model.numerics.circuits import ATTENTION_LIMITS, AttentionParameters
from litetern.model.numerics.quantised import Group, Layer, QuantisedModel, TernaryHead

MAGIC       = int.from_bytes(b"TERN", "little")
VERSIONS    = {  # What came with each format version; only images of the last one are read.
    1 : "ternary bodies, int8 heads",
    2 : "int8 bodies, ternary and hybrid heads",
    3 : "attention's multipliers as mantissa and exponent: mantissa_bits",
    4 : "several end tokens; texts without a token before them: add_bos, ends; ternary rows with steps of their own: row_steps",
}
VERSION     = max(VERSIONS)
ALIGNMENT   = BURST_BEATS*BEAT_BYTES  # Every tensor starts a full burst.
LENGTH_MAX  = 2**32 - ALIGNMENT       # Bytes of an image: offsets have 32 bits. What a board has room for is its own to say (soc/boards.py).

NO_TOKEN    = (1 << 32) - 1           # Where a model has none.

HEAD_INT8, HEAD_TERNARY, HEAD_HYBRID = range(3)  # In the order of model.head.HEADS.

FLOAT_LOW   = np.float32(1e-9)  # Steps and scales beyond these would make subnormals or infinities.
FLOAT_HIGH  = np.float32(1e9)   # Gains and tables, too.

# Layout -------------------------------------------------------------------------------------------

IMAGE_HEADER = Struct("image_header", "Start of the image.", [
    ("magic",           "u4",  "'TERN'."),
    ("version",         "u4",  "Format version."),
    ("image_bytes",     "u4",  "Length of the whole image."),
    ("header_crc",      "u4",  "CRC-32 of header and layer records, this field taken as 0."),
    ("body_crc",        "u4",  "CRC-32 of all that follows the layer records."),
    ("hidden",          "u4",  "Width of the residual stream."),
    ("ffn",             "u4",  "Width of the feed-forward block."),
    ("layers",          "u4",  "Decoder blocks."),
    ("heads",           "u4",  "Query heads."),
    ("kv_heads",        "u4",  "KV heads."),
    ("head_dim",        "u4",  "Width of a head."),
    ("vocab",           "u4",  "Tokens."),
    ("context",         "u4",  "Positions that the RoPE tables cover."),
    ("activation",      "u4",  "Index into model.config.ACTIVATIONS."),
    ("sub_norms",       "u4",  "1: norms before o and down."),
    ("body_format",     "u4",  "Weights of the groups: 0 ternary, 1 int8."),
    ("row_steps",       "u4",  "1: ternary rows of the groups have steps of their own, as int8 rows always have; 0 otherwise."),
    ("head_format",     "u4",  "0: int8 rows; 1: ternary rows; 2: a shortlist by ternary rows, scored by int8 rows."),
    ("head_planes",     "u4",  "Planes of a ternary row, 1 to 3; 0 without."),
    ("shortlist",       "u4",  "Rows of the shortlist, 1 to 256; 0 without."),
    ("norm_eps",        "f4",  "Epsilon of the norms."),
    ("rope_theta",      "f4",  "Base of the RoPE tables (information)."),
    ("score_bits",      "u4",  "litetern.model.numerics.circuits.AttentionParameters, must equal the accelerator's."),
    ("steps_per_nat",   "u4",  "Likewise."),
    ("exp_bits",        "u4",  "Likewise."),
    ("mantissa_bits",   "u4",  "Likewise."),
    ("bos",             "u4",  "Token that begins a text; 0xffffffff: the model has none."),
    ("add_bos",         "u4",  "1: hosts put bos before each text; 0: nothing."),
    ("ends_count",      "u4",  "Tokens that end generation, 0 to 8."),
    ("ends",            f"u4[{ENDS_MAX}]", "These tokens; the first one is what chat templates call eos_token."),
    ("embedding",       "u4",  "Offset of int8 [vocab, hidden]."),
    ("embedding_steps", "u4",  "Offset of float32 [vocab]."),
    ("head",            "u4",  "Offset of int8 [vocab, hidden]."),
    ("head_steps",      "u4",  "Offset of float32 [vocab]."),
    ("ternary_head",    "u4",  "Offset of vocab ternary rows of head_planes·hidden weights."),
    ("ternary_steps",   "u4",  "Offset of float32 [vocab]."),
    ("final_norm",      "u4",  "Offset of float32 [hidden]."),
    ("cosine",          "u4",  "Offset of float32 [context, head_dim/2]."),
    ("sine",            "u4",  "Offset of float32 [context, head_dim/2]."),
    ("tokenizer",       "u4",  "Offset of the tokenizer's JSON."),
    ("tokenizer_bytes", "u4",  "Its length."),
    ("metadata",        "u4",  "Offset of a JSON object for people and hosts."),
    ("metadata_bytes",  "u4",  "Its length."),
    ("name",            "S64", "Name of the model."),
])

LAYER_RECORD = Struct("image_layer", "One decoder block.", [
    ("attn_norm",     "u4", "Offset of float32 [hidden]."),
    ("qkv",           "u4", "Offset of the group q, k, v: (heads + 2·kv_heads)·head_dim rows of hidden weights."),
    ("o_norm",        "u4", "Offset of float32 [heads·head_dim]."),
    ("o",             "u4", "Offset of the group o: hidden rows of heads·head_dim weights."),
    ("ffn_norm",      "u4", "Offset of float32 [hidden]."),
    ("gate_up",       "u4", "Offset of the group gate, up: 2·ffn rows of hidden weights."),
    ("down_norm",     "u4", "Offset of float32 [ffn]."),
    ("down",          "u4", "Offset of the group down: hidden rows of ffn weights."),
    ("k_steps",       "u4", "Offset of float32 [kv_heads]."),
    ("v_steps",       "u4", "Offset of float32 [kv_heads]."),
    ("qkv_steps",     "u4", "int8 or row_steps: offset of float32 [rows], the steps of the group's rows; 0 otherwise. Likewise the following."),
    ("o_steps",       "u4", "Offset of float32 [rows]."),
    ("gate_up_steps", "u4", "Offset of float32 [rows]."),
    ("down_steps",    "u4", "Offset of float32 [rows]."),
    ("q_scale",       "f4", "Ternary without row_steps: weight scale of q; 1 otherwise. Likewise the following."),
    ("k_scale",       "f4", "Weight scale of k."),
    ("v_scale",       "f4", "Weight scale of v."),
    ("o_scale",       "f4", "Weight scale of o."),
    ("gate_scale",    "f4", "Weight scale of gate."),
    ("up_scale",      "f4", "Weight scale of up."),
    ("down_scale",    "f4", "Weight scale of down."),
])

STRUCTS = (IMAGE_HEADER, LAYER_RECORD)

# Size ---------------------------------------------------------------------------------------------


def aligned(offset):
    """The next multiple of `ALIGNMENT`."""
    return -(-offset//ALIGNMENT)*ALIGNMENT


def image_parts(config, body=FORMAT_TERNARY, planes=0, shortlist=0, tokenizer_bytes=0, metadata_bytes=len(QuantisedModel.metadata), row_steps=False):
    """{part: bytes} of the image of a ModelConfig, before there is one; they sum up to its length.

    body              : weight format of the groups.
    planes, shortlist : of the head (model/formats/head.py); 0 planes: int8 rows.
    row_steps         : ternary rows have steps of their own.
    """
    size   = lambda *lengths: sum(map(aligned, lengths))
    groups = config.groups.values()
    table  = config.vocab*config.hidden
    heads  = [table]*(not config.tied and (shortlist > 0 or not planes))
    if planes:
        heads.append(config.vocab*row_beats(planes*config.hidden)*BEAT_BYTES)
    layer  = [4*length for length in config.vectors.values()] + [4*rows for rows, _ in groups]*(row_steps or body == FORMAT_INT8)
    steps  = [4*config.vocab]*(1 + len(heads))
    angles = 4*config.context*(config.head_dim//2)
    return {
        "weights"   : config.layers*size(*(rows*row_beats(columns, body)*BEAT_BYTES for rows, columns in groups)),
        "embedding" : size(table),
        "head"      : size(*heads),
        "tables"    : config.layers*size(*layer) + size(IMAGE_HEADER.size + config.layers*LAYER_RECORD.size, 4*config.hidden, angles, angles, *steps),
        "texts"     : size(tokenizer_bytes, metadata_bytes),
    }

# Checks -------------------------------------------------------------------------------------------
#
# What these refuse, firmware/engine/image.c refuses, and the other way round; whether an accelerator has the softmax resolution is its own to say.


def _must(good, where, name, value, what):
    if not good:
        raise ValueError(f"{where}: {name} = {value}: must {what}")


def _check_shape(h, config, where):
    """ValueError for a header ({member: value}) whose ModelConfig is possible, but the image is not."""
    planes  = min(PLANES_MAX, ROW_WEIGHTS_MAX//config.hidden) if h["head_format"] else 0
    hybrid  = h["head_format"] == HEAD_HYBRID
    longest = min(TOPK_MAX, config.vocab) if hybrid else 0
    for name, low, high in (("vocab", 2, VOCAB_MAX), ("context", 1, CONTEXT_MAX), ("add_bos", 0, 1),
        ("ends_count", 0, ENDS_MAX), ("sub_norms", 0, 1), ("body_format", 0, FORMAT_INT8),
        ("row_steps", 0, int(h["body_format"] == FORMAT_TERNARY)), ("head_format", 0, HEAD_HYBRID), ("head_planes", min(1, planes), planes),
        ("shortlist", int(hybrid), longest)):
        _must(low <= h[name] <= high, where, name, h[name], f"lie in {low} … {high}")
    _must(h["bos"] < config.vocab or h["bos"] == NO_TOKEN and not h["add_bos"], where, "bos", h["bos"], f"lie in 0 … {config.vocab - 1}")
    for token in h["ends"][:h["ends_count"]]:
        _must(token < config.vocab, where, "ends", token, f"lie in 0 … {config.vocab - 1}")


def _check_floats(name, values, where):
    """ValueError for steps, scales and epsilons beyond FLOAT_LOW … FLOAT_HIGH; gains and tables may be 0, and negative."""
    size = np.abs(np.asarray(values, np.float32))
    good = size <= FLOAT_HIGH  # No NaN is.
    if name.rsplit("_")[-1] in ("steps", "scale", "eps"):
        good &= np.asarray(values) >= FLOAT_LOW
    else:
        good &= (size == 0) | (size >= ops.TINY)
    if not good.all():
        raise ValueError(f"{where}: {name} holds {np.asarray(values)[~good].flat[0]}: not a number to compute with")


def _check_metadata(data, where):
    try:
        good = isinstance(parse_json(data, where), dict)
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{where}: its metadata are no JSON object")


class _Tensors:
    """Arrays out of an image's bytes, checked. start: where the records end; where: names the image in errors."""
    def __init__(self, data, start, where):
        self.data, self.start, self.where = data, start, where

    def __call__(self, name, offset, dtype, *shape):
        bytes = np.dtype(dtype).itemsize*math.prod(shape)
        if offset % ALIGNMENT or not self.start <= offset <= len(self.data) - bytes:
            raise ValueError(f"{self.where}: damaged ({name} of {bytes} bytes at {offset} does not lie in the image)")
        values = np.frombuffer(self.data, dtype, math.prod(shape), offset).reshape(shape)
        if values.dtype == np.float32:
            _check_floats(name, values, self.where)
        return values

# Write --------------------------------------------------------------------------------------------


class _Body:
    """Tensors placed one after another behind the records."""
    def __init__(self, start, where):
        self.offset, self.pieces, self.where = aligned(start), [], where

    def put(self, data, name=""):
        """Places bytes or an array; returns their offset. ValueError for floats that a reader of the image would refuse."""
        if getattr(data, "dtype", None) == np.float32:
            _check_floats(name, data, self.where)
        data, offset = memoryview(np.ascontiguousarray(np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data)).cast("B"), self.offset
        self.offset  = aligned(offset + len(data))
        if self.offset > LENGTH_MAX:
            raise ValueError(f"{self.where}: an image of {self.offset:,} bytes or more: must have at most {LENGTH_MAX:,}")
        self.pieces += [data, bytes(self.offset - offset - len(data))]
        return offset


def check_model(model):
    """ValueError for scales, steps and gains of a QuantisedModel that a reader of its image would refuse: before anything computes with them."""
    for number, layer in enumerate(model.layers):
        check = lambda name, values: _check_floats(f"layer {number} {name}", values, model.name)
        for name, matrices in GROUPS.items():
            group = getattr(layer, name)
            for matrix, (_, scale) in zip(matrices, group.sections):
                check(f"{matrix}_scale", scale)
            if group.steps is not None:
                check(f"{name}_steps", group.steps)
        for name in model.config.vectors:
            check(name, getattr(layer, name))
    for name in ("final_norm", "embedding_steps"):
        _check_floats(name, getattr(model, name), model.name)


def write_image(model, path):
    """Writes a QuantisedModel; the file appears whole or not at all. Returns its length in bytes."""
    config  = model.config
    header  = np.zeros((), IMAGE_HEADER.dtype)
    records = np.zeros(config.layers, LAYER_RECORD.dtype)
    records_end = IMAGE_HEADER.size + records.nbytes
    body    = _Body(records_end, model.name)
    title   = model.name.encode()[:63].decode(errors="ignore")  # No half character at its end.
    for name in ("hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocab", "context", "sub_norms", "norm_eps", "rope_theta"):
        header[name] = getattr(config, name)
    for name in ATTENTION_LIMITS:
        header[name] = getattr(model.attention, name)
    header["magic"], header["version"], header["body_format"], header["row_steps"] = (MAGIC, VERSION, model.body_format,
        model.row_steps and model.body_format == FORMAT_TERNARY)
    header["activation"] = ACTIVATIONS.index(config.activation)
    header["bos"], header["add_bos"] = NO_TOKEN if model.bos is None else model.bos, model.add_bos
    header["ends_count"], header["ends"][:len(model.ends)] = len(model.ends), model.ends
    header["name"] = title.encode()
    header["cosine"], header["sine"] = body.put(model.cosine, "cosine"), body.put(model.sine, "sine")
    for number, (record, layer) in enumerate(zip(records, model.layers)):
        own = lambda name, data: body.put(data, f"layer {number} {name}")
        for name, matrices in GROUPS.items():
            group = getattr(layer, name)
            record[name] = own(name, group.packed)
            for matrix, (_, scale) in zip(matrices, group.sections or [(0, 1.0)]*len(matrices)):
                _check_floats(f"layer {number} {matrix}_scale", scale, model.name)
                record[f"{matrix}_scale"] = scale
            if group.steps is not None:
                record[f"{name}_steps"] = own(f"{name}_steps", group.steps)
        for name in config.vectors:
            record[name] = own(name, getattr(layer, name))
    header["final_norm"] = body.put(model.final_norm, "final_norm")
    header["embedding"]  = header["head"] = body.put(model.embedding)
    header["embedding_steps"] = header["head_steps"] = body.put(model.embedding_steps, "embedding_steps")
    if not config.tied:
        alone = model.ternary is not None and not model.ternary.shortlist
        header["head"], header["head_steps"] = (0, 0) if alone else (body.put(model.head), body.put(model.head_steps, "head_steps"))
    if model.ternary is not None:
        header["head_format"]   = HEAD_HYBRID if model.ternary.shortlist else HEAD_TERNARY
        header["head_planes"]   = model.ternary.planes
        header["shortlist"]     = model.ternary.shortlist
        header["ternary_head"]  = body.put(model.ternary.packed)
        header["ternary_steps"] = body.put(model.ternary.steps, "ternary_steps")
    for name in ("tokenizer", "metadata"):
        header[name], header[f"{name}_bytes"] = body.put(getattr(model, name)), len(getattr(model, name))
    header["image_bytes"] = body.offset
    _check_shape({name: header[name].tolist() for name in header.dtype.names}, config, model.name)
    _check_floats("norm_eps", config.norm_eps, model.name)
    padding = bytes(aligned(records_end) - records_end)
    crc = zlib.crc32(padding)
    for piece in body.pieces:
        crc = zlib.crc32(piece, crc)
    header["body_crc"]   = crc
    header["header_crc"] = zlib.crc32(records.tobytes(), zlib.crc32(header.tobytes()))
    path      = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as f:
            for piece in (header.tobytes(), records.tobytes(), padding, *body.pieces):
                f.write(piece)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return body.offset

# Read ---------------------------------------------------------------------------------------------


def read_header(data, where="image"):
    """(header, records) of the first bytes of an image, checked; ValueError with one clear line."""
    if len(data) < IMAGE_HEADER.size:
        raise ValueError(f"{where}: {len(data)} bytes are too few for an image (the header alone takes {IMAGE_HEADER.size})")
    header = np.frombuffer(data, IMAGE_HEADER.dtype, 1)[0].copy()
    if header["magic"] != MAGIC:
        raise ValueError(f"{where}: not a LiteTern image (magic {int(header['magic']):#010x}, must be {MAGIC:#010x})")
    if header["version"] != VERSION:
        raise ValueError(f"{where}: image version {header['version']}, this program reads version {VERSION}: pack the checkpoint again")
    end = IMAGE_HEADER.size + int(header["layers"])*LAYER_RECORD.size
    if header["layers"] > LAYERS_MAX or len(data) < end:
        raise ValueError(f"{where}: truncated or damaged ({len(data)} bytes, {header['layers']} layer records expected)")
    records, crc = np.frombuffer(data, LAYER_RECORD.dtype, int(header["layers"]), IMAGE_HEADER.size), header["header_crc"]
    header["header_crc"] = 0
    if zlib.crc32(records.tobytes(), zlib.crc32(header.tobytes())) != crc:
        raise ValueError(f"{where}: damaged header (CRC-32 does not match)")
    header["header_crc"] = crc
    return header, records


def read_file(path, limit=LENGTH_MAX):
    """bytes of a file that begins as an image does, of at most `limit`; of any other, no more than its start is read. ValueError."""
    with File(path, limit) as file:
        start = file.read(0, min(file.size, IMAGE_HEADER.size))
        if start[:4] != MAGIC.to_bytes(4, "little"):
            read_header(start, path)  # Says what it is not.
        return file.read(0, file.size)


def read_image(path):
    """QuantisedModel of an image file, every byte checked; ValueError with one clear line."""
    path = pathlib.Path(path)
    data = read_file(path)
    header, records = read_header(data, path)
    if len(data) != header["image_bytes"]:
        raise ValueError(f"{path}: {len(data)} bytes long, must be {header['image_bytes']} (truncated or damaged)")
    if zlib.crc32(memoryview(data)[IMAGE_HEADER.size + records.nbytes:]) != header["body_crc"]:
        raise ValueError(f"{path}: damaged (CRC-32 of the body does not match)")
    h = {name: header[name].tolist() for name in header.dtype.names}
    _must(h["activation"] < len(ACTIVATIONS), path, "activation", h["activation"], f"be less than {len(ACTIVATIONS)}")
    try:
        config = ModelConfig(**{name: h[name] for name in ("hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocab", "context",
            "norm_eps", "rope_theta")}, activation=ACTIVATIONS[h["activation"]], sub_norms=bool(h["sub_norms"]), tied=h["head"] == h["embedding"])
        attention = AttentionParameters(**{name: h[name] for name in ATTENTION_LIMITS})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _check_shape(h, config, path)
    _check_floats("norm_eps", h["norm_eps"], path)
    take   = _Tensors(data, IMAGE_HEADER.size + records.nbytes, path)
    layers = []
    for number, record in enumerate(records):
        r     = {name: record[name].item() for name in record.dtype.names}
        own   = lambda name, *kind: take(f"layer {number} {name}", r[name], *kind)
        parts = {name: own(name, "<f4", width) for name, width in config.vectors.items()}
        for name, (count, columns) in config.groups.items():
            matrices = GROUPS[name]
            for matrix in matrices:
                _check_floats(f"layer {number} {matrix}_scale", r[f"{matrix}_scale"], path)
            sections    = tuple((config.matrices[matrix][0], record[f"{matrix}_scale"]) for matrix in matrices)
            packed      = own(name, np.uint8, count, row_beats(columns, h["body_format"])*BEAT_BYTES)
            steps       = own(f"{name}_steps", "<f4", count) if h["row_steps"] or h["body_format"] == FORMAT_INT8 else None
            parts[name] = Group(packed, columns, sections if h["body_format"] == FORMAT_TERNARY else (), steps)
        layers.append(Layer(**parts))
    own   = lambda name, *kind: take(name, h[name], *kind)
    table = (config.vocab, config.hidden)
    half  = (config.context, config.head_dim//2)
    text  = {name: own(name, np.uint8, h[f"{name}_bytes"]).tobytes() for name in ("tokenizer", "metadata")}
    _check_metadata(text["metadata"], path)
    head  = (own("head", np.int8, *table), own("head_steps", "<f4", config.vocab)) if h["head_format"] != HEAD_TERNARY or h["head"] else (None, None)
    ternary = None
    if h["head_format"] != HEAD_INT8:
        packed  = own("ternary_head", np.uint8, config.vocab, row_beats(h["head_planes"]*config.hidden)*BEAT_BYTES)
        ternary = TernaryHead(packed, h["head_planes"], own("ternary_steps", "<f4", config.vocab), h["shortlist"])
    return QuantisedModel(config, layers, own("final_norm", "<f4", config.hidden),
        own("embedding", np.int8, *table), own("embedding_steps", "<f4", config.vocab), *head,
        own("cosine", "<f4", *half), own("sine", "<f4", *half), printable(h["name"].decode(errors="replace"), ""),
        None if h["bos"] == NO_TOKEN else h["bos"], bool(h["add_bos"]), tuple(h["ends"][:h["ends_count"]]), **text,
        attention=attention, ternary=ternary)
