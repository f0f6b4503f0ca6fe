#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Files made once: whole or not there, after a torn write, a killed process, and with several at once."""

import subprocess
import sys

import pytest

from litetern.model.common.cache import cached, key_of
from litetern.model.paths import ROOT


def test_made_once(tmp_path):
    made = []
    make = lambda partial: (made.append(partial), partial.write_text("whole"))
    for _ in range(2):
        assert cached(tmp_path/"a"/"file.so", make).read_text() == "whole"
    assert len(made) == 1 and made[0].name == "file.so" and [path.name for path in (tmp_path/"a").iterdir()] == ["file.so"]


def test_a_torn_write_leaves_nothing(tmp_path):
    def torn(partial):
        partial.write_text("ha")
        raise OSError("no space")
    with pytest.raises(OSError, match="no space"):
        cached(tmp_path/"file", torn)
    assert list(tmp_path.iterdir()) == []
    assert cached(tmp_path/"file", lambda partial: partial.write_text("half and half")).read_text() == "half and half"


CODE = """
import os, sys
sys.path[0] = sys.argv[1]
from litetern.model.common.cache import cached
def make(partial):
    with open(partial, "w") as file:
        file.write("x"*1000)
        file.flush()
        {middle}
        file.write(sys.argv[3]*1000)
print(cached(sys.argv[2], make).read_text()[1000:] in ("1"*1000, "2"*1000))
"""


def start(middle, path, number):
    return subprocess.Popen([sys.executable, "-c", CODE.format(middle=middle), str(ROOT), str(path), number], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True)


def test_a_process_that_dies_leaves_no_file(tmp_path):
    assert start("os._exit(9)", tmp_path/"file", "1").wait(timeout=60) == 9
    assert not (tmp_path/"file").exists()
    assert start("pass", tmp_path/"file", "2").communicate(timeout=60)[0] == "True\n"


def test_two_processes_at_once(tmp_path):
    """Both have begun before either ends: each finds a whole file, one of the two."""
    middle = "print('begun', flush=True); sys.stdin.readline()"
    both   = [start(middle, tmp_path/"file", number) for number in "12"]
    assert [process.stdout.readline() for process in both] == ["begun\n"]*2 and not (tmp_path/"file").exists()
    assert [process.communicate("\n", timeout=60)[0] for process in both] == ["True\n"]*2
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and len((tmp_path/"file").read_text()) == 2000


def test_keys_tell_parts_apart():
    keys = [key_of(*parts) for parts in ((b"ab", b"c"), (b"a", b"bc"), (b"abc",), ("abc",), (b"'abc'",), ("ab", "c"), ())]
    assert len(set(keys)) == len(keys) and key_of(b"ab", b"c") == keys[0]
