#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Packing a checkpoint of bitnet_b1_58-large's size: 0.7 B synthetic floats in shards, through host/pack.py.

Time is the packer's processor time (both cores) and what passed on the clock; memory is the largest that it held, pages of the mapped
shards included.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from litetern.bench.table import Row, parser, show
from litetern.model.calibrate import DEFAULT_TEXT
from litetern.model.formats.head import head_bytes
from litetern.model.importers.huggingface import MATRICES, NORMS, SUB_NORMS
from litetern.model.importers.shards import INDEX
from litetern.model.paths import ROOT

HIDDEN, FFN, LAYERS, HEADS, VOCABULARY, CONTEXT = 1536, 4096, 24, 16, 32002, 2048
SHARD = 6  # Blocks a shard.

MEMORY_MAX, SECONDS_MAX, TOKEN_BYTES_MAX = 4.0, 60.0, 141.3  # GB, s, MiB (body and a ternary head).

# Checkpoint ---------------------------------------------------------------------------------------


def write_checkpoint(folder, layers=LAYERS):
    """Float32 shards with an index, config.json and a byte-level tokenizer.json."""
    rng   = np.random.default_rng(1)
    sizes = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "o": (HIDDEN, HIDDEN), "gate": (FFN, HIDDEN),
        "up": (FFN, HIDDEN), "down": (HIDDEN, FFN), "attn_norm": HIDDEN, "ffn_norm": HIDDEN, "o_norm": HIDDEN, "down_norm": FFN}
    shards, count = {}, -(-layers//SHARD)
    for shard in range(count):
        tensors = {}
        for layer in range(shard*SHARD, min(layers, (shard + 1)*SHARD)):
            for key, name in (MATRICES | NORMS | SUB_NORMS).items():
                drawn = rng.standard_normal(sizes[key], np.float32) if key in MATRICES else np.ones(sizes[key], np.float32)
                tensors[f"model.layers.{layer}.{name}.weight"] = drawn
        if shard == count - 1:
            tensors["model.embed_tokens.weight"] = rng.standard_normal((VOCABULARY, HIDDEN), np.float32)
            tensors["model.norm.weight"]         = np.ones(HIDDEN, np.float32)
        file = f"model-{shard + 1:05}-of-{count:05}.safetensors"
        save_file(tensors, folder/file)
        shards |= dict.fromkeys(tensors, file)
    (folder/INDEX).write_text(json.dumps({"weight_map": shards}))
    (folder/"config.json").write_text(json.dumps({"architectures": ["BitnetForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}))
    # Words of the built-in text are tokens, as they are in a vocabulary of 32,000: calibration sees as many tokens.
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator([DEFAULT_TEXT], trainers.BpeTrainer(vocab_size=1000, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(str(folder/"tokenizer.json"))

# Measure ------------------------------------------------------------------------------------------


def measure(folder):
    """Figures of packing a checkpoint folder: seconds, processor seconds, largest memory in bytes, and the packer's own."""
    start = time.monotonic()
    done  = subprocess.run([sys.executable, str(ROOT/"host"/"pack.py"), str(folder), "-o", str(folder/"m.tern"), "--json"],
        stdout=subprocess.PIPE, text=True, timeout=3600)
    if done.returncode:
        sys.exit(done.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": time.monotonic() - start, "cpu_seconds": used.ru_utime + used.ru_stime, "memory": 1024*used.ru_maxrss,
        **json.loads(done.stdout)}


def main():
    p = parser(__doc__)
    p.add_argument("--layers", type=int, default=LAYERS, help="Decoder blocks (default: all 24).")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"writing {args.layers} layers of floats", file=sys.stderr)
        write_checkpoint(folder, args.layers)
        f = measure(folder)
    show([
        Row("packing, time",                     "s",   SECONDS_MAX,     f["seconds"]),
        Row("packing, processor time of 2 cores", "s",  2*SECONDS_MAX,   f["cpu_seconds"]),
        Row("packing, largest memory",           "GB",  MEMORY_MAX,      f["memory"]/1e9),
        Row("bytes of a token, ternary head",    "MiB", TOKEN_BYTES_MAX, (f["weight_bytes"] + head_bytes(VOCABULARY, HIDDEN, "ternary"))/2**20),
        Row("bytes of a token, int8 head",       "MiB", None,            (f["weight_bytes"] + f["head_bytes"])/2**20),
    ], args.json)


if __name__ == "__main__":
    main()
