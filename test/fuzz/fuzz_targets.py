#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The targets: what they are, and the inputs that they begin with."""

import functools
import importlib
import struct

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from litetern.model.formats.head import with_head
from tiny_model import image_bytes, tiny_model, with_int8_body

# Images -------------------------------------------------------------------------------------------

SMALL = dict(hidden=16, heads=2, kv_heads=1, head_dim=8, ffn=24, layers=2, vocab=9, context=7)


@functools.cache
def images():
    """Images of all kinds of body and head, a few kilobytes each."""
    small = lambda **shape: tiny_model(**{**SMALL, **shape})
    return [image_bytes(model) for model in (small(), small(layers=1, context=1, vocab=3, ffn=8), small(tied=False, sub_norms=False, activation="relu2"),
        small(heads=4, kv_heads=4, layers=1), with_head(small(seed=2), "ternary", 2), with_head(small(seed=3), "hybrid", 1, 5),
        with_int8_body(small(seed=4, context=20)), with_head(with_int8_body(small(seed=5, layers=1)), "hybrid", 3, 9))]

# Link ---------------------------------------------------------------------------------------------


def links():
    """Deeds of link.c: bytes, frames, time, output, sending, holding."""
    frame = lambda connection, type, length=8, number=0, ack=0, flags=1, damage=0: struct.pack("<BBbbBBHH", 1, connection, number, ack, type, flags,
        length, damage)
    output, second = b"\3\x1f", b"\2" + struct.pack("<H", 4000)
    hello = frame(0, 1)
    return [hello + output, hello + output + b"".join(frame(0, 6, length) for length in (0, 1, 1024)) + output,
        hello + b"\4\x10\0"*9 + output + second + output + frame(0, 0, 0, ack=0, flags=3) + output,
        hello + frame(0, 6, damage=1) + frame(0, 6, damage=6) + second + frame(0, 6) + output + frame(1, 1) + frame(0, 6) + output,
        hello + b"\5\1" + frame(0, 6) + b"\5\0" + second + frame(0, 6) + output, b"\0\xff" + bytes(range(256))*2]

# Sampling -----------------------------------------------------------------------------------------


def samplings():
    """struct sampling_settings, how many tokens were seen, logits."""
    logits   = np.random.default_rng(1).normal(0, 3, 300).astype("<f4")
    settings = [(0, 0, 1, 1), (0.7, 40, 0.9, 1.3), (1, 0, 0.95, 0.5), (100, 256, 1, 10), (0.01, 1, 0, 0.1)]
    return [struct.pack("<fIffIIQ", *values, 0, 0, 42) + bytes([70*number % 256]) + logits[:1 + 60*number].tobytes()
        for number, values in enumerate(settings)]

# Targets ------------------------------------------------------------------------------------------


@dataclass
class Target:
    """name; what it takes; seeds() -> [bytes]; inputs of the short run; headers() -> {file name: text} that NAME.c includes, too."""
    name    : str
    what    : str
    seeds   : Callable
    inputs  : int
    headers : Callable = dict
    python  : bool     = False


def python_target(name, what, inputs):
    """A target whose module is NAME.py."""
    return Target(name, what, lambda: importlib.import_module(name).seeds(), inputs, python=True)


TARGETS = {target.name: target for target in (
    Target("image",    "images for the firmware; an accepted one runs three tokens", images,    1500),
    Target("link",     "frames and bytes for the board's end of the link",           links,     5000),
    Target("sampling", "settings and logits for the choice of a token",              samplings, 10000),
    python_target("importers", "checkpoints of others: folders, GGUF, llama2.c", 1000),
    python_target("talk",      "tokenizers and chat templates, in processes that can be ended", 40),
)}
