#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Pack a checkpoint into the image that the board streams.

    python host/pack.py model/zoo/stories -o stories.tern
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from model import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import dataclasses
import hashlib
import json
import pathlib

from host import console
from model import calibrate
from model.image import IMAGE_LIMIT, VERSION, read_image, write_image
from model.importers import load_checkpoint
from model.progress import Progress
from model.quantised import quantise_checkpoint
from model.text import read_records

ROOT  = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT/"build"/"models"

# Pack ---------------------------------------------------------------------------------------------


def _kv_steps(folder, checkpoint, text, progress):
    """(k_steps, v_steps, where they come from): of a text that was given, of the checkpoint's owner, of our default text."""
    stored = pathlib.Path(folder)/calibrate.FILE
    if text is None and stored.exists():
        return *calibrate.read_steps(stored), str(stored)
    show = lambda done, total: progress.show("calibrating the KV cache", done, total)
    return *calibrate.kv_steps(checkpoint, text and read_records(text), progress=show), str(text or "default text")


def pack(folder, output, context=None, calibration=None, progress=None):
    """Packs the checkpoint `folder` into the file `output`; returns the report (see `report`). Raises ValueError.

    context     : positions, at most the checkpoint's own (the default).
    calibration : text file for the steps of the KV cache.
    """
    progress = progress or Progress()
    output   = pathlib.Path(output)
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"{output}: must be a file in a folder that exists")
    try:
        progress.show("reading the checkpoint")
        checkpoint = load_checkpoint(folder)
        config     = checkpoint.config
        if context is not None:
            if not 1 <= context <= config.context:
                raise ValueError(f"context {context}: must lie in 1 … {config.context} (what {checkpoint.name} was trained for)")
            checkpoint.config = dataclasses.replace(config, context=context)
        k_steps, v_steps, source = _kv_steps(folder, checkpoint, calibration, progress)
        progress.show("quantising")
        model          = quantise_checkpoint(checkpoint, k_steps, v_steps)
        model.metadata = json.dumps({"calibration": pathlib.Path(source).name, "notes": checkpoint.notes}).encode()
        progress.show("writing")
        return report(model, write_image(model, output))
    finally:
        progress.end()


def packed(path, progress=None):
    """Image file (Path) of an image or a checkpoint folder; a folder is packed under build/ when it has changed."""
    path = pathlib.Path(path)
    if not path.is_dir():
        if not path.exists():
            raise ValueError(f"{path}: no such image or checkpoint")
        return path
    # Contents would take long to hash for large checkpoints: names, sizes and times, and what packs them.
    key = hashlib.sha256(repr((VERSION, path.resolve())).encode())
    for file in sorted(path.iterdir()):
        key.update(repr((file.name, file.stat().st_size, file.stat().st_mtime_ns)).encode())
    for source in sorted((ROOT/"model").rglob("*.py")):
        key.update(source.read_bytes())
    image = CACHE/f"{path.resolve().name}-{key.hexdigest()[:12]}.tern"
    if not image.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pack(path, image, progress=progress)
    return image

# Report -------------------------------------------------------------------------------------------


def report(model, image_bytes):
    """What a packed model takes: a dict of the figures that the packer prints."""
    config  = model.config
    groups  = [getattr(layer, name) for layer in model.layers for name in ("qkv", "o", "gate_up", "down")]
    return {
        "name"              : model.name,
        "layers"            : config.layers,
        "hidden"            : config.hidden,
        "ffn"               : config.ffn,
        "heads"             : config.heads,
        "kv_heads"          : config.kv_heads,
        "head_dim"          : config.head_dim,
        "vocab"             : config.vocab,
        "context"           : config.context,
        "ternary_weights"   : sum(len(group.packed)*group.columns for group in groups),
        "ternary_bytes"     : sum(group.packed.nbytes for group in groups),
        "head_bytes"        : model.head.nbytes,
        "kv_position_bytes" : 2*config.layers*config.kv_width,
        "kv_bytes"          : 2*config.layers*config.kv_width*config.context,
        "image_bytes"       : image_bytes,
    }


def _table(r):
    """Lines of the report for people."""
    size    = console.bytes_text
    weights = r["ternary_bytes"] + r["head_bytes"]
    return [
        f"{r['name']}: {r['layers']} layers of {r['hidden']}, FFN {r['ffn']}, {r['heads']} heads ({r['kv_heads']} KV) of {r['head_dim']}, "
        f"vocabulary {r['vocab']:,}",
        "",
        f"  {'ternary weights':24}{size(r['ternary_bytes']):>10}   {r['ternary_weights']:,} of {8*r['ternary_bytes']/r['ternary_weights']:.3f} bits",
        f"  {'int8 head':24}{size(r['head_bytes']):>10}",
        f"  {'read for a token':24}{size(weights):>10}   and {size(r['kv_position_bytes'])} of KV cache for each position before it",
        "",
        f"  {'image':24}{size(r['image_bytes']):>10}   of {size(IMAGE_LIMIT)} that the board holds",
        f"  {'KV cache':24}{size(r['kv_bytes']):>10}   for {r['context']:,} positions",
    ]

# Command line -------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description="Pack a checkpoint into the image that the board streams.")
    p.add_argument("checkpoint",                           help="Folder with config.json, *.safetensors and tokenizer.json.")
    p.add_argument("-o", "--output",      required=True,   help="Image to write, for example model.tern.")
    p.add_argument("--context",           type=int,        help="Positions (default: as many as the checkpoint was trained for).")
    p.add_argument("--calibration",                        help="Text file that fixes the steps of the KV cache; not the text that "
                                                                "the model is judged by (default: the checkpoint's own, or a built-in text).")
    p.add_argument("--json",              action="store_true", help="Print the figures as one JSON object.")
    args   = p.parse_args()
    result = pack(args.checkpoint, args.output, args.context, args.calibration)
    if args.json:
        print(json.dumps(result))
    else:
        print("\n".join(_table(result)))


if __name__ == "__main__":
    console.run(main)
