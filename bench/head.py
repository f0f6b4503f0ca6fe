#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What does a head that reads less cost?

Over the states of the exact path on a text: how often each head makes the int8 head's choice (a hybrid one does when its shortlist holds
it), the bytes that it reads for a token, and its perplexity. Without a text the model tells its own stories, temperature 1. The reference
ran the ternary head only, and its perplexity rose from 17.90 to 35.59.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import pathlib
import sys

import numpy as np

from litetern.bench.table import Row, parser, show
from litetern.model.common import console
from litetern.model.common.progress import Progress
from litetern.model.formats.head import PLANES_MAX, shortlist_of, with_head
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.exact import ExactHead
from litetern.model.paths import ROOT
from litetern.model.perplexity import calibrated, head_name, load_text
from litetern.model.quality.choose_head import SESSIONS, own_states
from litetern.model.quality.likelihood import exact_states, negative_log_likelihood

ZOO      = ROOT/"model"/"zoo"/"stories"

FULL, TERNARY = 17.90, 35.59  # Perplexities of the reference's model with its full head and with the ternary one that it runs.

# Measure ------------------------------------------------------------------------------------------


def measure(checkpoint, text, states=12800, progress=None):
    """Rows of the table."""
    loaded    = load_checkpoint(checkpoint)
    model     = calibrated(loaded, checkpoint)
    models    = [model]
    models   += [with_head(model, "hybrid", planes) for planes in range(1, PLANES_MAX + 1)]
    models   += [with_head(model, "ternary", planes) for planes in range(1, PLANES_MAX + 1)]
    heads     = [ExactHead(m) for m in models]
    totals, agreed, count = np.zeros(len(heads)), np.zeros(len(heads)), 0
    context   = loaded.config.context
    if text is None:
        source = own_states(model, min(context, -(-states//SESSIONS)), progress)
    else:
        tokens = load_text(loaded, text, states + 1, checkpoint)
        source = exact_states(model, tokens, min(context, len(tokens) - 1), progress=progress)
    for x, targets in source:
        choice = heads[0](x)[0].argmax(axis=-1)
        for i, head in enumerate(heads):
            logits     = head(x)[0]
            agreed[i] += (logits.argmax(axis=-1) == choice).sum()
            totals[i] += negative_log_likelihood(head(x, estimate=True)[0], targets)
        count += len(targets)
    perplexity = np.exp(totals/count)
    rows       = [Row("states", "", None, count), Row("shortlist", "rows", None, shortlist_of(loaded.config.vocab))]
    for m, value, share in zip(models, perplexity, agreed/count):
        name = head_name(m)
        rows += [Row(f"{name}: bytes a token", "bytes", None, m.head_bytes), Row(f"{name}: choice of the int8 head", "%", None, 100*share)]
        rows += [Row(f"{name}: perplexity", "", None, value)]
        if m is not model:
            plain = m.ternary.shortlist == 0 and m.ternary.planes == 1
            rows += [Row(f"{name}: perplexity over the int8 head's", "", TERNARY/FULL if plain else None, value/perplexity[0])]
    return rows


def main():
    p = parser(__doc__)
    p.add_argument("--checkpoint", default=ZOO,             help="Folder or file (the project's own model).")
    p.add_argument("--text",                                help="UTF-8 text that the model was not trained on (default: its own stories).")
    p.add_argument("--states",     default=12800, type=int, help="At most so many states (12800).")
    args     = p.parse_args()
    progress = Progress()
    rows = measure(args.checkpoint, args.text, args.states, lambda done, total: progress.show("exact path", done, total))
    progress.end()
    show(rows, args.json)


if __name__ == "__main__":
    console.run(main)
