#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Images: what is written is read back; damaged, foreign and impossible ones are refused by numpy and by C on every build."""

import ctypes
import dataclasses

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.model.formats.config import GROUPS
from litetern.model.formats.head import with_head
from litetern.model.formats.image import (
    ALIGNMENT, IMAGE_HEADER, LAYER_RECORD, LAYERS_MAX, LENGTH_MAX, VERSION, image_parts, read_header, read_image, write_image,
)
from litetern.model.formats.shapes import SHAPES as PUBLISHED
from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY

from firmware_builds import BUILDS, firmware_build
from tiny_model import changed, tiny_image, tiny_model, with_int8_body

DRAWN = settings(max_examples=60, deadline=None, derandomize=True)

(OK, SHORT, MAGIC, WRONG_VERSION, SIZE, LIMIT, HEADER_CRC, BODY_CRC, SHAPE, ATTENTION, OFFSET, VALUE) = range(12)

HEADER_OFFSETS = ("embedding", "embedding_steps", "head", "head_steps", "final_norm", "cosine", "sine", "tokenizer", "metadata")
LAYER_OFFSETS  = ("attn_norm", "qkv", "o_norm", "o", "ffn_norm", "gate_up", "down_norm", "down", "k_steps", "v_steps")
SCALES         = ("q_scale", "k_scale", "v_scale", "o_scale", "gate_scale", "up_scale", "down_scale")


@pytest.fixture(scope="module")
def image():
    return tiny_image(seed=2)[0]


@pytest.fixture(params=[name for name in BUILDS if name != "checker"], scope="module")
def c(request):
    return firmware_build(request.param)


def check(c, image, limit=None, body=True, length=None):
    """enum image_error of the C check."""
    c.free()
    return c.call("image_check", c.put(bytes(image)), len(image) if length is None else length, len(image) if limit is None else limit,
        body) & 0xFFFFFFFF


def refused(image, tmp_path, match):
    path = tmp_path/"model.tern"
    path.write_bytes(image)
    with pytest.raises(ValueError, match=match) as error:
        read_image(path)
    assert "\n" not in str(error.value)

# Good images --------------------------------------------------------------------------------------


def test_read_gives_what_was_written(tmp_path):
    model = tiny_model(seed=3, tied=False, kv_heads=4, activation="relu2", sub_norms=False)
    path  = tmp_path/"model.tern"
    assert write_image(model, path) == path.stat().st_size
    again = read_image(path)
    assert again.config == dataclasses.replace(model.config, norm_eps=float(np.float32(model.config.norm_eps)))
    assert (again.name, again.bos, again.add_bos, again.ends) == (model.name, model.bos, model.add_bos, model.ends)
    for name in ("embedding", "embedding_steps", "head", "head_steps", "final_norm", "cosine", "sine"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for one, other in zip(again.layers, model.layers):
        for name in model.config.vectors:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in GROUPS:
            np.testing.assert_array_equal(getattr(one, name).unpack(), getattr(other, name).unpack())
            assert getattr(one, name).sections == getattr(other, name).sections


@pytest.mark.parametrize("head", [(), ("ternary", 1), ("ternary", 3), ("hybrid", 2, 9)])
@pytest.mark.parametrize("shape", [{}, {"tied": False, "kv_heads": 4, "context": 7}, {"vocab": 33, "layers": 1, "ffn": 8}])
@pytest.mark.parametrize("body", [FORMAT_TERNARY, FORMAT_INT8])
def test_size_is_known_before_there_is_an_image(tmp_path, shape, head, body):
    """To the byte, of every format; the packer, the generator and the importers ask this one function."""
    model = tiny_model(**shape)
    if body == FORMAT_INT8:
        model = with_int8_body(model)
    model = dataclasses.replace(with_head(model, *head) if head else model, tokenizer=b"{}"*100, metadata=b'{"notes": []}')
    parts = image_parts(model.config, body, *(head[1:] + (0,))[:2] if head else (), tokenizer_bytes=200, metadata_bytes=13)
    assert write_image(model, tmp_path/"m.tern") == sum(parts.values()) == (tmp_path/"m.tern").stat().st_size


def test_shapes_of_published_models():
    """Counted by hand: q, k, v, o, gate, up, down of bitnet_b1_58-large; SmolLM2's nine query heads share three KV heads."""
    large, small = PUBLISHED["bitnet_b1_58-large"], PUBLISHED["SmolLM2-135M"]
    assert large.groups == {"qkv": (4608, 1536), "o": (1536, 1536), "gate_up": (8192, 1536), "down": (1536, 4096)}
    assert small.groups == {"qkv": (960, 576), "o": (576, 576), "gate_up": (3072, 576), "down": (576, 1536)}
    assert small.vectors == {"attn_norm": 576, "o_norm": 576, "ffn_norm": 576, "down_norm": 1536, "k_steps": 3, "v_steps": 3}


def test_a_failed_write_leaves_the_old_image(tmp_path, monkeypatch):
    path = tmp_path/"model.tern"
    write_image(tiny_model(), path)
    before = path.read_bytes()
    monkeypatch.setattr("litetern.model.formats.image.LENGTH_MAX", 1000)
    with pytest.raises(ValueError, match="must have at most 1,000"):
        write_image(tiny_model(seed=9), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_tensors_start_bursts(image):
    header, records = read_header(image)
    assert all(header[name] % ALIGNMENT == 0 for name in HEADER_OFFSETS)
    assert all(record[name] % ALIGNMENT == 0 for record in records for name in LAYER_OFFSETS)


def test_good(c, image):
    assert check(c, image) == OK
    assert check(c, image, limit=len(image) - 1) == LIMIT

# Damage -------------------------------------------------------------------------------------------


@DRAWN
@given(data=st.data())
def test_one_bit(c, image, data):
    bit    = data.draw(st.integers(0, 8*len(image) - 1))
    broken = bytearray(image)
    broken[bit//8] ^= 1 << bit % 8
    assert check(c, broken) != OK
    # Without the body's CRC, steps, gains and tables are still looked at.
    header = IMAGE_HEADER.size + read_header(image)[1].nbytes
    assert (check(c, broken, body=False) in (OK, VALUE)) == (bit//8 >= header)


@DRAWN
@given(data=st.data())
def test_truncated(c, image, data):
    length = data.draw(st.integers(0, len(image) - 1))
    assert check(c, image, length=length) == (SHORT if length < IMAGE_HEADER.size + read_header(image)[1].nbytes else SIZE)


@pytest.mark.parametrize("fields, error, text", [
    ({"magic": 0x12345678},        MAGIC,         "not a LiteTern image"),
    ({"version": VERSION + 1},     WRONG_VERSION, f"version {VERSION + 1}"),
    ({"image_bytes": 1 << 20},     SIZE,          "bytes long"),
])
def test_foreign(c, image, tmp_path, fields, error, text):
    broken = changed(image, **fields)
    assert check(c, broken, limit=1 << 30) == error
    refused(broken, tmp_path, text)


def test_damage_in_numpy(image, tmp_path):
    refused(image[:100], tmp_path, "too few")
    refused(image[:-1], tmp_path, "truncated")
    refused(image[:-1] + b"x", tmp_path, "CRC-32 of the body")
    refused(image[:40] + b"x" + image[41:], tmp_path, "header")
    with pytest.raises(ValueError, match="cannot be read"):
        read_image(tmp_path/"none.tern")


def test_texts(c):
    for error in range(14):
        text = bytes(c_string(c, c.call("image_error_text", error)))
        assert 10 < len(text) < 120 and b"\n" not in text


def c_string(c, address):
    """Bytes of a C string anywhere in a build's address space."""
    if hasattr(c, "uc"):
        return bytes(c.uc.mem_read(address, 200)).split(b"\0")[0]
    return ctypes.string_at(address)

# Impossible headers with a CRC that fits -------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"hidden": 0}, {"hidden": 68}, {"hidden": 1 << 20}, {"ffn": 7}, {"heads": 0}, {"heads": 2**31}, {"kv_heads": 0},
    {"kv_heads": 3}, {"head_dim": 0}, {"head_dim": 12}, {"head_dim": 136}, {"vocab": 0}, {"vocab": 1}, {"context": 0}, {"activation": 2},
    {"sub_norms": 2}, {"head_format": 1}, {"head_format": 3}, {"head_planes": 1}, {"shortlist": 1}, {"body_format": 2},
    {"head_format": 1, "head_planes": 4}, {"head_format": 2, "head_planes": 1}, {"head_format": 2, "head_planes": 1, "shortlist": 131},
    {"bos": 130}, {"bos": 2**32 - 1}, {"add_bos": 2}, {"ends": 2**32 - 1}, {"ends": [1, 130, 1, 1, 1, 1, 1, 1], "ends_count": 2}, {"ends_count": 9},
    {"row_steps": 2}, {"body_format": 1, "row_steps": 1}])
def test_impossible_shape(c, image, fields):
    assert check(c, changed(image, **fields)) == SHAPE


@pytest.mark.parametrize("fields", [{"score_bits": 1}, {"score_bits": 17}, {"steps_per_nat": 0}, {"steps_per_nat": 46}, {"exp_bits": 0},
    {"exp_bits": 17}, {"mantissa_bits": 7}, {"mantissa_bits": 21}, {"mantissa_bits": 2**32 - 1}])
def test_impossible_softmax(c, image, tmp_path, fields):
    assert check(c, changed(image, **fields)) == ATTENTION
    refused(changed(image, **fields), tmp_path, f"{next(iter(fields))} = |exp table")


@pytest.mark.parametrize("fields", [{"score_bits": 8, "steps_per_nat": 16, "mantissa_bits": 18}, {"exp_bits": 3, "steps_per_nat": 45}])
def test_other_softmax(c, image, fields):
    """The image is good; whether an attention core has its resolution, the engine asks it."""
    assert check(c, changed(image, **fields)) == OK


@pytest.mark.parametrize("name, layer", [(name, None) for name in HEADER_OFFSETS] + [(name, 1) for name in LAYER_OFFSETS])
def test_offsets_outside(c, image, name, layer):
    for offset in (0, 128, 4, len(image) + 128, 2**32 - 128):
        assert check(c, changed(image, layer, **{name: offset})) == OFFSET
    # The last burst holds no tensor whole, but short vectors.
    assert check(c, changed(image, layer, **{name: len(image) - 128})) in (OFFSET, OK, VALUE)


@pytest.mark.parametrize("fields", [{"vocab": 1 << 20}, {"context": 1 << 20}, {"tokenizer_bytes": 2**32 - 1}, {"metadata_bytes": 1 << 20},
    {"hidden": 16384}, {"ffn": 16384}, {"body_format": 1}, {"row_steps": 1}, {"head_format": 1, "head_planes": 1},
    {"head_format": 2, "head_planes": 2, "shortlist": 1}])
def test_shapes_larger_than_the_image(c, image, fields):
    assert check(c, changed(image, **fields)) == OFFSET


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf")])
def test_values(c, image, value):
    assert check(c, changed(image, norm_eps=value)) == VALUE
    for name in SCALES:
        assert check(c, changed(image, 1, **{name: value})) == VALUE


@pytest.mark.parametrize("layers", [0, 4097, 2**32 - 1])
def test_layers(c, image, layers):
    assert check(c, changed(image, layers=layers)) in (SHORT, SHAPE, HEADER_CRC)

def test_metadata(image, tmp_path):
    header = read_header(image)[0]
    first  = int(header["metadata"])
    refused(changed(image, metadata_bytes=0), tmp_path, "metadata are no JSON object")
    refused(changed(image[:first] + b"[]" + image[first + 2:]), tmp_path, "metadata are no JSON object")
    refused(changed(image[:first] + b"\xff}" + image[first + 2:]), tmp_path, "metadata are no JSON object")


def test_long_names(tmp_path):
    """A name is cut between characters."""
    write_image(dataclasses.replace(tiny_model(), name="x" + "\u00e9"*60), tmp_path/"model.tern")
    assert read_image(tmp_path/"model.tern").name == "x" + "\u00e9"*31


@pytest.mark.parametrize("name, value", [("final_norm", np.nan), ("cosine", np.inf), ("embedding_steps", 0.0), ("head_steps", -1.0), ("sine", 1e-40)])
def test_the_packer_writes_no_such_image(tmp_path, name, value):
    model  = tiny_model(tied=False)
    values = getattr(model, name).copy()
    values.flat[-1] = value
    with pytest.raises(ValueError, match=f"tiny: {name} holds "):
        write_image(dataclasses.replace(model, **{name: values}), tmp_path/"model.tern")
    assert list(tmp_path.iterdir()) == []

# Host and firmware --------------------------------------------------------------------------------

SHAPES  = ({}, {"tied": False, "sub_norms": False}, {"head_dim": 8, "kv_heads": 1, "ffn": 8, "layers": 1, "vocab": 3, "context": 1})
NUMBERS = st.one_of(st.integers(0, 17), st.integers(0, 2**32 - 1), st.integers(0, 31).map(lambda bit: 1 << bit))
FLOATS  = st.one_of(st.floats(width=32), st.sampled_from([1e-9, 9e-10, 1e9, 1.1e9, 2.0**-40, 2.0**-41, 1e-40, -0.0, -1.0])).map(np.float32)
KEPT    = ("magic", "version", "header_crc", "body_crc", "name", "metadata", "metadata_bytes")  # Each looked at alone.


@st.composite
def damaged(draw, image):
    """The image with other values of one or two members, or with another float in a tensor, and CRCs that fit."""
    header, records = read_header(image)
    layer   = draw(st.sampled_from([None, *range(len(records))]))
    struct  = IMAGE_HEADER if layer is None else LAYER_RECORD
    record  = header if layer is None else records[layer]
    members = draw(st.lists(st.sampled_from([member for member in struct.members if member[0] not in KEPT]), min_size=1, max_size=2))
    values  = {}
    for name, kind, _ in members:
        old = record[name].max().item()
        if name.endswith(("norm", "steps", "sine")) and old and draw(st.booleans()):
            image = image[:old] + draw(FLOATS).tobytes() + image[old + 4:]
        elif kind == "f4":
            values[name] = draw(FLOATS)
        else:
            values[name] = draw(NUMBERS | st.integers(-9, 9).map(lambda step: max(old + step, 0)) | st.integers(-3, 3).map(
                lambda step: max(old + ALIGNMENT*step, 0)))
    return changed(image, layer, **values)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_host_and_firmware_agree(tmp_path, shape):
    """An image is good for both or for none, and what is refused is refused in a line."""
    c, path = firmware_build("host C scalar"), tmp_path/"model.tern"
    image   = tiny_image(seed=shape, **SHAPES[shape])[0]
    seen    = set()

    @settings(DRAWN, max_examples=400)
    @given(damaged(image))
    def agree(broken):
        path.write_bytes(broken)
        error = check(c, broken, limit=LENGTH_MAX)
        seen.add(error)
        try:
            read_image(path)
        except ValueError as refusal:
            assert error != OK and "\n" not in str(refusal) and str(path) in str(refusal)
        else:
            assert error == OK
    agree()
    assert seen >= {OK, SIZE, SHAPE, ATTENTION, OFFSET, VALUE}
