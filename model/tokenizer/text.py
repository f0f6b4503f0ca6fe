#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Text as windows of tokens, for calibration and perplexity."""

import numpy as np

from litetern.model.common.files import TEXT_LIMIT, read_text

SEPARATOR = "<|endoftext|>"  # Between the records of a story file; a line of its own.
BATCH     = 64               # Records that the tokenizer gets at once.


def read_records(path):
    """Records (str) of a text file: split at separator lines; a file without them is one record."""
    records = [record.strip("\n") for record in read_text(path, TEXT_LIMIT).split(SEPARATOR)]
    records = [record for record in records if record]
    if not records:
        raise ValueError(f"{path}: holds no text")
    return records


def token_stream(records, tokenizer, before, most=None):
    """int32 [n]: the records' tokens one after another, `before` (tokens) before each; the first `most` of them.

    tokenizer: a `litetern.model.tokenizer.tokenizer.Tokenizer`.
    """
    tokens, first = [], 0
    while first < len(records) and (most is None or len(tokens) < most):
        for ids in tokenizer.encode_batch(records[first:first + BATCH]):
            tokens += [*before, *ids]
        first += BATCH
    return np.array(tokens[:most], np.int32)


def windows(tokens, length, stride=None):
    """Yields (int32 [≤ length + 1] tokens, first position that is scored) over the stream.

    Each token but the first is scored once; with stride < length a window repeats length − stride tokens as context.
    """
    stride = stride or length
    if not 1 <= stride <= length:
        raise ValueError(f"stride {stride}: must lie in 1 … {length}")
    scored = 0
    for start in range(0, len(tokens) - 1, stride):
        window = tokens[start:start + length + 1]
        yield window, scored - start
        scored = start + len(window) - 1
        if scored >= len(tokens) - 1:
            return
