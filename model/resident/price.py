#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the resident path's integers cost: perplexity of the float reference, of the streamed path and of the resident one.

    python model/resident/price.py FOLDER valid.txt
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import json
import sys

import numpy as np

from litetern.model.calibrate import DEFAULT_TEXT, kv_steps
from litetern.model.common import console
from litetern.model.common.progress import Progress
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.quality.likelihood import batches, negative_log_likelihood, perplexity_exact
from litetern.model.resident.build import build, calibrate
from litetern.model.resident.exact import ResidentExact
from litetern.model.resident.reference import ReferenceModel
from litetern.model.resident.sampling import LOGIT_FRACTION
from litetern.model.resident.source import load, to_checkpoint
from litetern.model.tokenizer.text import read_records, token_stream
from litetern.model.tokenizer.tokenizer import load_tokenizer

# Measure ------------------------------------------------------------------------------------------


def load_model(folder):
    """(Source, ResidentModel) of a folder; ranges that it does not state come from the built-in text."""
    source = load(folder)
    tokens = token_stream([DEFAULT_TEXT], load_tokenizer(source.tokenizer, folder), [source.bos], source.config.window)
    return source, build(source, calibrate(source, tokens))


def perplexity_float(source, tokens, batch=8, progress=None):
    """Perplexity per token of the float reference over an int [n] stream."""
    model, total, count = ReferenceModel(source), 0.0, 0
    for inputs, targets, scored, _ in batches(tokens, source.config.window, None, batch):
        total += negative_log_likelihood(model.logits(inputs)[scored], targets[scored])
        count += int(scored.sum())
        if progress:
            progress(count, len(tokens) - 1)
    return float(np.exp(total/count))


def perplexity_resident(model, tokens, batch=64, progress=None):
    """(perplexity per token, {place: values cut}) of the resident path of a ResidentModel."""
    total, count, cut = 0.0, 0, {}
    for inputs, targets, scored, _ in batches(tokens, model.config.window, None, batch):
        exact = ResidentExact(model, len(inputs))
        for position in range(int(scored.any(axis=0).nonzero()[0][-1]) + 1):
            logits, rows = exact.step(inputs[:, position])*2.0**-LOGIT_FRACTION, scored[:, position]
            total += negative_log_likelihood(logits[rows], targets[rows, position])
        cut    = {place: cut.get(place, 0) + number for place, number in exact.clip.counts.items()}
        count += int(scored.sum())
        if progress:
            progress(count, len(tokens) - 1)
    return float(np.exp(total/count)), cut


def table(folder, text, tokens_max=None, progress=None):
    """(rows {"path", "perplexity", "per_character", "tokens"}, {place: values cut}) of a folder on a text file.

    Per character: separators of records count as tokens, not as characters.
    """
    progress      = progress or Progress()
    source, model = load_model(folder)
    records       = read_records(text)
    tokens        = token_stream(records, load_tokenizer(source.tokenizer, folder), [source.bos], tokens_max)
    if len(tokens) < 2:
        raise ValueError(f"{text}: {len(tokens)} token, perplexity needs at least 2")
    show = lambda name: lambda done, total: progress.show(name, done, total)
    rows = [("float", perplexity_float(source, tokens, progress=show("float")))]
    try:
        checkpoint = to_checkpoint(source)
    except ValueError:
        pass  # The streamed path does not know this family.
    else:
        streamed = quantise_checkpoint(checkpoint, *kv_steps(checkpoint))
        rows.append(("streamed", perplexity_exact(streamed, tokens, source.config.window, progress=show("streamed"))))
    value, cut = perplexity_resident(model, tokens, progress=show("resident"))
    progress.end()
    characters = sum(map(len, records)) if tokens_max is None else None
    root       = (len(tokens) - 1)/characters if characters else None
    return [{"path": name, "perplexity": value, "per_character": value**root if root else None, "tokens": len(tokens) - 1}
        for name, value in [*rows, ("resident", value)]], cut

# Command line -------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description="Perplexity per token of a resident model: float, streamed (where it can be), resident.")
    p.add_argument("model",                         help="Folder that model/train.py --path resident has exported.")
    p.add_argument("text",                          help="UTF-8 text; records may be separated by lines <|endoftext|>.")
    p.add_argument("--tokens", type=int,            help="Look at the first so many tokens only.")
    p.add_argument("--json",   action="store_true", help="Print one JSON object.")
    args = p.parse_args()
    rows, cut = table(args.model, args.text, args.tokens)
    if args.json:
        print(json.dumps({"rows": rows, "cut": cut}))
        return
    print(f"{'path':12} {'perplexity':>10} {'of float':>9} {'a character':>12}   ({rows[0]['tokens']:,} tokens)")
    for row in rows:
        each = f"{row['per_character']:12.4f}" if row["per_character"] else f"{'':>12}"
        print(f"{row['path']:12} {row['perplexity']:10.4f} {row['perplexity']/rows[0]['perplexity']:9.4f} {each}")
    print("cut: " + (", ".join(f"{place} {number:,}" for place, number in cut.items() if number) or "nothing"))


if __name__ == "__main__":
    console.run(main)
