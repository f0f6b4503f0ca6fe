#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The firmware's build, wherever the tree lies and whatever the environment says."""

import os
import shutil
import subprocess

import pytest

from litetern.firmware.build import OUTPUTS, build
from litetern.model.paths import ROOT
from litetern.model.setup.environment import VENV


@pytest.fixture
def tree(tmp_path):
    """A copy of the tree at a path that has to be quoted."""
    copy = tmp_path/"it's my tree"
    for room in ("cores", "firmware", "host", "model", "soc"):
        shutil.copytree(ROOT/room, copy/room, ignore=shutil.ignore_patterns("zoo", "__pycache__"))
    shutil.copy(ROOT/"litetern.py", copy)
    shutil.copy(ROOT/"setup.py", copy)
    (copy/".venv").symlink_to(VENV)
    return copy


@pytest.mark.parametrize("target", ["a9", "host"])
def test_path_with_blanks(tree, target):
    command = [tree/".venv"/"bin"/"python", "-c", f"from litetern.firmware.build import build; print(build({target!r}, optimise='-O0'))"]
    done    = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, env={**os.environ, "LITEX": "/nowhere", "O": "x", "OPT": "-Ox"})
    assert done.returncode == 0, done.stderr
    assert (tree/done.stdout.strip()).name == OUTPUTS[target] and str(tree) in done.stdout


def test_what_cannot_be_built():
    with pytest.raises(ValueError, match="firmware target 'z80': must be one of a9, "):
        build("z80")
    with pytest.raises(ValueError, match="compiler 'tcc': must be clang or gcc"):
        build("a9", "tcc")
    with pytest.raises(ValueError, match=r"firmware \(host\): .*error"):
        build("host", defines=("HEADS_MAX=)",))


def test_missing_tools(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ValueError, match="arm-none-eabi-gcc not found: install it"):
        build("a9", "gcc")
    with pytest.raises(ValueError, match="make not found: install it"):
        build("a9", defines=("NEVER_BUILT_BEFORE",))
