#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Perplexity of a checkpoint on a text: as trained (float) and on the exact path, with each head and several softmax resolutions.

    python model/perplexity.py model/zoo/stories valid.txt
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import json
import pathlib
import sys

from dataclasses import replace

from litetern.model import calibrate
from litetern.model.common import console
from litetern.model.common.progress import Progress
from litetern.model.formats.head import with_head
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.circuits import AttentionParameters
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.quality.likelihood import perplexity_exact, perplexity_float, perplexity_heads
from litetern.model.quality.rounding import round_to_ternary
from litetern.model.tokenizer.text import read_records, token_stream
from litetern.model.tokenizer.tokenizer import load_tokenizer

# Command line -------------------------------------------------------------------------------------


HEADS    = (("int8", None), ("hybrid", 1), ("hybrid", 2), ("ternary", 1), ("ternary", 2), ("ternary", 3))
VARIANTS = (AttentionParameters(10, 32, 8), AttentionParameters(8, 16, 8))


def head_name(model):
    """Name of a QuantisedModel's head."""
    ternary = model.ternary
    if ternary is None:
        return "int8 head"
    planes = f"{ternary.planes} plane{'s'*(ternary.planes > 1)}"
    return f"hybrid head, {ternary.shortlist} rows by {planes}" if ternary.shortlist else f"ternary head, {planes}"


def load_text(checkpoint, text, tokens_max=None, where="checkpoint"):
    """int32 [n] tokens of a text file."""
    tokens = token_stream(read_records(text), load_tokenizer(checkpoint.tokenizer, where), checkpoint.before, tokens_max)
    if len(tokens) < 2:
        raise ValueError(f"{text}: {len(tokens)} token, perplexity needs at least 2")
    return tokens


def calibrated(checkpoint, path):
    """QuantisedModel of the checkpoint at `path`, as it is packed: with the steps that its owner measured or those of the built-in text."""
    checkpoint, *steps, _ = calibrate.prepare(checkpoint, path)
    return quantise_checkpoint(checkpoint, *steps)


def own_floats(path, tokens, length, *arguments, **options):
    """Perplexity of the floats that the checkpoint at `path` itself holds, before they are rounded; other arguments: `perplexity_float`'s."""
    return perplexity_float(load_checkpoint(path, floats=True), tokens, length, *arguments, **options)


def table(path, text, stride=None, tokens_max=None, variants=VARIANTS, heads=HEADS, progress=None, ternary=False, context=None):
    """Rows {"path", "perplexity", "tokens"} of a checkpoint on a text file: float, exact with each head ((kind, planes), the int8 head
    first), exact with the int8 head and each softmax variant. ternary: floats are rounded (`round_to_ternary`); context: positions of a window, at
    most the checkpoint's own (the default)."""
    progress   = progress or Progress()
    checkpoint = load_checkpoint(path)
    if ternary:
        checkpoint = round_to_ternary(checkpoint)
    if context is not None:
        checkpoint.config = checkpoint.config.with_context(context, checkpoint.name)
    tokens     = load_text(checkpoint, text, tokens_max, path)
    model      = calibrated(checkpoint, path)
    length     = min(checkpoint.config.context, len(tokens) - 1)
    show       = lambda name: lambda done, total: progress.show(name, done, total)
    softmax    = lambda p: f"scores {p.score_bits} bit, 1/{p.steps_per_nat} nat, exp {p.exp_bits} bit"
    rows       = [("float", own_floats(path, tokens, length, stride, progress=show("float")))]
    models     = [with_head(model, *head) for head in heads]
    values     = perplexity_heads(model, models, tokens, length, stride, progress=show("exact"))
    rows      += [(f"exact, {head_name(model)}", value) for model, value in zip(models, values)]
    for variant in variants:
        name = f"exact, int8 head, {softmax(variant)}"
        rows.append((name, perplexity_exact(replace(model, attention=variant), tokens, length, stride, progress=show(name))))
    progress.end()
    return [{"path": name, "perplexity": value, "tokens": len(tokens) - 1} for name, value in rows]


def _attention(text):
    try:
        return AttentionParameters(*(int(part) for part in text.split(",")))
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r}: must be score bits, steps per nat, exp bits, for example 8,16,8") from None


def main():
    p = argparse.ArgumentParser(description="Perplexity per token of a checkpoint on a text: float, exact with each head, softmax variants.")
    p.add_argument("checkpoint",                                  help="Checkpoint folder or file.")
    p.add_argument("text",                                        help="UTF-8 text; records may be separated by lines <|endoftext|>.")
    p.add_argument("--stride",      type=int,                     help="Tokens a window advances (default: its whole length).")
    p.add_argument("--context",     type=int,                     help="Positions of a window (default: what the checkpoint was trained for).")
    p.add_argument("--tokens",      type=int,                     help="Look at the first so many tokens only.")
    p.add_argument("--attention",   type=_attention, nargs="*", default=VARIANTS, metavar="BITS,STEPS,BITS",
        help="Softmax resolutions besides the board's: score bits, steps per nat, exp bits (10,32,8 8,16,8).")
    p.add_argument("--ternary",     action="store_true",          help="Round a float checkpoint to ternary weights.")
    p.add_argument("--json",        action="store_true",          help="Print the rows as one JSON array.")
    args = p.parse_args()
    rows = table(args.checkpoint, args.text, args.stride, args.tokens, args.attention, ternary=args.ternary, context=args.context)
    if args.json:
        print(json.dumps(rows))
        return
    print(f"{'path':56} {'perplexity':>10} {'of float':>9}   ({rows[0]['tokens']:,} tokens)")
    for row in rows:
        print(f"{row['path']:56} {row['perplexity']:10.4f} {row['perplexity']/rows[0]['perplexity']:9.4f}")


if __name__ == "__main__":
    console.run(main)
