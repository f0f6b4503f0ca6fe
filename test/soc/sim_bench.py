#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""soc/sim.py as a command: simulators of a small shape, each in a folder that tests take turns with."""

import contextlib
import fcntl
import subprocess
import sys

from litetern.model.paths import ROOT

SHAPE  = {"ports": 1, "row_weights_max": 1024, "head_dim_max": 32, "queries_max": 2, "rows_max": 512}


@contextlib.contextmanager
def alone(folder):
    """Two runs of the tests at once take turns with a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder/"lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def command(folder, *options):
    """What users type for a simulator of `SHAPE` in a folder of its own."""
    shape = [word for name, value in SHAPE.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, str(ROOT/"soc"/"sim.py"), "--no-ident-version", "--opt-level", "O1", "--output-dir", str(folder), *shape, *options]


def build(folder, *options):
    """Builds a simulator; returns the folder to run it in."""
    done = subprocess.run(command(folder, "--build-only", *options), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return folder/"gateware"
