#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Random models in the board's numbers, of any shape, as images that the firmware takes."""

import dataclasses
import tempfile
import zlib

from pathlib import Path

import numpy as np

from litetern.model.formats.config import GROUPS
from litetern.model.formats.image import IMAGE_HEADER, LAYER_RECORD, LAYERS_MAX, read_image, write_image
from litetern.model.numerics.micro import SHAPE, micro_model as tiny_model
from litetern.model.numerics.quantised import Group


def with_int8_body(model, seed=1):
    """The model with random int8 matrices in its decoder blocks."""
    random = np.random.default_rng(seed)

    def group(old):
        rows = len(old.packed)
        return Group.from_int8([(random.integers(-127, 128, (rows, old.columns)).astype(np.int8), random.uniform(5e-4, 2e-3, rows))])

    return dataclasses.replace(model, layers=[dataclasses.replace(layer, **{name: group(getattr(layer, name))
        for name in GROUPS}) for layer in model.layers])


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


def changed(image, layer=None, **fields):
    """The image with fields of the header (or of a layer's record) replaced and CRCs that fit."""
    data    = bytearray(image)
    header  = np.frombuffer(data, IMAGE_HEADER.dtype, 1)
    count   = int(header["layers"][0])
    records = np.frombuffer(data, LAYER_RECORD.dtype, count, IMAGE_HEADER.size)
    for name, value in fields.items():
        (header[0] if layer is None else records[layer])[name] = value
    header["header_crc"] = 0
    end = IMAGE_HEADER.size + min(int(header["layers"][0]), LAYERS_MAX)*LAYER_RECORD.size
    header["body_crc"] = zlib.crc32(bytes(data[end:]))
    header["header_crc"] = zlib.crc32(bytes(data[:end]))
    return bytes(data)
