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
import subprocess
import sys

from host import console, plan
from model import calibrate
from model.head import HEADS, head_shape, with_head
from model.image import VERSION, write_image
from model.importers import load_checkpoint
from model.importers.assemble import TooLarge
from model.perplexity import load_text, perplexity_heads
from model.printable import printable
from model.progress import Progress
from model.quantised import quantise_checkpoint
from model.text import read_records

ROOT  = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT/"build"/"models"

FILES        = (".gguf", ".bin")  # Checkpoints that are one file.
TEXT_TOKENS  = 4096               # Of a text that heads are compared on.
FORMATS_SECONDS = 1200            # Time-out of the table of formats.

# Pack ---------------------------------------------------------------------------------------------


def _check_output(output, path, *texts):
    """ValueError where the file `output` cannot be written, or is one that is read: the checkpoint, a file of its folder, a text."""
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"{output}: must be a file in a folder that exists")
    path = pathlib.Path(path)
    read = [member for member in path.iterdir() if member.suffix != ".tern"] if path.is_dir() else [path]
    for file in [*read, *(pathlib.Path(text) for text in texts if text is not None)]:
        # The same file by whatever name: another spelling, a symbolic or a hard link.
        if output.exists() and file.exists() and output.samefile(file):
            raise ValueError(f"{output}: is read as {file}, so the image must go to another file")


def _kv_steps(folder, checkpoint, text, progress):
    """(k_steps, v_steps, where they come from): of a text that was given, of the checkpoint's owner, of our default text."""
    stored = pathlib.Path(folder)/calibrate.FILE
    if text is None and stored.exists():
        return *calibrate.read_steps(stored, checkpoint.config), str(stored)
    show = lambda done, total: progress.show("calibrating the KV cache", done, total)
    return *calibrate.kv_steps(checkpoint, text and read_records(text), progress=show), str(text or "default text")


def _perplexities(model, checkpoint, text, choices, progress):
    """Adds the perplexity on a text to each of the report's choices of a head."""
    tokens = load_text(checkpoint, text, TEXT_TOKENS + 1, checkpoint.name)
    length = min(model.config.context, len(tokens) - 1)
    show   = lambda done, total: progress.show("comparing heads", done, total)
    values = perplexity_heads(model, [with_head(model, choice["head"]) for choice in choices], tokens, length, progress=show)
    for choice, value in zip(choices, values):
        choice["perplexity"] = value


def pack(path, output, context=None, calibration=None, progress=None, head="int8", planes=None, shortlist=None, ternary=False, text=None):
    """Packs the checkpoint at `path` into the file `output`; returns the report (see `host.plan`). Raises ValueError.

    context     : positions, at most the checkpoint's own (the default).
    calibration : text file for the steps of the KV cache.
    head, planes, shortlist : see `model.head.with_head`.
    ternary     : round a float checkpoint, which else keeps 8 bits a weight, to ternary weights.
    text        : text file on which the heads are compared.
    """
    progress = progress or Progress()
    output   = pathlib.Path(output)
    _check_output(output, path, calibration, text)
    try:
        progress.show("reading the checkpoint")
        read       = lambda done, total: progress.show("reading the checkpoint", done, total)
        checkpoint = load_checkpoint(path, ternary, read)
        config     = checkpoint.config
        if context is not None:
            if not 1 <= context <= config.context:
                raise ValueError(f"context {context}: must lie in 1 … {config.context} (what {checkpoint.name} was trained for)")
            checkpoint.config = dataclasses.replace(config, context=context)
        outline = plan.outline(dataclasses.asdict(checkpoint.config), checkpoint.weights, *head_shape(config, head, planes, shortlist),
            name=checkpoint.name, tokenizer=checkpoint.tokenizer)
        plan.check(plan.report(outline), context)  # Before calibration, which takes time, and the angles, which take memory.
        k_steps, v_steps, source = _kv_steps(path, checkpoint, calibration, progress)
        progress.show("quantising")
        model          = with_head(quantise_checkpoint(checkpoint, k_steps, v_steps), head, planes, shortlist)
        model.metadata = json.dumps({"calibration": pathlib.Path(source).name, "notes": checkpoint.notes,
            "chat_template": checkpoint.chat_template}).encode()
        result = plan.report(model) | {"notes": checkpoint.notes}
        plan.check(result, context)
        if text is not None:
            _perplexities(model, checkpoint, text, result["head_choices"], progress)
        progress.show("writing")
        part = output.with_name(f".{output.name}.{os.getpid()}.new")
        try:
            write_image(model, part)
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
        return result
    finally:
        progress.end()


def packed(path, progress=None):
    """Image file (Path) of an image or a checkpoint (folder or file); a checkpoint is packed under build/ when it has changed."""
    path = pathlib.Path(path)
    if not path.exists():
        raise ValueError(f"{path}: no such image or checkpoint")
    if not path.is_dir() and path.suffix not in FILES:
        return path
    # Contents would take long to hash for large checkpoints: names, sizes and times, and what packs them.
    key = hashlib.sha256(repr((VERSION, path.resolve())).encode())
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        key.update(repr((file.name, file.stat().st_size, file.stat().st_mtime_ns)).encode())
    for source in sorted((ROOT/"model").rglob("*.py")):
        key.update(source.read_bytes())
    image = CACHE/f"{path.resolve().name}-{key.hexdigest()[:12]}.tern"
    if not image.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pack(path, image, progress=progress)
    return image

# Command line -------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description="Pack a checkpoint into the image that the board streams.")
    p.add_argument("checkpoint",          nargs="?",       help="Folder with config.json, *.safetensors and tokenizer.json; a .gguf file; a "
                                                                ".bin file of llama2.c.")
    p.add_argument("-o", "--output",                       help="Image to write, for example model.tern.")
    p.add_argument("--head",              default="int8",  choices=HEADS, help="int8: best, reads most. hybrid: the same choices nearly always, "
                                                                "from a shortlist that the accelerator finds. ternary: reads least (int8).")
    p.add_argument("--planes",            type=int,        help="Ternary planes of a head's row, 1 to 3 (ternary 1, hybrid 2).")
    p.add_argument("--shortlist",         type=int,        help="Rows that a hybrid head scores exactly (1/128 of the vocabulary, up to 256).")
    p.add_argument("--ternary",           action="store_true", help="Round float weights to ternary ones; the price is stated.")
    p.add_argument("--context",           type=int,        help="Positions (default: as many as the checkpoint was trained for).")
    p.add_argument("--calibration",                        help="Text file that fixes the steps of the KV cache; not the text that "
                                                                "the model is judged by (default: the checkpoint's own, or a built-in text).")
    p.add_argument("--text",                               help=f"Text file on which the heads are compared (its first {TEXT_TOKENS:,} tokens).")
    p.add_argument("--formats",           action="store_true", help="Show what can be packed, by packing a tiny checkpoint of each format.")
    p.add_argument("--json",              action="store_true", help="Print the figures as JSON.")
    args = p.parse_args()
    if args.formats:
        command = [sys.executable, str(ROOT/"host"/"formats.py")]
        return subprocess.run(command + ["--json"]*args.json, timeout=FORMATS_SECONDS).returncode
    if args.checkpoint is None or args.output is None:
        p.error("the checkpoint and -o/--output are needed, for example: python host/pack.py model/zoo/stories -o stories.tern")
    try:
        result = pack(args.checkpoint, args.output, args.context, args.calibration, None, args.head, args.planes, args.shortlist, args.ternary,
            args.text)
    except ValueError as error:
        if isinstance(error.__cause__, TooLarge):  # Refused before its tensors were read.
            figures = plan.report(plan.outline(error.__cause__.shape, error.__cause__.weights))
            print("\n".join(plan.memory_lines(figures, plan.CONTEXT_MIN)), file=sys.stderr)
        elif isinstance(error, plan.DoesNotFit):
            print("\n".join(error.lines), file=sys.stderr)
        raise
    for note in result["notes"]:
        print(f"pack.py: note: {printable(note)}", file=sys.stderr)
    print(json.dumps(result) if args.json else "\n".join(plan.lines(result)))
    return 0


if __name__ == "__main__":
    console.run(main)
