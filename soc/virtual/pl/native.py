#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Small C files of the virtual board as shared libraries, cached under build/native/."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from pathlib import Path

from litetern.model.paths import BUILD

CACHE   = BUILD/"native"
FLAGS   = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall"]
TIMEOUT = 120  # Seconds.


def load(path):
    """Builds a C file, or finds it in the cache; returns it loaded (ctypes.CDLL)."""
    path     = Path(path)
    compiler = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    key      = hashlib.sha256(repr((compiler, FLAGS)).encode() + path.read_bytes()).hexdigest()[:16]
    library  = CACHE/f"{path.stem}-{key}.so"
    if not library.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            built = Path(work)/library.name
            done  = subprocess.run([*compiler, *FLAGS, str(path), "-o", str(built)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=TIMEOUT)
            if done.returncode:
                raise ValueError(f"{path.name}: {next((line for line in done.stdout.splitlines() if 'error' in line), 'does not compile')}")
            os.replace(built, library)
    return ctypes.CDLL(str(library))
