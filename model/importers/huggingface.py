#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hugging Face folders: config.json, *.safetensors (one file or shards), the tokenizer's files.

Families: the 1bitLLM BitNet (latent floats), transformers' BitNet and quantised LLaMA (floats, or uint8 of four weights with a
`weight_scale`), LLaMA with ternary floats (TriLM), LLaMA with any floats (int8 matrices).
"""

import pathlib

import numpy as np

from litetern.model.common.fields import REQUIRED, Fields
from litetern.model.common.files import naming, read_json
from litetern.model.formats.config import ACTIVATIONS, RANGES
from litetern.model.formats.image import LENGTH_MAX
from litetern.model.importers import vocabulary
from litetern.model.importers.assemble import assemble, check_fits, matrix_shapes, model_config
from litetern.model.importers.matrices import check_scale, from_float, from_two_bits, ternary_rows
from litetern.model.importers.shards import Tensors
from litetern.model.numerics import rope

MATRICES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}
NORMS     = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
SUB_NORMS = {"o_norm": "self_attn.inner_attn_ln", "down_norm": "mlp.ffn_layernorm"}          # 1bitLLM
SUB_NORMS_MICROSOFT = {"o_norm": "self_attn.attn_sub_norm", "down_norm": "mlp.ffn_sub_norm"} # transformers' BitNet

LATENT = "BitnetForCausalLM"  # 1bitLLM's own class quantises on every pass.
BITNET = "BitNetForCausalLM"  # transformers' class: floats unless its configuration says otherwise.
LLAMA  = "LlamaForCausalLM"

MODEL_TYPES = {"llama": LLAMA, "bitnet": BITNET}  # Where a configuration names no class; as transformers' AutoModel.

TABLES  = {"embedding": "model.embed_tokens.weight", "head": "lm_head.weight"}
IGNORED = ("rotary_emb.inv_freq",)  # Buffers of old versions that follow from the configuration.

ROPE_TYPES = ("default", "linear", "llama3", "yarn")

# Configuration ------------------------------------------------------------------------------------


def _rope(settings):
    """Fields of what config.json says of RoPE, in its newer or older place; ValueError for kinds that are not known."""
    named = [settings.fields(name) for name in ("rope_scaling", "rope_parameters")]
    rope  = next((fields for fields in named if fields.values), named[1])
    kind  = rope.text("rope_type", rope.text("type", "default"))
    if kind not in ROPE_TYPES:
        raise ValueError(f"config.json asks for RoPE of type {kind!r}: {', '.join(ROPE_TYPES)} are known")
    layers = next((name for name, value in rope.values.items() if isinstance(value, dict)), None)
    if layers:
        raise ValueError(f"config.json: RoPE of its own for layers of kind {layers[:60]!r}: only one for all layers is known")
    part = rope.number("partial_rotary_factor", 0, 1, settings.number("partial_rotary_factor", 0, 1, 1.0))
    if part != 1:
        raise ValueError(f"config.json: RoPE turns {part:g} of each head (partial_rotary_factor): only whole heads are known")
    return rope, kind


def _rope_theta(settings):
    """Base of RoPE."""
    return _rope(settings)[0].number("rope_theta", *RANGES["rope_theta"], settings.number("rope_theta", *RANGES["rope_theta"], 1e4))


def angles_from_json(settings, shape):
    """`litetern.model.numerics.rope.Angles` of a config.json and its `shape_from_json`, as transformers computes them; None for plain ones."""
    fields, kind  = _rope(settings)
    if kind == "default":
        return None
    theta, width  = shape["rope_theta"], shape["head_dim"]
    whole         = lambda fields, default: fields.whole("original_max_position_embeddings", *RANGES["context"], default)
    original      = whole(settings, whole(fields, shape["context"]))
    if kind == "yarn" and "factor" not in fields:
        factor = shape["context"]/original
    else:
        factor = fields.number("factor", *rope.FACTORS)
    if kind == "linear":
        return rope.linear(theta, width, factor)
    if kind == "llama3":
        low, high = (fields.number(f"{name}_freq_factor", *rope.ROTATIONS) for name in ("low", "high"))
        return rope.llama3(theta, width, factor, low, high, original)
    scales = [fields.number(name, 0, 100, 0) for name in ("mscale", "mscale_all_dim")]
    gain   = rope.yarn_gain(factor, scales[0])/rope.yarn_gain(factor, scales[1]) if all(scales) else rope.yarn_gain(factor)
    return rope.yarn(theta, width, factor, original, fields.number("attention_factor", *rope.GAINS, gain),
        fields.number("beta_fast", *rope.ROTATIONS, rope.BETA_FAST), fields.number("beta_slow", *rope.ROTATIONS, rope.BETA_SLOW),
        fields.flag("truncate", True))


def shape_from_json(settings, sub_norms, tied):
    """Fields of ModelConfig (ffn as stated) of the `Fields` of a config.json in the LLaMA / BitNet layout."""
    for name in ("attention_bias", "mlp_bias"):
        if settings.flag(name, False):
            raise ValueError(f"config.json has {name}: matrices with a bias are not known")
    whole  = lambda name, field, default=REQUIRED: settings.whole(name, *RANGES[field], default)
    hidden = whole("hidden_size", "hidden")
    heads  = whole("num_attention_heads", "heads")
    return dict(
        hidden     = hidden,
        ffn        = whole("intermediate_size", "ffn"),
        layers     = whole("num_hidden_layers", "layers"),
        heads      = heads,
        kv_heads   = whole("num_key_value_heads", "kv_heads", heads),
        head_dim   = whole("head_dim", "head_dim", max(hidden//heads, 1)),
        vocab      = whole("vocab_size", "vocab"),
        context    = whole("max_position_embeddings", "context"),
        norm_eps   = settings.number("rms_norm_eps", *RANGES["norm_eps"], 1e-5),
        rope_theta = _rope_theta(settings),
        activation = settings.choice("hidden_act", ACTIVATIONS, "silu"),
        sub_norms  = sub_norms,
        tied       = tied,
    )


class Quantisation:
    """What `quantization_config` says: method None (floats), "latent" (floats, absmean on every pass) or "packed".

    multiplies: whether a weight is trit × weight_scale; trit / weight_scale otherwise.
    """
    def __init__(self, architecture, settings):
        stated = settings.fields("quantization_config")
        method = stated.text("quant_method", "bitnet")
        if method != "bitnet":
            raise ValueError(f"config.json: quantised by {method!r}, of such methods only 'bitnet' is known")
        if stated.flag("use_rms_norm", False):
            raise ValueError("config.json: use_rms_norm puts a norm before each matrix, which is not known")
        offline         = stated.choice("quantization_mode", ("offline", "online"), "offline") == "offline"
        automatic       = stated.choice("linear_class", ("bitlinear", "autobitlinear"), "bitlinear") == "autobitlinear"
        self.multiplies = automatic and offline
        self.method     = "latent" if architecture == LATENT or automatic and not offline else "packed" if stated.values else None

# Import -------------------------------------------------------------------------------------------


class _Reader:
    """Reader of `litetern.model.importers.assemble` over a folder; decides the rule for float matrices."""
    def __init__(self, tensors, shape, quantisation, rule):
        self.tensors, self.quantisation = tensors, quantisation
        microsoft  = "model.layers.0.self_attn.attn_sub_norm.weight" in tensors
        self.gains = NORMS | (SUB_NORMS_MICROSOFT if microsoft else SUB_NORMS)
        self.rule  = "trits"
        if quantisation.method == "latent":
            self.rule = "absmean"
        elif quantisation.method is None:
            # The first matrix tells ternary floats from any others.
            first = self._name(0, MATRICES["q"])
            if ternary_rows(tensors.read(first, matrix_shapes(shape)["q"])) is None:
                self.rule = rule

    @staticmethod
    def _name(layer, name):
        return f"model.layers.{layer}.{name}.weight"

    def matrix(self, layer, key, shape):
        name = self._name(layer, MATRICES[key])
        if f"{name}_scale" not in self.tensors:
            return from_float(self.tensors.read(name, shape), self.rule, name)
        scale = check_scale(self.tensors.raw(f"{name}_scale", self.tensors.shape(f"{name}_scale")), name)
        scale = scale if self.quantisation.multiplies else np.float32(1)/scale
        if self.tensors.kind(name) == "U8":  # Four weights a byte.
            return from_two_bits(self.tensors.raw(name, (-(-shape[0]//4), shape[1])), shape[0], name), scale
        trits, size = from_float(self.tensors.read(name, shape), "trits", name)
        return trits, scale*size

    def gain(self, layer, key, width):
        return self.tensors.read(self._name(layer, self.gains[key]), (width,))

    def final_norm(self, width):
        return self.tensors.read("model.norm.weight", (width,))

    def table(self, key, shape):
        return self.tensors.read(TABLES[key], shape)


def folder_name(folder):
    """Name of the model in a folder; in the cache of a hub, which calls folders by their commits, the repository's."""
    folder = pathlib.Path(folder).resolve()
    cached = folder.parent.parent.name
    return cached.rsplit("--", 1)[-1] if folder.parent.name == "snapshots" and cached.startswith("models--") else folder.name


def _configuration(settings, tied):
    """(architecture, Quantisation, shape) of a config.json; `tied` where it does not say whether the head is the embedding."""
    kind         = settings.text("model_type", "")
    architecture = next(iter(settings.texts("architectures")), MODEL_TYPES.get(kind))
    if architecture not in (LATENT, BITNET, LLAMA):
        raise ValueError(f"architecture {architecture or kind or None} is not known ({LATENT}, {BITNET} and {LLAMA} are)")
    quantisation = Quantisation(architecture, settings)
    return architecture, quantisation, shape_from_json(settings, architecture != LLAMA, settings.flag("tie_word_embeddings", tied))


def check_configuration(folder, limit=LENGTH_MAX):
    """ValueError for what is refused by config.json alone: an architecture that is not known, a shape that no image of `limit` bytes holds."""
    try:
        _, _, shape = _configuration(Fields(read_json(pathlib.Path(folder)/"config.json"), "config.json"), True)
        check_fits(shape, "ternary", folder_name(folder), limit)
        model_config(shape)
    except ValueError as error:
        raise naming(folder_name(folder), error) from error


def load_huggingface(folder, progress=None, rule="int8", limit=LENGTH_MAX):
    """Checkpoint of a folder. rule: of matrices that hold any floats (`matrices`). Raises ValueError with one clear line."""
    folder       = pathlib.Path(folder)
    settings     = Fields(read_json(folder/"config.json"), "config.json")
    try:
        _configuration(settings, True)  # Refused before a file of weights is opened.
        tensors      = Tensors(folder)
        architecture, quantisation, shape = _configuration(settings, TABLES["head"] not in tensors)
        check_fits(shape, "ternary", folder_name(folder), limit)  # At the least; nothing is read of what is too large.
        model_config(shape)
        texts        = vocabulary.from_folder(folder)
        vocabulary.check_size(texts["tokenizer"], shape["vocab"])
        marks        = vocabulary.marks(folder, settings, shape["vocab"], **texts)
        reader       = _Reader(tensors, shape, quantisation, rule)
        checkpoint   = assemble(reader, shape, rule if reader.rule == rule else "ternary", progress, limit,
            **texts, **marks,
            name   = folder_name(folder),
            angles = angles_from_json(settings, shape),
            quantised_activations = quantisation.method is not None)
    except ValueError as error:
        raise naming(folder, error) from error
    unknown = sorted(name for name in tensors.unread if name not in TABLES.values() and not name.endswith(IGNORED))
    if unknown:
        raise naming(folder, f"tensor {unknown[0]} has no place in a {architecture} ({len(unknown)} such tensors)")
    return checkpoint
