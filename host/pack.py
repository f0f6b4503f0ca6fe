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
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

from litetern.host import plan
from litetern.host.hub import local
from litetern.model import calibrate
from litetern.model.common import console
from litetern.model.common.printable import printable
from litetern.model.common.progress import Progress
from litetern.model.formats.head import HEADS, head_shape, with_head
from litetern.model.formats.image import VERSION, check_model, write_image
from litetern.model.importers import load_checkpoint, files_of
from litetern.model.importers.assemble import TooLarge
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.paths import BUILD, ROOT
from litetern.model.perplexity import own_floats
from litetern.model.quality import choose_head
from litetern.model.quality.clips import clips
from litetern.model.quality.likelihood import perplexity_heads
from litetern.model.quality.rounding import round_to_ternary
from litetern.model.tokenizer.text import read_records, token_stream
from litetern.model.tokenizer.tokenizer import load_tokenizer
from litetern.soc.boards import BOARDS, find_board

CACHE = BUILD/"models"

FILES        = (".gguf", ".bin")  # Checkpoints that are one file.
TEXT_TOKENS  = 4096               # Of a text that heads are compared on.
PRICE_TOKENS = 512                # Of calibration's text, where something is clipped.
WINDOW       = 512                # Positions that a perplexity is taken over.
RUINED       = 1.5                # Times the floats' perplexity: a model that comes to more is of no use. Heads of one plane take 1.3.
AUTO         = "auto"             # The head is measured and chosen …
HEAD_SHARE   = 0.05               # … where nobody chooses, if int8 rows take more than so much of a token.
FORMATS_SECONDS = 1200            # Time-out of the table of formats.

# Pack ---------------------------------------------------------------------------------------------


def _check_output(output, path, *texts):
    """ValueError where the file `output` cannot be written, or is one that is read: the checkpoint, a file of its folder, a text."""
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"{output}: must be a file in a folder that exists")
    read = [file for file in files_of(path) if file.suffix != ".tern" or file == pathlib.Path(path)]
    for file in [*read, *(pathlib.Path(text) for text in texts if text is not None)]:
        # The same file by whatever name: another spelling, a symbolic or a hard link.
        if output.exists() and file.exists() and output.samefile(file):
            raise ValueError(f"{output}: is read as {file}, so the image must go to another file")


def _perplexities(path, model, tokens, heads, progress):
    """[Perplexity of the floats of the checkpoint at `path`, of the exact path of `model`, with each of `heads` in its place]."""
    length = min(model.config.context, len(tokens) - 1, WINDOW)
    show   = lambda name: lambda done, total: progress.show(name, done, total)
    floats = own_floats(path, tokens, length, progress=show("perplexity of the floats"))
    models = [model, *(with_head(model, head) for head in heads)]
    return [floats, *perplexity_heads(model, models, tokens, length, progress=show("perplexity of the image"))]


def _quality(path, checkpoint, model, text, calibration, result, force, progress):
    """Adds to the report what is clipped and, on a text or where something is clipped, the price. ValueError for what is ruined.

    Without a text, both are of the calibration's.
    """
    if not checkpoint.tokenizer:
        return
    records = read_records(text or calibration) if text or calibration else [calibrate.DEFAULT_TEXT]
    tokens  = token_stream(records, load_tokenizer(checkpoint.tokenizer, checkpoint.name), checkpoint.before, TEXT_TOKENS + 1)
    if len(tokens) < 2:
        raise ValueError(f"{text or calibration}: {len(tokens)} token, perplexity needs at least 2")
    steps   = (np.stack([getattr(layer, f"{name}_steps") for layer in model.layers]) for name in "kv")
    counts  = clips(checkpoint, *steps, tokens, progress=lambda done, total: progress.show("looking for what clips", done, total))
    result["clipped"] = counts.lines()
    if text is None and not result["clipped"]:
        return
    choices = result["head_choices"] if text is not None else []
    floats, exact, *values = _perplexities(path, model, tokens if text else tokens[:PRICE_TOKENS + 1], [c["head"] for c in choices], progress)
    for choice, value in zip(choices, values):
        choice["perplexity"] = value
    result["perplexity"] = {"float": floats, "exact": exact}
    if not exact <= RUINED*floats and not force:
        raise ValueError(f"{checkpoint.name}: perplexity {floats:.4g} of its own floats becomes {exact:.4g} on the exact path, which "
            f"ruins it ({'; '.join(counts.lines()) or 'nothing clips'}); --force packs it all the same")


def _chosen_head(checkpoint, model, calibration, progress):
    """({"head", "planes", "shortlist"} of the cheapest head that serves `model`, figures of all of them for the report)."""
    records = read_records(calibration) if calibration else calibrate.built_in_text(checkpoint)
    tokens  = token_stream(records, load_tokenizer(checkpoint.tokenizer, checkpoint.name), checkpoint.before, choose_head.STATES + 1)
    show    = lambda done, total: progress.show("choosing a head", done, total)
    with np.errstate(all="ignore"):  # A model that leaves float32 keeps its int8 head, and is refused below with its price.
        rows, of_text, own = choose_head.measure(model, tokens, progress=show)
    chosen  = choose_head.cheapest(rows)
    table   = [dataclasses.asdict(row) | {"serves": row.serves, "chosen": row is chosen} for row in rows]
    return (chosen.kind, chosen.planes, chosen.shortlist), {"states_of_text": of_text, "states_of_the_models_own": own, "heads": table}


def pack(path, output, context=None, calibration=None, progress=None, head="int8", planes=None, shortlist=None, ternary=False, text=None,
    force=False, board=plan.BOARD, sessions=1):
    """Packs the checkpoint at `path` into the file `output`; returns the report (see `litetern.host.plan`). Raises ValueError.

    context     : positions, at most the checkpoint's own (the default).
    calibration : text file for the steps of the KV cache.
    head, planes, shortlist : see `litetern.model.formats.head.with_head`; head "auto": the cheapest that serves (`model.quality.choose_head`); None:
                  auto where int8 rows take more than `HEAD_SHARE` of a token, else int8.
    ternary     : round a float checkpoint, which else keeps 8 bits a weight, to ternary weights.
    text        : text file on which the floats, the image and the heads are compared.
    board       : whose memory must hold it with the KV caches of `sessions` sessions (`litetern.host.plan.check`).
    force       : pack what the exact path ruins, too (rounding floats to ternary, which states its own price, is never refused).
    """
    progress = progress or Progress()
    output   = pathlib.Path(output)
    board    = find_board(board)
    if head == AUTO and (planes or shortlist):
        raise ValueError(f"head {AUTO}: finds planes and shortlist itself; name a head to choose them")
    try:
        path = local(path, progress, board.image_bytes)
        _check_output(output, path, calibration, text)
        progress.show("reading the checkpoint")
        read       = lambda done, total: progress.show("reading the checkpoint", done, total)
        checkpoint = load_checkpoint(path, read, limit=board.image_bytes)
        if ternary:
            checkpoint = round_to_ternary(checkpoint)
        if context is not None:
            checkpoint.config = checkpoint.config.with_context(context, checkpoint.name)
        shape   = head_shape(checkpoint.config, "int8" if head in (None, AUTO) else head, planes, shortlist)
        outline = plan.outline(dataclasses.asdict(checkpoint.config), checkpoint.weights, *shape, name=checkpoint.name, tokenizer=checkpoint.tokenizer)
        figures = plan.report(outline, board, sessions)
        plan.check(figures, context)  # Before calibration, which takes time, and the angles, which take memory.
        if head is None:
            dear = checkpoint.tokenizer and figures["head_bytes"] > HEAD_SHARE*(figures["weight_bytes"] + figures["head_bytes"])
            head = AUTO if dear else "int8"
        automatic = head == AUTO
        checkpoint, *steps, stored = calibrate.prepare(checkpoint, path, calibration and read_records(calibration), progress=progress.show)
        progress.show("quantising")
        model  = quantise_checkpoint(checkpoint, *steps)
        choice = None
        if automatic:
            (head, planes, shortlist), choice = _chosen_head(checkpoint, model, calibration, progress)
        model = with_head(model, head, planes, shortlist)
        check_model(model)
        model.metadata = json.dumps({"calibration": pathlib.Path(calibration or stored or "default text").name, "notes": checkpoint.notes,
            "chat_template": checkpoint.chat_template}).encode()
        result = plan.report(model, board, sessions) | {"notes": checkpoint.notes} | ({"head_measured": choice} if automatic else {})
        plan.check(result, context)
        _quality(path, checkpoint, model, text, calibration, result, force or ternary, progress)
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
    path = local(path, progress or Progress(), find_board(plan.BOARD).image_bytes)
    if not path.exists():
        raise ValueError(f"{path}: no such image or checkpoint")
    if not path.is_dir() and path.suffix not in FILES:
        return path
    # Contents would take long to hash for large checkpoints: names, sizes and times, and what packs them.
    key = hashlib.sha256(repr((VERSION, path.resolve())).encode())
    for file in files_of(path):
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
                                                                ".bin file of llama2.c; or the name of a checkpoint on the hub, "
                                                                "owner/model or owner/model:FILE.gguf.")
    p.add_argument("-o", "--output",                       help="Image to write, for example model.tern.")
    p.add_argument("--head",              choices=(*HEADS, AUTO), help="int8: best, reads most. hybrid: the same choices nearly always, "
                                                                "from a shortlist that the accelerator finds. ternary: reads least. auto: measures and takes "
                                                                f"the cheapest hybrid that makes int8's choices (where int8 takes over {100*HEAD_SHARE:.0f} %% of a token; else int8).")
    p.add_argument("--planes",            type=int,        help="Ternary planes of a head's row, 1 to 3 (ternary 1, hybrid 2).")
    p.add_argument("--shortlist",         type=int,        help="Rows that a hybrid head scores exactly (1/128 of the vocabulary, up to 256).")
    p.add_argument("--ternary",           action="store_true", help="Round float weights to ternary ones; the price is stated.")
    p.add_argument("--context",           type=int,        help="Positions (default: as many as the checkpoint was trained for).")
    p.add_argument("--board",             default=plan.BOARD, choices=BOARDS, help=f"Board whose memory must hold it ({plan.BOARD}).")
    p.add_argument("--sessions",          type=int, default=1, help="Conversations at once, each with a KV cache of its own (1).")
    p.add_argument("--calibration",                        help="Text file that fixes the steps of the KV cache; not the text that "
                                                                "the model is judged by (default: the checkpoint's own, or a built-in text).")
    p.add_argument("--text",                               help=f"Text file on which the checkpoint's own floats, the image "
                                                                f"and the heads are compared (its first {TEXT_TOKENS:,} tokens).")
    p.add_argument("--force",             action="store_true", help="Pack a model that the exact path ruins, too.")
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
            args.text, args.force, args.board, args.sessions)
    except ValueError as error:
        if isinstance(error.__cause__, TooLarge):  # Refused before its tensors were read.
            with contextlib.suppress(ValueError):  # A shape that no image has, besides: the line says enough.
                figures = plan.report(plan.outline(error.__cause__.shape, error.__cause__.weights), args.board)
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
