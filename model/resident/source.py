#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a resident model is made from: integer weights with float scales, of a folder that `model/train.py` wrote or of any checkpoint."""

import pathlib

from dataclasses import dataclass

import numpy as np

from litetern.model.common.fields import Fields, is_number
from litetern.model.common.files import TOKENIZER_LIMIT, naming, read_bytes, read_json
from litetern.model.formats.checkpoint import Checkpoint
from litetern.model.formats.config import ModelConfig
from litetern.model.formats.planes import PLANES_MAX, SCALE_MIN, rows_by_planes
from litetern.model.importers.huggingface import MATRICES, NORMS as NORM_NAMES, SUB_NORMS
from litetern.model.importers.shards import Tensors
from litetern.model.numerics.quantised import absmean_ternary
from litetern.model.resident.activation import ACTIVATIONS
from litetern.model.resident.config import EPS, POSITIONS, VOCAB_MAX, WIDTH_MAX, WINDOW_MAX, ResidentConfig
from litetern.model.resident.matrix import FORMATS, PLANES
from litetern.model.resident.quantise import NORMS

WEIGHTS = ("ternary", "int4", "int8")  # Formats of the blocks.
LIMITS  = (1e-4, 1e6)                  # Of the values of q, K and V that become 127.


@dataclass
class Source:
    """A model before its numbers become fixed point.

    layers    : per block a dict: "q", "k", "v", "o", "gate" (gated only), "up", "down" → (int8 [rows, columns], float scale or
                float64 [rows]); "attn_norm", "ffn_norm" and, with sub-norms, "o_norm", "down_norm" → float32 gains.
    weights   : format of the blocks, of matrix.FORMATS.
    embedding : (int8 [vocab, hidden], float64 [vocab] scales), of the head as well; embedding_format of FORMATS.
    positions : None, or (int8 [window, hidden], float scale).
    limits    : None, or {"q": float [layers, heads], "k", "v": [layers, kv_heads]}: the values that become 127.
    """
    config           : ResidentConfig
    layers           : list
    final_norm       : np.ndarray
    embedding        : tuple
    embedding_format : str
    weights          : str   = "ternary"
    positions        : tuple = None
    limits           : dict  = None
    tokenizer        : bytes = b""
    name             : str   = ""
    bos              : int   = 0
    ends             : tuple = (0,)

# Quantisers ---------------------------------------------------------------------------------------


def rows_by_absmax(weights, levels):
    """(int8 [rows, columns], float64 [rows]) of floats, symmetric, each row by its largest."""
    scale = np.maximum(np.abs(weights).max(axis=1).astype(np.float32), np.float32(SCALE_MIN))/np.float32(levels)
    return np.clip(np.rint(weights/scale[:, None]), -levels, levels).astype(np.int8), scale.astype(np.float64)


def quantise_weights(weights, format):
    """(int8 weights, scale) of float [rows, columns] by the rule that `model/train.py` trains with."""
    if format == "ternary":
        integers, scale = absmean_ternary(weights)
        return integers, float(scale)
    if format in PLANES:
        return rows_by_planes(weights, PLANES[format])
    return rows_by_absmax(weights, FORMATS[format])

# Folder -------------------------------------------------------------------------------------------

EMBEDDINGS = ("int8", *PLANES)  # Formats of an embedding of 0, 1, 2, 3 planes.


def _limits(fields, config):
    """Source.limits of the fields of "resident"."""
    result = {}
    for name, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads)):
        good = lambda rows: isinstance(rows, list) and len(rows) == config.layers and all(isinstance(row, list) and
            len(row) == heads and all(is_number(value, *LIMITS) for value in row) for row in rows)
        must = f"{config.layers} lists of {heads} numbers between {LIMITS[0]:g} and {LIMITS[1]:g}"
        result[name] = np.array(fields.value(name, good, must), np.float64)
    return result


def load(folder):
    """Source of a folder with config.json, model.safetensors and tokenizer.json. Raises ValueError in one line that names it."""
    folder = pathlib.Path(folder)
    fields = Fields(read_json(folder/"config.json"), "config.json")
    try:
        resident = fields.fields("resident")
        if not resident.values:
            raise ValueError("config.json holds no model for the resident path (key resident): train one with --path resident")
        size   = lambda name, high: fields.whole(name, 1, high)
        config = ResidentConfig(
            hidden     = size("hidden_size", WIDTH_MAX),
            ffn        = size("intermediate_size", WIDTH_MAX),
            layers     = size("num_hidden_layers", 255),
            heads      = size("num_attention_heads", 255),
            kv_heads   = size("num_key_value_heads", 255),
            head_dim   = size("head_dim", 256),
            vocab      = size("vocab_size", VOCAB_MAX),
            window     = size("max_position_embeddings", WINDOW_MAX),
            gated      = resident.flag("gated"),
            activation = fields.choice("hidden_act", ACTIVATIONS),
            norm       = resident.choice("norm", NORMS[1:]),
            positions  = resident.choice("positions", POSITIONS),
            sub_norms  = resident.flag("sub_norms"),
            norm_eps   = fields.number("rms_norm_eps", *EPS),
            rope_theta = fields.number("rope_theta", 1, 1e9),
        )
        source = _read(Tensors(folder), config, resident.choice("weights", WEIGHTS),
            EMBEDDINGS[resident.whole("embedding_planes", 0, PLANES_MAX)])
        source.limits    = _limits(resident.fields("limits"), config)
        source.tokenizer = read_bytes(folder/"tokenizer.json", TOKENIZER_LIMIT)
        source.name      = folder.resolve().name
        source.bos       = fields.whole("bos_token_id", 0, config.vocab - 1, 0)
        source.ends      = tuple(fields.wholes("eos_token_id", 0, config.vocab - 1, [0]))
    except ValueError as error:
        raise naming(folder, error) from None
    return source


def _read(tensors, config, weights, embedding_format):
    h, f, q, kv = config.hidden, config.ffn, config.q_width, config.kv_width
    shapes = {"q": (q, h), "k": (kv, h), "v": (kv, h), "o": (h, q), "gate": (f, h), "up": (f, h), "down": (h, f),
        "attn_norm": (h,), "ffn_norm": (h,), "o_norm": (q,), "down_norm": (f,)}
    names  = {**MATRICES, **NORM_NAMES, **(SUB_NORMS if config.sub_norms else {})}
    if not config.gated:
        del names["gate"]
    layers = []
    for index in range(config.layers):
        layer = {key: tensors.read(f"model.layers.{index}.{name}.weight", shapes[key]) for key, name in names.items()}
        layers.append({key: quantise_weights(value, weights) if key in MATRICES else value for key, value in layer.items()})
    positions = None
    if config.positions == "learned":
        table     = tensors.read("model.embed_positions.weight", (config.window, h))
        step      = np.maximum(np.abs(table).max(), np.float32(SCALE_MIN))/np.float32(127)
        positions = (np.rint(table/step).astype(np.int8), float(step))
    embedding = quantise_weights(tensors.read("model.embed_tokens.weight", (config.vocab, h)), embedding_format)
    source    = Source(config, layers, tensors.read("model.norm.weight", (h,)), embedding, embedding_format, weights, positions)
    if tensors.unread:
        raise ValueError(f"tensor {sorted(tensors.unread)[0]} has no place in this model ({len(tensors.unread)} such tensors)")
    return source

# Streamed path ------------------------------------------------------------------------------------


def to_checkpoint(source):
    """The same model as a `litetern.model.formats.checkpoint.Checkpoint`, for the streamed path. ValueError where that does not know the family."""
    c = source.config
    if (c.gated, c.norm, c.positions, source.weights) != (True, "rms", "rope", "ternary"):
        raise ValueError(f"{source.name}: the streamed path has ternary models with RMSNorm, RoPE and a gated FFN only")
    config = ModelConfig(c.hidden, c.ffn, c.layers, c.heads, c.kv_heads, c.head_dim, c.vocab, c.window, c.norm_eps, c.rope_theta,
        c.activation, c.sub_norms, tied=True)
    weights, scale = source.embedding
    layers = [{key: (value[0], np.float32(value[1])) if isinstance(value, tuple) else value for key, value in layer.items()}
        for layer in source.layers]
    return Checkpoint(config, layers, source.final_norm, weights*np.asarray(scale, np.float32)[:, None], tokenizer=source.tokenizer,
        name=source.name, bos=source.bos, ends=source.ends)
