#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The tiny checkpoints of test/importers/golden (see make_golden.py) as files, and the measures by which models are compared."""

import pathlib

import numpy as np

from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.numerics.reference import ReferenceModel

FOLDER  = pathlib.Path(__file__).resolve().parent/"golden"
FORMATS = tuple(sorted(path.stem for path in FOLDER.glob("*.npz")))


class Golden:
    """path: the checkpoint as `load_checkpoint` takes it; tokens, logits: what the library computed."""
    def __init__(self, name, folder, arrays=None):
        arrays = np.load(FOLDER/f"{name}.npz") if arrays is None else arrays
        self.name, self.folder = name, pathlib.Path(folder)/name
        self.folder.mkdir(exist_ok=True)
        for key in arrays:
            if key.startswith("file:"):
                (self.folder/key[5:]).write_bytes(arrays[key].tobytes())
        self.tokens, self.logits = arrays["tokens"], arrays["logits"]
        files     = list(self.folder.iterdir())
        self.path = files[0] if len(files) == 1 else self.folder


def relative_error(logits, expected):
    """|difference| in units of the expected logits' standard deviation."""
    return np.abs(logits - expected)/expected.std()


def divergence(expected, logits):
    """float64 [...] Kullback-Leibler divergence in nats of two sets of logits over their last axis."""
    log_p, log_q = (x.astype(np.float64) - x.max(axis=-1, keepdims=True) for x in (expected, logits))
    log_p, log_q = (x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in (log_p, log_q))
    return (np.exp(log_p)*(log_p - log_q)).sum(axis=-1)


def calibrated(checkpoint, tokens):
    """QuantisedModel whose KV steps come from int [batch, positions] tokens."""
    config = checkpoint.config
    maxima = {name: np.zeros((config.layers, config.kv_heads), np.float32) for name in "kv"}

    def observe(layer, name, value):
        if name in maxima:
            maxima[name][layer] = np.maximum(maxima[name][layer], np.abs(value).max(axis=(0, 1, 3)))

    ReferenceModel(checkpoint, observe).logits(tokens)
    return quantise_checkpoint(checkpoint, *(maxima[name]/np.float32(127) for name in "kv"))
