#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Small C files of the virtual board as shared libraries, cached under build/native/."""

import ctypes
import shutil
import subprocess
import sys

from pathlib import Path

from litetern.model.common.cache import cached, key_of
from litetern.model.paths import BUILD

CACHE   = BUILD/"native"
FLAGS   = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall"]
TIMEOUT = 120  # Seconds.


def load(path):
    """Builds a C file, or finds it in the cache; returns it loaded (ctypes.CDLL)."""
    path     = Path(path)
    compiler = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]

    def build(library):
        done = subprocess.run([*compiler, *FLAGS, str(path), "-o", str(library)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TIMEOUT)
        if done.returncode:
            raise ValueError(f"{path.name}: {next((line for line in done.stdout.splitlines() if 'error' in line), 'does not compile')}")

    return ctypes.CDLL(str(cached(CACHE/f"{path.stem}-{key_of(compiler, FLAGS, path.read_bytes())}.so", build)))
