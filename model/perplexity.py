#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Perplexity of a checkpoint on a text: as trained (float), on the exact path, and with parts of it exact."""

import numpy as np

from model.exact import ExactModel
from model.reference import ReferenceModel
from model.text import windows


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
            progress(count, len(tokens) - 1, np.exp(total/count))
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
            progress(count, len(tokens) - 1, np.exp(total/count))
    return float(np.exp(total/count))
