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
import os
import pathlib

from host import console
from model import calibrate
from model.image import GROUPS, VERSION, write_image
from model.importers import load_checkpoint
from model.progress import Progress
from model.quantised import quantise_checkpoint
from model.text import read_records
from soc import zynq

ROOT  = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT/"build"/"models"

IMAGE_ROOM  = zynq.DDR_END - zynq.IMAGE_BASE
BUFFERS     = 8 << 20  # Bytes: more than the engine's buffers take beside weights and KV cache.
CONTEXT_MIN = 16       # Positions: a board that holds fewer is of no use.

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
        model.metadata = json.dumps({"calibration": pathlib.Path(source).name, "notes": checkpoint.notes,
            "chat_template": checkpoint.chat_template}).encode()
        progress.show("writing")
        part = output.with_name(f".{output.name}.{os.getpid()}.new")
        try:
            result = report(model, write_image(model, part))
            needed = context or min(CONTEXT_MIN, config.context)
            if result["image_bytes"] > IMAGE_ROOM:
                raise ValueError(f"{checkpoint.name} does not fit: image {console.bytes_text(result['image_bytes'])}; the board has room for "
                    f"{console.bytes_text(IMAGE_ROOM)}")
            if result["context_max"] < needed:
                raise ValueError(f"{checkpoint.name} does not fit: image {console.bytes_text(result['image_bytes'])}, "
                    f"KV cache {console.bytes_text(needed*result['kv_position_bytes'])} for {needed} positions; the largest context is "
                    f"{result['context_max']}")
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
        return result
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
    config   = model.config
    groups   = [getattr(layer, name) for layer in model.layers for name in GROUPS]
    position = 2*config.layers*config.kv_width
    # The firmware takes the larger of two rooms for KV caches: behind the image, or below it.
    room     = max(IMAGE_ROOM - image_bytes, zynq.HANDOVER_BASE - zynq.ARENA_BASE) - BUFFERS
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
        "context_max"       : max(0, min(config.context, room//position)),
        "ternary_weights"   : sum(len(group.packed)*group.columns for group in groups),
        "ternary_bytes"     : sum(group.packed.nbytes for group in groups),
        "head_bytes"        : model.head.nbytes,
        "kv_position_bytes" : position,
        "image_bytes"       : image_bytes,
        "kv_room_bytes"     : room,
    }


def _table(r):
    """Lines of the report for people."""
    size    = console.bytes_text
    weights = r["ternary_bytes"] + r["head_bytes"]
    row     = lambda name, value, text: f"  {name:18}{size(value):>9}   {text}"
    context = r["context_max"]
    at_wall = lambda positions: f"{1e3*(weights + positions*r['kv_position_bytes'])/zynq.DDR_BYTES_PER_SECOND:.3g} ms"
    return [
        f"{r['name']}: {r['layers']} layers of {r['hidden']}, FFN {r['ffn']}, {r['heads']} heads ({r['kv_heads']} KV) of {r['head_dim']}, "
        f"vocabulary {r['vocab']:,}",
        "",
        "read for each token",
        row("ternary weights", r["ternary_bytes"], f"{r['ternary_weights']:,} of {8*r['ternary_bytes']/r['ternary_weights']:.3f} bits"),
        row("int8 head", r["head_bytes"], f"with the weights {at_wall(0)} at the memory wall of {zynq.DDR_BYTES_PER_SECOND/1e9} GB/s"),
        row("KV cache", context*r["kv_position_bytes"], f"at position {context:,}; {at_wall(context)} with the weights"),
        "",
        f"memory of the board ({zynq.DDR_BYTES >> 20} MiB)",
        row("image", r["image_bytes"], "weights, tables, tokenizer"),
        row("KV cache", context*r["kv_position_bytes"], f"{context:,} of {r['context']:,} positions, room for {max(0, r['kv_room_bytes']//r['kv_position_bytes']):,}"),
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
