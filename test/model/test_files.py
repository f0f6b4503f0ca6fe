#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Files and values of others: nothing but regular files of a sane size, JSON that means one thing, values of the type and range they must have."""

import json
import os
import pathlib
import socket

import numpy as np
import pytest

from litetern.model.common.fields import Fields, is_text, shown
from litetern.model.common.files import File, parse_json, read_bytes, read_json, read_text

# Files --------------------------------------------------------------------------------------------


def refused(call, *arguments):
    """The one line of a ValueError."""
    with pytest.raises(ValueError) as error:
        call(*arguments)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    return str(error.value)


def test_only_regular_files(tmp_path, monkeypatch):
    os.mkfifo(tmp_path/"pipe")
    (tmp_path/"zero").symlink_to("/dev/zero")
    (tmp_path/"loop").symlink_to(tmp_path/"loop")
    monkeypatch.chdir(tmp_path)  # A socket's path has a hundred characters at most.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name, line in (("pipe", "is a pipe"), ("zero", "is a device"), (".", "is a folder"), ("socket", "is a socket")):
            assert f"{line}, must be a regular file" in refused(read_bytes, tmp_path/name, 100)
    assert "cannot be read (Too many levels of symbolic links)" in refused(read_bytes, tmp_path/"loop", 100)
    assert "cannot be read (No such file or directory)" in refused(read_bytes, tmp_path/"none", 100)


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    path = tmp_path/"sparse"
    path.write_bytes(b"x")
    os.truncate(path, 1 << 40)
    assert "1,099,511,627,776 bytes long, such files have at most 100" in refused(read_bytes, path, 100)
    with File(path, 1 << 40) as file:
        assert "truncated or damaged" in refused(file.array, 8, "<f4", 1 << 20, 1 << 20)
        assert "truncated or damaged" in refused(file.array, -8, "<f4", 2)
        assert file.array(0, np.uint8, 3).tolist() == [ord("x"), 0, 0]


def test_files_that_change_while_they_are_read(tmp_path):
    (tmp_path/"f").write_bytes(bytes(100))
    with File(tmp_path/"f") as file:
        os.truncate(tmp_path/"f", 50)
        assert "became shorter while it was read" in refused(file.read, 0, 100)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/kmsg"])
def test_files_of_the_system_do_not_hang(path):
    """Their size is 0, whatever they hold; and nobody waits for what they may say next."""
    if pathlib.Path(path).exists():
        try:
            assert read_bytes(path, 100) == b""
        except ValueError as error:
            assert "cannot be read" in str(error)


def test_text(tmp_path):
    (tmp_path/"t").write_bytes(b"\xef\xbb\xbfhello")
    assert read_text(tmp_path/"t") == "hello"
    (tmp_path/"t").write_bytes(b"hell\xff")
    assert "cannot be read as UTF-8 text (invalid start byte at byte 4)" in refused(read_text, tmp_path/"t")

# JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, line", [
    ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' stands there twice"),
    ('{"a": NaN}',                      "NaN is no number of JSON"),
    ('{"a": -Infinity}',                "-Infinity is no number of JSON"),
    ("["*100000 + "]"*100000,           "nested too deeply"),
    ('{"a":'*100000 + "1" + "}"*100000, "nested too deeply"),
    ('{"a": }',                         "Expecting value"),
    ("",                                "Expecting value"),
    ("{} {}",                           "Extra data"),
])
def test_json_that_is_none(text, line):
    found = refused(parse_json, text.encode(), "config.json")
    assert found.startswith("config.json: cannot be read as JSON (") and line in found


def test_json_of_other_encodings():
    for data in (b'{"a": "\xff"}', '{"a": 1}'.encode("utf-16")):
        assert "cannot be read as JSON" in refused(parse_json, data, "config.json")


def test_long_numbers_take_no_time():
    """Python turns text of n digits to a whole number in n² steps."""
    assert parse_json(b"[" + b"9"*4000000 + b"]", "x") == [float("inf")]
    assert parse_json(b"[12345678901234567890, 1e400]", "x") == [12345678901234567890, float("inf")]


def test_json_objects(tmp_path):
    (tmp_path/"a.json").write_text("[1]")
    assert "a.json: holds a list, must be a JSON object" in refused(read_json, tmp_path/"a.json")

# Fields -------------------------------------------------------------------------------------------

STATED = {"null": None, "one": 1, "half": 0.5, "true": True, "word": "x", "list": [1, 2], "empty": [], "object": {"a": {"b": "c"}},
    "long": "x"*1000, "half character": "\ud800", "huge": 1e30, "nan": float("nan")}


def test_fields_read_what_is_stated():
    fields = Fields(STATED, "config.json")
    assert fields.whole("one", 1, 1) == 1 and fields.number("one", 0, 1) == 1.0 and fields.number("half", 0, 1) == 0.5
    assert fields.flag("true") is True and fields.text("word") == fields.choice("word", ("x", "y")) == "x"
    assert fields.wholes("list", 1, 2) == [1, 2] and fields.wholes("one", 1, 2) == [1]
    assert fields.fields("object").fields("a").text("b") == "c"
    # What is null is not stated.
    assert fields.whole("null", 1, 2, 7) == fields.whole("none", 1, 2, 7) == 7 and "null" not in fields and "one" in fields
    assert fields.fields("null").values == {} and fields.texts("none") == []


@pytest.mark.parametrize("read, line", [
    (lambda f: f.whole("none", 0, 9),          "config.json does not state none"),
    (lambda f: f.whole("null", 0, 9),          "config.json does not state null"),
    (lambda f: f.whole("one", 2, 1000),        "config.json: one 1: must be a whole number between 2 and 1,000"),
    (lambda f: f.whole("half", 0, 9),          "half 0.5: must be a whole number"),
    (lambda f: f.whole("true", 0, 9, 0),       "true true: must be a whole number"),
    (lambda f: f.whole("huge", 0, 9),          "huge 1e+30: must be a whole number"),
    (lambda f: f.number("word", 0, 9),         'word "x": must be a number between 0 and 9'),
    (lambda f: f.number("true", 0, 9),         "true true: must be a number"),
    (lambda f: f.number("nan", 0, 9),          "nan NaN: must be a number"),
    (lambda f: f.flag("word"),                 'word "x": must be true or false'),
    (lambda f: f.flag("one"),                  "one 1: must be true or false"),
    (lambda f: f.text("one"),                  "one 1: must be text of at most 255 characters"),
    (lambda f: f.text("long"),                 f'long "{"x"*59}…: must be text'),
    (lambda f: f.text("half character"),       "must be text"),
    (lambda f: f.choice("word", ("a", "b")),   'word "x": must be one of a, b'),
    (lambda f: f.choice("list", ("a", "b")),   "list [1, 2]: must be one of a, b"),
    (lambda f: f.fields("list"),               "list [1, 2]: must be an object"),
    (lambda f: f.fields("object").whole("a", 0, 1), 'config.json: object: a {"b": "c"}: must be a whole number'),
    (lambda f: f.texts("list"),                "list [1, 2]: must be a list of texts"),
    (lambda f: f.wholes("empty", 0, 9),        "empty []: must be a whole number between 0 and 9, or a list of such"),
    (lambda f: f.wholes("list", 0, 1),         "list [1, 2]: must be"),
])
def test_fields_refuse_by_name(read, line):
    assert line in refused(read, Fields(STATED, "config.json"))


def test_wrong_values_are_shown_short():
    assert shown(list(range(1000000))) == "(a list of 1,000,000)" and shown(dict.fromkeys(range(9))) == "(an object of 9)"
    assert len(shown([["x"*10000]*3])) < 70 and shown("\x1b[2J") == json.dumps("\x1b[2J") and not is_text("\udfff")
