#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A checkpoint folder of random weights, small enough for a test to make: shaped like bitnet_b1_58-large, byte-level tokenizer."""

import json
import pathlib

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from litetern.model.importers.huggingface import LLAMA, MATRICES, NORMS, SUB_NORMS

SHAPE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "vocab_size": 320, "max_position_embeddings": 64}
TEXT  = ["Once upon a time there was a girl and a dog. They played all day, and the dog ran fast."]*4


def tokenizer(vocab):
    """Byte-level BPE: every character can be spelled, most of them by several tokens. Token 0 is <|endoftext|>."""
    result = Tokenizer(models.BPE())
    result.pre_tokenizer, result.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    result.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=vocab, show_progress=False,
        special_tokens=[AddedToken("<|endoftext|>", special=True)], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return result


def write_checkpoint(folder, seed=1, **shape):
    """Writes config.json, model.safetensors and tokenizer.json; `shape` replaces keys of `SHAPE`. Returns the folder.

    architectures=["LlamaForCausalLM"]: floats without sub-norms, which become int8.
    """
    folder, shape = pathlib.Path(folder), SHAPE | shape
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    hidden, ffn = shape["hidden_size"], shape["intermediate_size"]
    head_dim    = hidden//shape["num_attention_heads"]
    kv          = shape["num_key_value_heads"]*head_dim
    sizes       = {"q": (hidden, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, hidden), "gate": (ffn, hidden),
        "up": (ffn, hidden), "down": (hidden, ffn), "attn_norm": (hidden,), "ffn_norm": (hidden,), "o_norm": (hidden,), "down_norm": (ffn,)}
    tensors = {"model.embed_tokens.weight": random.normal(0, 1, (shape["vocab_size"], hidden)), "model.norm.weight": np.ones(hidden)}
    names = MATRICES | NORMS | ({} if shape.get("architectures") == [LLAMA] else SUB_NORMS)
    for layer in range(shape["num_hidden_layers"]):
        for key, name in names.items():
            drawn = random.normal(0, 0.5, sizes[key]) if key in MATRICES else random.uniform(0.5, 1.5, sizes[key])
            tensors[f"model.layers.{layer}.{name}.weight"] = drawn
    save_file({name: tensor.astype(np.float32) for name, tensor in tensors.items()}, folder/"model.safetensors")
    (folder/"config.json").write_text(json.dumps({"architectures": ["BitnetForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, **shape}))
    tokenizer(shape["vocab_size"]).save(str(folder/"tokenizer.json"))
    return folder
