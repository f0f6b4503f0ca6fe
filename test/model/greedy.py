#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Greedy generation by the numpy definition: what every other way to a token is held against."""

import numpy as np

from litetern.model.numerics.exact import ExactModel


def greedy(model, prompt, count):
    """(tokens, logits float32 [count, vocab]) behind a prompt of a QuantisedModel."""
    exact, tokens, rows = ExactModel(model, context=len(prompt) + count), [], []
    for token in prompt:
        logits = exact.step([token])[0]
    while len(tokens) < count:
        rows.append(np.array(logits, np.float32))
        tokens.append(int(np.argmax(logits)))
        if len(tokens) < count:
            logits = exact.step([tokens[-1]])[0]
    return tokens, np.array(rows)
