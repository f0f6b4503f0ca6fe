#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Random models in the board's numbers, of any shape, as images that the firmware takes."""

import tempfile

from pathlib import Path

from model.image import read_image, write_image
from model.micro import SHAPE, micro_model as tiny_model


def image_bytes(model):
    """The image of a QuantisedModel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)/"tiny.tern"
        write_image(model, path)
        return path.read_bytes()


def tiny_image(seed=1, **shape):
    """(image bytes, QuantisedModel as read back from them)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)/"tiny.tern"
        write_image(tiny_model(seed, **shape), path)
        return path.read_bytes(), read_image(path)
