#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A model that a virtual board runs in a fraction of a second a token, and what it says."""

import functools

from litetern.host.link.device import Sampling

from greedy import greedy
from tiny_model import tiny_image

PROMPT = [2, 3, 5, 7]
GREEDY = Sampling(ignore_eos=True)


@functools.lru_cache(maxsize=None)
def image():
    """(bytes, QuantisedModel); quick even where the emulated CPU does all of it."""
    return tiny_image(5)


def write_tiny(folder):
    """The image as a file of a folder: its Path."""
    file = folder/"tiny.tern"
    file.write_bytes(image()[0])
    return file


def reference(prompt, count):
    """(tokens, logits [count, vocab]) of greedy generation by the numpy definition."""
    return greedy(image()[1], prompt, count)


def tokens_of(events):
    return [event.token for event in events if event.kind == "token"]
