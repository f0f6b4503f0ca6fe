#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""How likely models find a text: perplexity of the float reference and of the exact path, in windows."""

import numpy as np

from litetern.model.numerics.exact import ExactHead, ExactModel
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.tokenizer.text import windows

# Measure ------------------------------------------------------------------------------------------


def negative_log_likelihood(logits, targets):
    """float64 sum of −log p(target); logits float32 [n, vocab], targets int [n]."""
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return float((np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(targets)), targets]).sum())


def batches(tokens, length, stride, batch):
    """Windows grouped to a batch: (int32 [batch, length], targets, mask of scored positions, int [batch] positions of each)."""
    group = []
    for window, first in windows(tokens, length, stride):
        inputs, targets = np.zeros(length, np.int32), np.zeros(length, np.int32)
        inputs[:len(window) - 1], targets[:len(window) - 1] = window[:-1], window[1:]
        scored = np.zeros(length, bool)
        scored[max(first, 0):len(window) - 1] = True
        group.append((inputs, targets, scored, len(window) - 1))
        if len(group) == batch:
            yield tuple(np.stack(part) for part in zip(*group))
            group = []
    if group:
        yield tuple(np.stack(part) for part in zip(*group))


def perplexity_float(checkpoint, tokens, length, stride=None, batch=8, progress=None):
    """Perplexity per token of the float reference over an int32 [n] stream."""
    model, total, count = ReferenceModel(checkpoint), 0.0, 0
    for inputs, targets, scored, _ in batches(tokens, length, stride, batch):
        total += negative_log_likelihood(model.logits(inputs)[scored], targets[scored])
        count += int(scored.sum())
        if progress:
            progress(count, len(tokens) - 1)
    return float(np.exp(total/count))


def exact_states(model, tokens, length, stride=None, batch=64, progress=None, saturation=None):
    """Yields (float32 [n, hidden] states before the head, int [n] targets) of the exact path; the windows of a batch advance together.

    saturation: None, or a `litetern.model.numerics.saturation.Saturation` that counts what is clipped.
    """
    count = 0
    for inputs, targets, scored, lengths in batches(tokens, length, stride, batch):
        exact = ExactModel(model, batch=len(inputs), context=length, saturation=saturation)
        for position in range(length):
            if saturation is not None:
                saturation.counted = position < lengths
            states, rows = exact.states(inputs[:, position]), scored[:, position]
            if rows.any():
                yield states[rows], targets[rows, position]
        count += int(scored.sum())
        if progress:
            progress(count, len(tokens) - 1)


def perplexity_heads(model, heads, tokens, *arguments, **options):
    """[Perplexity per token] of a QuantisedModel with each of `heads`, QuantisedModels that differ in the head only.

    A hybrid head gives no probability to what is not on its shortlist; here that takes the estimate of the ternary pass.
    Further arguments: those of `exact_states`.
    """
    heads, totals, count = [ExactHead(head) for head in heads], np.zeros(len(heads)), 0
    for states, targets in exact_states(model, tokens, *arguments, **options):
        totals += [negative_log_likelihood(head(states, estimate=True)[0], targets) for head in heads]
        count  += len(targets)
    return np.exp(totals/count).tolist()


def perplexity_exact(model, tokens, *arguments, **options):
    """Perplexity per token of the exact path of a QuantisedModel; further arguments: those of `exact_states`."""
    return perplexity_heads(model, [model], tokens, *arguments, **options)[0]
