#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Builds the firmware by its Makefile and keeps each result under build/firmware/, named by a hash of all that goes in."""

import ctypes
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from pathlib import Path

from litetern.model.paths import BUILD, ROOT

FOLDER  = Path(__file__).resolve().parent
CACHE   = BUILD/"firmware"
TIMEOUT = 600  # Seconds: a build takes some.
OUTPUTS = {"a9": "litetern.elf", "aarch64": "litetern.elf", "host": "litetern.so", "litex": "litetern.elf"}
GCC     = {"a9": "arm-none-eabi-", "aarch64": "aarch64-linux-gnu-", "host": "", "litex": "riscv64-unknown-elf-"}

# Build --------------------------------------------------------------------------------------------


def inputs():
    """Every file (Path) that a build may depend on."""
    yield from sorted(path for path in FOLDER.rglob("*") if path.suffix in (".c", ".h", ".S", ".ld", ".py") or path.name == "Makefile")
    described = re.search(r"^DESCRIBED *= *(.*)$", (FOLDER/"Makefile").read_text(), re.M)[1].split()
    for pattern in described:
        yield from sorted(ROOT.glob(pattern))


def compiler(target="a9", name="clang"):
    """CROSS_COMPILE of a compiler: clang (from pip) or gcc (of the system); ValueError where it is missing."""
    if target not in OUTPUTS:
        raise ValueError(f"firmware target {target!r}: must be one of {', '.join(OUTPUTS)}")
    if name == "clang":
        return ""
    if name != "gcc":
        raise ValueError(f"compiler {name!r}: must be clang or gcc")
    if shutil.which(f"{GCC[target]}gcc") is None:
        raise ValueError(f"{GCC[target]}gcc not found: install it with your system's packages, or use clang")
    return GCC[target]


def build(target="a9", compiler_name="clang", defines=(), optimise="-O3", litex=None):
    """Builds a target, or finds it in the cache; returns the Path of the ELF or shared library.

    target   : "a9" (the firmware), "aarch64" (all but start code and drivers, to be emulated), "host" (the same, shared library).
               "litex" (the firmware of a LiteX SoC with VexRiscv).
    defines  : "NAME" or "NAME=value" for every source.
    litex    : of "litex": the folder of the SoC's headers (software/include of LiteX's build).
    ValueError with the compiler's first error where it does not build.
    """
    prefix  = compiler(target, compiler_name)
    options = [f"TARGET={target}", f"OPT={optimise}", "DEFINES=" + " ".join(f"-D{define}" for define in defines)]
    if prefix:
        options.append(f"CROSS_COMPILE={prefix}")
    key = hashlib.sha256(repr((options, sys.version_info[:2])).encode())
    for path in inputs():
        key.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    if litex is not None:
        options.append(f"LITEX={shlex.quote(str(Path(litex).resolve()))}")
        for path in sorted(Path(litex).glob("generated/*.h")):
            key.update(path.name.encode() + b"\0" + re.sub(rb"//[^\n]*", b"", path.read_bytes()))  # LiteX dates its comments.
    result = CACHE/f"{target}-{key.hexdigest()[:16]}"/OUTPUTS[target]
    if result.exists():
        return result
    if shutil.which("make") is None:
        raise ValueError("make not found: install it with your system's packages")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target}-", dir=CACHE) as work:
        # Make's targets hold no blanks, whatever the path of the tree; the shell's words may.
        command = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(FOLDER), f"O={os.path.relpath(work, FOLDER)}",
            f"PYTHON={shlex.quote(sys.executable)}", *options]
        environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS", "MAKEFLAGS", "MAKELEVEL", "CROSS_COMPILE",
            "LITEX")}
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise ValueError(f"firmware ({target}): the build did not end within {TIMEOUT} s") from None
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if "error" in line.lower()] or done.stdout.splitlines() or ["no output"]
            raise ValueError(f"firmware ({target}): {lines[0]}")
        kept = Path(work)/"kept"
        kept.mkdir()
        shutil.copy2(Path(work)/OUTPUTS[target], kept)
        if litex is None:
            shutil.copytree(Path(work)/"generated", kept/"generated")
            shutil.copy2(Path(work)/"csr.json", kept)
        try:
            os.replace(kept, result.parent)
        except OSError:  # Another process was first.
            if not result.exists():
                raise
    return result


def build_elf(compiler_name="clang", defines=(), optimise="-O3"):
    """The firmware of Zynq boards: Path of the ELF."""
    return build("a9", compiler_name, defines, optimise)


def build_host_library(defines=(), optimise="-O3"):
    """Everything but start code and drivers for this machine: Path of the shared library."""
    return build("host", "gcc" if shutil.which("gcc") else "clang", defines, optimise)


@functools.lru_cache(maxsize=None)
def load_host_library(defines=()):
    """The host library, loaded: ctypes.CDLL."""
    return ctypes.CDLL(str(build_host_library(defines)))


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
