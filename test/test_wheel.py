#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The project as a wheel: one package, one command, nothing else in site-packages, and it works from any folder."""

import os
import subprocess
import sys
import zipfile

import pytest

from litetern.model.paths import ROOT

TIMEOUT = 300  # Seconds.


def run(command, cwd, **variables):
    done = subprocess.run([*map(str, command)], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT,
        env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **variables})
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree   = folder/"tree"  # What is tracked, or would be: a build leaves nothing in the checkout.
    for name in run(["git", "ls-files", "-co", "--exclude-standard"], ROOT).split("\n"):
        if (ROOT/name).is_file():
            (tree/name).parent.mkdir(parents=True, exist_ok=True)
            (tree/name).write_bytes((ROOT/name).read_bytes())
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, tree], folder)
    return next(folder.glob("litetern-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel's files in a folder of their own, beside the packages of this environment but without its link to the checkout."""
    site = tmp_path_factory.mktemp("site")
    run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel], site)
    return site


def test_wheel_holds_one_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"litetern"}
    tracked = run(["git", "ls-files", "cores", "firmware", "host", "model", "soc"], ROOT).split()
    assert {f"litetern/{name}" for name in tracked if (ROOT/name).exists()} <= set(names), "what a checkout has, the wheel has"


def litetern(installed, folder, *arguments):
    """Output of the command, run in another folder."""
    code = "import sys; sys.path.insert(0, %r); from litetern.host.cli import main; main()" % str(installed)
    return run([sys.executable, "-c", code, *arguments], folder, XDG_CACHE_HOME=str(folder/"cache"))


def test_commands(installed, tmp_path):
    assert (installed/"bin"/"litetern").exists()
    code = "import sys; sys.path.insert(0, %r); import litetern.model.paths as p; print(p.ROOT)" % str(installed)
    assert run([sys.executable, "-c", code], tmp_path).strip() == str(installed/"litetern")
    assert "usage: litetern COMMAND" in litetern(installed, tmp_path)
    assert litetern(installed, tmp_path, "pack", "--help").startswith("usage: litetern pack")


def test_chat_from_another_folder(installed, tmp_path):
    """The packed model of the zoo, the firmware's own build, the virtual board: nothing of it is in the checkout."""
    text = litetern(installed, tmp_path, "chat", "--pl", "c", "--prompt", "Once upon a time", "--tokens", "4", "--greedy", "--json")
    assert '"tokens"' in text
    assert (tmp_path/"cache"/"litetern"/"firmware").is_dir()
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]
