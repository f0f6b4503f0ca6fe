#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Perplexity of a checkpoint on a text: as trained (float) and on the exact path, with one softmax resolution or several.

    python model/perplexity.py model/zoo/stories valid.txt
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from model import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import json
import pathlib
import sys

import numpy as np

from model import calibrate
from model.circuits import ATTENTION, AttentionParameters
from model.exact import ExactModel
from model.importers import load_checkpoint
from model.progress import Progress
from model.quantised import quantise_checkpoint
from model.reference import ReferenceModel
from model.text import load_tokenizer, read_records, token_stream, windows

# Measure ------------------------------------------------------------------------------------------


def negative_log_likelihood(logits, targets):
    """float64 sum of −log p(target); logits float32 [n, vocab], targets int [n]."""
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return float((np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(targets)), targets]).sum())


def _batches(tokens, length, stride, batch):
    """Windows grouped to a batch: (int32 [batch, length], targets, mask of scored positions)."""
    group = []
    for window, first in windows(tokens, length, stride):
        inputs, targets = np.zeros(length, np.int32), np.zeros(length, np.int32)
        inputs[:len(window) - 1], targets[:len(window) - 1] = window[:-1], window[1:]
        scored = np.zeros(length, bool)
        scored[max(first, 0):len(window) - 1] = True
        group.append((inputs, targets, scored))
        if len(group) == batch:
            yield tuple(np.stack(part) for part in zip(*group))
            group = []
    if group:
        yield tuple(np.stack(part) for part in zip(*group))


def perplexity_float(checkpoint, tokens, length, stride=None, batch=8, progress=None):
    """Perplexity per token of the float reference over an int32 [n] stream."""
    model, total, count = ReferenceModel(checkpoint), 0.0, 0
    for inputs, targets, scored in _batches(tokens, length, stride, batch):
        total += negative_log_likelihood(model.logits(inputs)[scored], targets[scored])
        count += int(scored.sum())
        if progress:
            progress(count, len(tokens) - 1)
    return float(np.exp(total/count))


def perplexity_exact(model, tokens, length, stride=None, batch=64, progress=None, engine=ExactModel):
    """Perplexity per token of the exact path of a QuantisedModel; the windows of a batch advance together."""
    total, count = 0.0, 0
    for inputs, targets, scored in _batches(tokens, length, stride, batch):
        exact = engine(model, batch=len(inputs), context=length)
        for position in range(length):
            logits, rows = exact.step(inputs[:, position]), scored[:, position]
            if rows.any():
                total += negative_log_likelihood(logits[rows], targets[rows, position])
                count += int(rows.sum())
        if progress:
            progress(count, len(tokens) - 1)
    return float(np.exp(total/count))

# Command line -------------------------------------------------------------------------------------


def table(folder, text, stride=None, tokens_max=None, variants=(), progress=None):
    """Rows {"path", "perplexity", "tokens"} of a checkpoint folder on a text file: float, exact, exact with each variant."""
    progress   = progress or Progress()
    checkpoint = load_checkpoint(folder)
    records    = read_records(text)
    tokens     = token_stream(records, load_tokenizer(checkpoint.tokenizer, folder), checkpoint.bos)[:tokens_max]
    if len(tokens) < 2:
        raise ValueError(f"{text}: {len(tokens)} token, perplexity needs at least 2")
    stored     = pathlib.Path(folder)/calibrate.FILE
    steps      = calibrate.read_steps(stored) if stored.exists() else calibrate.kv_steps(checkpoint)
    model      = quantise_checkpoint(checkpoint, *steps)
    length     = min(checkpoint.config.context, len(tokens) - 1)
    show       = lambda name: lambda done, total: progress.show(name, done, total)
    rows       = [("float", perplexity_float(checkpoint, tokens, length, stride, progress=show("float")))]
    for parameters in (ATTENTION, *variants):
        model.attention = parameters
        name = f"exact, scores {parameters.score_bits} bit, 1/{parameters.steps_per_nat} nat, exp {parameters.exp_bits} bit"
        rows.append((name, perplexity_exact(model, tokens, length, stride, progress=show(name))))
    progress.end()
    return [{"path": name, "perplexity": value, "tokens": len(tokens) - 1} for name, value in rows]


def _attention(text):
    try:
        return AttentionParameters(*(int(part) for part in text.split(",")))
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r}: must be score bits, steps per nat, exp bits, for example 8,16,8") from None


def main():
    p = argparse.ArgumentParser(description="Perplexity per token of a checkpoint on a text: float, exact, softmax variants.")
    p.add_argument("checkpoint",                                  help="Checkpoint folder.")
    p.add_argument("text",                                        help="UTF-8 text; records may be separated by lines <|endoftext|>.")
    p.add_argument("--stride",      type=int,                     help="Tokens a window advances (default: its whole length).")
    p.add_argument("--tokens",      type=int,                     help="Look at the first so many tokens only.")
    p.add_argument("--attention",   type=_attention, nargs="*", default=(), help="More softmax resolutions: bits,steps,bits.")
    p.add_argument("--json",        action="store_true",          help="Print the rows as one JSON array.")
    args = p.parse_args()
    try:
        rows = table(args.checkpoint, args.text, args.stride, args.tokens, args.attention)
    except ValueError as error:
        sys.exit(f"perplexity.py: {error}")
    if args.json:
        print(json.dumps(rows))
        return
    print(f"{'path':48} {'perplexity':>10} {'of float':>9}   ({rows[0]['tokens']:,} tokens)")
    for row in rows:
        print(f"{row['path']:48} {row['perplexity']:10.4f} {row['perplexity']/rows[0]['perplexity']:9.4f}")


if __name__ == "__main__":
    main()
