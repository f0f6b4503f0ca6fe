#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hugging Face folders: config.json, *.safetensors (one file or shards), tokenizer.json."""

import json
import pathlib

import numpy as np
from safetensors import SafetensorError, safe_open

from model.checkpoint import Checkpoint
from model.config import ModelConfig
from model.quantised import absmean_ternary

MATRICES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}
NORMS     = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
SUB_NORMS = {"o_norm": "self_attn.inner_attn_ln", "down_norm": "mlp.ffn_layernorm"}

# Files --------------------------------------------------------------------------------------------


def read_json(path):
    """Parsed JSON object of a file; ValueError naming the file otherwise."""
    try:
        value = json.loads(pathlib.Path(path).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds a {type(value).__name__}, must be a JSON object")
    return value


class Tensors:
    """Named tensors of the *.safetensors files of a folder, each read when asked for."""
    def __init__(self, folder):
        self.files = {}
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise ValueError(f"{folder}: no *.safetensors file (pickled checkpoints are never loaded)")
        for path in paths:
            try:
                with safe_open(path, framework="numpy") as f:
                    self.files.update({name: path for name in f.keys()})
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{path}: damaged safetensors file ({error})") from None

    def read(self, name, shape):
        """float32 array; ValueError where it is missing, of another shape or not finite."""
        if name not in self.files:
            raise ValueError(f"tensor {name} is missing (must be float {list(shape)})")
        with safe_open(self.files[name], framework="numpy") as f:
            tensor = f.get_tensor(name)
        if tensor.shape != tuple(shape):
            raise ValueError(f"tensor {name} is {list(tensor.shape)}: must be {list(shape)}")
        tensor = tensor.astype(np.float32)
        if not np.isfinite(tensor).all():
            raise ValueError(f"tensor {name} holds infinite values or NaN")
        return tensor

# Import -------------------------------------------------------------------------------------------


def config_from_json(settings):
    """ModelConfig of a config.json in the LLaMA / BitNet layout."""
    try:
        hidden, heads = settings["hidden_size"], settings["num_attention_heads"]
        return ModelConfig(
            hidden     = hidden,
            ffn        = settings["intermediate_size"],
            layers     = settings["num_hidden_layers"],
            heads      = heads,
            kv_heads   = settings.get("num_key_value_heads") or heads,
            head_dim   = settings.get("head_dim") or hidden//heads,
            vocab      = settings["vocab_size"],
            context    = settings["max_position_embeddings"],
            norm_eps   = settings.get("rms_norm_eps", 1e-5),
            rope_theta = settings.get("rope_theta", 1e4),
            activation = settings.get("hidden_act", "silu"),
            sub_norms  = True,
            tied       = settings.get("tie_word_embeddings", True),
        )
    except KeyError as missing:
        raise ValueError(f"config.json has no {missing.args[0]!r}") from None


def load_huggingface(folder):
    """Checkpoint of a folder with float weights of the 1bitLLM/bitnet_b1_58 family (absmean per tensor)."""
    folder   = pathlib.Path(folder)
    settings = read_json(folder/"config.json")
    if "BitnetForCausalLM" not in settings.get("architectures", ()):
        raise ValueError(f"{folder}: architecture {settings.get('architectures')} is not known (BitnetForCausalLM is)")
    config, tensors = config_from_json(settings), Tensors(folder)
    shapes = {
        "q": (config.q_width, config.hidden), "k": (config.kv_width, config.hidden), "v": (config.kv_width, config.hidden),
        "o": (config.hidden, config.q_width), "gate": (config.ffn, config.hidden), "up": (config.ffn, config.hidden),
        "down": (config.hidden, config.ffn), "attn_norm": (config.hidden,), "ffn_norm": (config.hidden,),
        "o_norm": (config.q_width,), "down_norm": (config.ffn,),
    }
    layers = []
    for index in range(config.layers):
        prefix = f"model.layers.{index}."
        layer  = {key: absmean_ternary(tensors.read(f"{prefix}{name}.weight", shapes[key])) for key, name in MATRICES.items()}
        layer |= {key: tensors.read(f"{prefix}{name}.weight", shapes[key]) for key, name in (NORMS | SUB_NORMS).items()}
        layers.append(layer)
    table     = (config.vocab, config.hidden)
    tokenizer = folder/"tokenizer.json"
    return Checkpoint(config, layers,
        final_norm = tensors.read("model.norm.weight", (config.hidden,)),
        embedding  = tensors.read("model.embed_tokens.weight", table),
        head       = None if config.tied else tensors.read("lm_head.weight", table),
        tokenizer  = tokenizer.read_bytes() if tokenizer.exists() else b"",
        name       = folder.resolve().name,
        bos        = settings.get("bos_token_id") or 0,
        eos        = settings.get("eos_token_id") or 0)
