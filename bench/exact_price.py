#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What does the exact path cost a checkpoint?

Perplexity per token of the checkpoint's own floats and of the integers that the board computes, in windows of 512 over the first 4,096 tokens
of a text, and how many values of each kind were clipped on the way. The model is the one that the packer makes; the text must not be what it
is calibrated on. The reference, on its own model, stated no price of its int8 path.

    python bench/exact_price.py model.gguf valid.txt
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import sys

from litetern.bench.table import Row, parser, show
from litetern.model.common import console
from litetern.model.common.progress import Progress
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.saturation import KINDS, Saturation
from litetern.model.perplexity import calibrated, load_text, own_floats
from litetern.model.quality.likelihood import perplexity_exact

# Measure ------------------------------------------------------------------------------------------


def measure(path, text, tokens_max=4096, context=512, progress=None):
    """Rows of the table: float, exact, their ratio, the clips of each of `model.numerics.saturation.KINDS`."""
    progress   = progress or Progress()
    show_stage = lambda name: lambda done, total: progress.show(name, done, total)
    checkpoint = load_checkpoint(path)
    checkpoint.config = checkpoint.config.with_context(min(context, checkpoint.config.context))
    tokens     = load_text(checkpoint, text, tokens_max + 1, path)
    length     = min(checkpoint.config.context, len(tokens) - 1)
    progress.show("calibrating")
    model      = calibrated(checkpoint, path)
    saturation = Saturation()
    exact      = perplexity_exact(model, tokens, length, progress=show_stage("exact path"), saturation=saturation)
    floats     = own_floats(path, tokens, length, progress=show_stage("floats"))
    return [Row("tokens", "", None, len(tokens) - 1), Row("perplexity of the floats", "", None, floats),
        Row("perplexity of the exact path", "", None, exact), Row("exact over float", "", None, exact/floats),
        *(Row(f"clipped {kind}", f"of {saturation.total(kind)[1]:,}", None, saturation.total(kind)[0]) for kind in KINDS)]


def main():
    p = parser(__doc__)
    p.add_argument("checkpoint",                          help="Checkpoint folder or file.")
    p.add_argument("text",                                help="UTF-8 text that the model is not calibrated on.")
    p.add_argument("--tokens",  default=4096, type=int,   help="Look at the first so many tokens (4096).")
    p.add_argument("--context", default=512,  type=int,   help="Positions of a window (512).")
    args     = p.parse_args()
    progress = Progress()
    rows = measure(args.checkpoint, args.text, args.tokens, args.context, progress)
    progress.end()
    show(rows, args.json)


if __name__ == "__main__":
    console.run(main)
