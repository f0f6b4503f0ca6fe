#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Float models rounded to ternary, which they were not trained for: it fits, and says what it costs."""

import dataclasses

from litetern.model.calibrate import DEFAULT_TEXT
from litetern.model.formats.checkpoint import MATRICES
from litetern.model.numerics.quantised import absmean_ternary
from litetern.model.quality.likelihood import perplexity_float
from litetern.model.tokenizer.text import token_stream
from litetern.model.tokenizer.tokenizer import load_tokenizer


def perplexity(checkpoint):
    """Perplexity of the float reference on calibration's built-in text; None without a tokenizer."""
    if not checkpoint.tokenizer:
        return None
    tokens = token_stream([DEFAULT_TEXT], load_tokenizer(checkpoint.tokenizer, checkpoint.name), checkpoint.before)
    return perplexity_float(checkpoint, tokens, min(len(tokens) - 1, checkpoint.config.context))


def round_to_ternary(checkpoint):
    """The checkpoint (int8 matrices) with each matrix rounded by absmean; its notes gain the two perplexities. One that is ternary stays as it is."""
    if checkpoint.weights == "ternary":
        return checkpoint
    layers  = [{key: absmean_ternary(value[0]*value[1][:, None]) if key in MATRICES else value for key, value in layer.items()}
        for layer in checkpoint.layers]
    rounded = dataclasses.replace(checkpoint, layers=layers, weights="ternary")
    before, after = perplexity(checkpoint), perplexity(rounded)
    cost    = "what that costs is unknown: there is no tokenizer" if before is None else \
        f"its perplexity on a short English text goes from {before:,.2f} to {after:,.2f}"
    note    = f"{checkpoint.name} was not trained in ternary and is rounded to it: {cost}"
    return dataclasses.replace(rounded, notes=[*checkpoint.notes, note])
