#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hugging Face folders: config.json, *.safetensors (one file or shards), the tokenizer's files.

Families: the 1bitLLM BitNet (latent floats), transformers' BitNet and quantised LLaMA (floats, or uint8 of four weights with a
`weight_scale`), LLaMA with ternary floats (TriLM), LLaMA with any floats (int8 matrices).
"""

import json
import pathlib

import numpy as np
from safetensors import SafetensorError, safe_open

from model.importers import vocabulary
from model.importers.assemble import assemble, check_numbers, matrix_shapes
from model.importers.matrices import check_scale, exact_ternary, from_float, from_two_bits

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

TABLES  = {"embedding": "model.embed_tokens.weight", "head": "lm_head.weight"}
IGNORED = ("rotary_emb.inv_freq",)  # Buffers of old versions that follow from the configuration.
INDEX   = "model.safetensors.index.json"
KINDS   = ("F64", "F32", "F16", "BF16", "U8", "I8", "I32", "I64")  # The last two are refused where floats must stand.
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

# Files --------------------------------------------------------------------------------------------


def read_json(path):
    """Parsed JSON object of a file; ValueError naming the file otherwise."""
    try:
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds a {type(value).__name__}, must be a JSON object")
    return value


class Tensors:
    """Named tensors of the *.safetensors files of a folder, each read when asked for. `unread` are those nobody asked for."""
    def __init__(self, folder):
        self.files = {}
        for path in self._paths(folder):
            try:
                with safe_open(path, framework="numpy") as f:
                    self.files.update({name: path for name in f.keys()})
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{path}: damaged safetensors file ({error})") from None
        for name, file in self.index.items():
            if self.files.get(name) != folder/file:
                raise ValueError(f"{folder/INDEX}: tensor {name} is not in {file}")
        self.unread = set(self.files)

    def _paths(self, folder):
        self.index = {}
        if (folder/INDEX).exists():
            self.index = read_json(folder/INDEX).get("weight_map", {})
            names = sorted(set(self.index.values())) if isinstance(self.index, dict) else []
            if not names or not all(isinstance(name, str) and pathlib.PurePath(name).name == name for name in names):
                raise ValueError(f"{folder/INDEX}: has no weight_map from tensors to file names")
            missing = [name for name in names if not (folder/name).is_file()]
            if missing:
                raise ValueError(f"{folder}: {missing[0]} is missing ({len(missing)} of {len(names)} shards are)")
            return [folder/name for name in names]
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
            raise ValueError(f"{folder}: no *.safetensors file" + (f" ({pickled[0]} is pickled: such files can run any code and "
                "are never loaded; save the model as safetensors)" if pickled else ""))
        return paths

    def __contains__(self, name):
        return name in self.files

    def raw(self, name, shape):
        """Array as stored (bfloat16 as float32); ValueError where it is missing or of another shape."""
        if name not in self.files:
            raise ValueError(f"tensor {name} is missing (must be {list(shape)})")
        with safe_open(self.files[name], framework="numpy") as f:
            if tuple(f.get_slice(name).get_shape()) != tuple(shape):
                raise ValueError(f"tensor {name} is {list(f.get_slice(name).get_shape())}: must be {list(shape)}")
            kind = f.get_slice(name).get_dtype()
            if kind not in KINDS:
                raise ValueError(f"tensor {name} is of type {kind}: must be one of {', '.join(KINDS)}")
            if kind == "BF16":
                _need_bfloat16()
                # The high half of a float32.
                tensor = (f.get_tensor(name).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                tensor = f.get_tensor(name)
        self.unread.discard(name)
        return tensor

    def read(self, name, shape):
        """float32 array; ValueError also where it is no float or not finite."""
        tensor = self.raw(name, shape)
        if tensor.dtype.kind != "f":
            raise ValueError(f"tensor {name} is {tensor.dtype}: must be floats")
        tensor = tensor.astype(np.float32, copy=False)
        # The sum shows infinities and NaN without another array of the size.
        if not np.isfinite(np.sum(tensor, dtype=np.float64)):
            raise ValueError(f"tensor {name} holds infinite values or NaN")
        return tensor

    def is_packed(self, name):
        """Whether a tensor is uint8, four weights a byte."""
        with safe_open(self.files[name], framework="numpy") as f:
            return f.get_slice(name).get_dtype() == "U8"


def _need_bfloat16():
    try:
        import ml_dtypes  # noqa: F401 (teaches numpy the type)
    except ImportError:
        raise ValueError("bfloat16 weights need the package ml_dtypes: run `make setup EXTRAS=convert`") from None

# Configuration ------------------------------------------------------------------------------------


def _rope_theta(settings):
    """Base of plain RoPE; ValueError for scaled variants."""
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind != "default" and not (kind == "linear" and rope.get("factor") == 1):
        raise ValueError(f"config.json asks for RoPE of type {kind!r}: only the plain one is known")
    return float(rope.get("rope_theta") or settings.get("rope_theta") or 1e4)


def shape_from_json(settings, sub_norms, tied):
    """Fields of ModelConfig (ffn as stated) of a config.json in the LLaMA / BitNet layout."""
    for name in ("attention_bias", "mlp_bias"):
        if settings.get(name):
            raise ValueError(f"config.json has {name}: matrices with a bias are not known")
    try:
        hidden, heads = settings["hidden_size"], settings["num_attention_heads"]
        return dict(
            hidden     = hidden,
            ffn        = settings["intermediate_size"],
            layers     = settings["num_hidden_layers"],
            heads      = heads,
            kv_heads   = settings.get("num_key_value_heads") or heads,
            head_dim   = settings.get("head_dim") or hidden//heads,
            vocab      = settings["vocab_size"],
            context    = settings["max_position_embeddings"],
            norm_eps   = settings.get("rms_norm_eps", 1e-5),
            rope_theta = _rope_theta(settings),
            activation = settings.get("hidden_act", "silu"),
            sub_norms  = sub_norms,
            tied       = tied,
        )
    except KeyError as missing:
        raise ValueError(f"config.json has no {missing.args[0]!r}") from None
    except (TypeError, ZeroDivisionError, AttributeError) as error:
        raise ValueError(f"config.json holds no shape of a model ({error})") from None


class Quantisation:
    """What `quantization_config` says: method None (floats), "latent" (floats, absmean on every pass) or "packed".

    multiplies: whether a weight is trit × weight_scale; trit / weight_scale otherwise.
    """
    def __init__(self, architecture, settings):
        stated = settings.get("quantization_config") or {}
        method = stated.get("quant_method", "bitnet" if stated else None)
        if method not in (None, "bitnet"):
            raise ValueError(f"config.json: quantised by {method!r}, of such methods only 'bitnet' is known")
        if stated.get("use_rms_norm"):
            raise ValueError("config.json: use_rms_norm puts a norm before each matrix, which is not known")
        offline         = stated.get("quantization_mode", "offline") == "offline"
        automatic       = stated.get("linear_class") == "autobitlinear"
        self.multiplies = automatic and offline
        self.method     = "latent" if architecture == LATENT or automatic and not offline else "packed" if stated else None

# Import -------------------------------------------------------------------------------------------


class _Reader:
    """Reader of `model.importers.assemble` over a folder; decides the rule for float matrices."""
    def __init__(self, tensors, shape, quantisation):
        self.tensors, self.quantisation = tensors, quantisation
        microsoft  = "model.layers.0.self_attn.attn_sub_norm.weight" in tensors
        self.gains = NORMS | (SUB_NORMS_MICROSOFT if microsoft else SUB_NORMS)
        self.rule  = "trits"
        if quantisation.method == "latent":
            self.rule = "absmean"
        elif quantisation.method is None:
            # The first matrix tells ternary floats from any others.
            first = self._name(0, MATRICES["q"])
            if exact_ternary(tensors.read(first, matrix_shapes(shape)["q"])) is None:
                self.rule = "int8"

    @staticmethod
    def _name(layer, name):
        return f"model.layers.{layer}.{name}.weight"

    def matrix(self, layer, key, shape):
        name = self._name(layer, MATRICES[key])
        if f"{name}_scale" not in self.tensors:
            return from_float(self.tensors.read(name, shape), self.rule, name)
        scale = check_scale(self.tensors.raw(f"{name}_scale", self._scale_shape(name)), name)
        scale = scale if self.quantisation.multiplies else np.float32(1)/scale
        if self.tensors.is_packed(name):
            return from_two_bits(self.tensors.raw(name, (-(-shape[0]//4), shape[1])), shape[0], name), scale
        trits, size = from_float(self.tensors.read(name, shape), "trits", name)
        return trits, scale*size

    def _scale_shape(self, name):
        with safe_open(self.tensors.files[f"{name}_scale"], framework="numpy") as f:
            return f.get_slice(f"{name}_scale").get_shape()

    def gain(self, layer, key, width):
        return self.tensors.read(self._name(layer, self.gains[key]), (width,))

    def final_norm(self, width):
        return self.tensors.read("model.norm.weight", (width,))

    def table(self, key, shape):
        return self.tensors.read(TABLES[key], shape)


def token_id(value, default=0):
    """First of a token id, a list of them, or nothing."""
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, int) else default


def load_huggingface(folder, progress=None):
    """Checkpoint of a folder. Raises ValueError with one clear line."""
    folder       = pathlib.Path(folder)
    settings     = read_json(folder/"config.json")
    architecture = next(iter(settings.get("architectures") or []), None)
    if architecture not in (LATENT, BITNET, LLAMA):
        raise ValueError(f"{folder}: architecture {architecture} is not known ({LATENT}, {BITNET} and {LLAMA} are)")
    try:
        quantisation = Quantisation(architecture, settings)
        tensors      = Tensors(folder)
        tied         = settings.get("tie_word_embeddings", TABLES["head"] not in tensors)
        shape        = shape_from_json(settings, architecture != LLAMA, bool(tied))
        check_numbers(shape)
        reader       = _Reader(tensors, shape, quantisation)
        eos          = token_id(settings.get("eos_token_id"))
        checkpoint   = assemble(reader, shape, "int8" if reader.rule == "int8" else "ternary", progress,
            **vocabulary.from_folder(folder),
            name = folder.resolve().name,
            bos  = token_id(settings.get("bos_token_id"), eos),
            eos  = eos,
            quantised_activations = quantisation.method is not None)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(folder)) else f"{folder}: {error}") from error
    unknown = sorted(name for name in tensors.unread if name not in TABLES.values() and not name.endswith(IGNORED))
    if unknown:
        raise ValueError(f"{folder}: tensor {unknown[0]} has no place in a {architecture} ({len(unknown)} such tensors)")
    return checkpoint
