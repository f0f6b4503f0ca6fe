#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Builds targets in C with sanitizers by the system's GCC or Clang: pip's compiler brings no address sanitizer."""

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from pathlib import Path

from litetern.firmware.build import FOLDER as FIRMWARE, TIMEOUT, inputs
from litetern.model.paths import BUILD, ROOT

FOLDER     = Path(__file__).resolve().parent
CACHE      = BUILD/"fuzz"
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
INSTALL    = "no compiler here links the address sanitizer: apt-get install gcc (or clang)"
MULTILIB   = "no compiler here links 32-bit programs with the address sanitizer: apt-get install gcc-multilib"


def _run(command, **options):
    """ValueError with the first line that names an error."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, **options)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{command[0]}: did not end within {TIMEOUT} s") from None
    if done.returncode:
        lines = done.stdout.splitlines() or ["no output"]
        raise ValueError(next((line for line in lines if "error" in line.lower()), lines[0]))


@functools.lru_cache(maxsize=None)
def _links(compiler, flags):
    with tempfile.TemporaryDirectory() as work:
        source = Path(work)/"empty.c"
        source.write_text("int main(void) { return 0; }\n")
        try:
            _run([compiler, *shlex.split(flags), str(source), "-o", str(Path(work)/"empty")])
        except (OSError, ValueError):
            return False
    return True


def compiler(name=None, engine="driver", bits=64):
    """A compiler that links the sanitizers: `name`, or the first there is. ValueError with the line that installs one."""
    flags = SANITIZERS + (" -m32" if bits == 32 else "")
    for candidate in [name] if name else ["clang"] if engine == "libfuzzer" else ["gcc", "clang"]:
        if shutil.which(candidate) and _links(candidate, flags):
            return candidate
    raise ValueError(MULTILIB if bits == 32 else "libFuzzer wants clang: apt-get install clang" if engine == "libfuzzer" else INSTALL)


def build_target(name, headers={}, engine="driver", compiler_name=None, bits=64):
    """Builds NAME.c (of this folder, or an absolute path) with the firmware, or finds it in the cache: Path of the program.

    headers : {file name: text} that the target includes, too.
    engine  : "driver" (driver.c) or "libfuzzer".
    """
    chosen   = compiler(compiler_name, engine, bits)
    coverage = "-fsanitize=fuzzer-no-link" if engine == "libfuzzer" else "-fsanitize-coverage=trace-pc"
    machine  = " -m32 -msse2 -mfpmath=sse" if bits == 32 else ""
    sanitize = f"{SANITIZERS} -fno-omit-frame-pointer{machine}"
    key      = hashlib.sha256(repr((chosen, engine, sanitize, sys.version_info[:2])).encode())
    for path in [*inputs(), *sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h", ".py"))]:
        key.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    source  = FOLDER/f"{name}.c"
    folder  = CACHE/f"{engine}-{key.hexdigest()[:16]}"
    inner   = hashlib.sha256(repr((source.read_bytes(), sorted(headers.items()))).encode()).hexdigest()[:8]
    program = folder/f"{source.stem}-{inner}"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=CACHE) as work:
        library = _library(folder, Path(work), chosen, f"{sanitize} {coverage}")
        for file, text in headers.items():
            (Path(work)/file).write_text(text)
        flags   = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", *shlex.split(sanitize), f"-I{FOLDER}", *[f"-I{path}" for path in (FIRMWARE, *FIRMWARE.iterdir()) if path.is_dir()], f"-I{work}",
            *shlex.split((library.parent/"include").read_text())]
        objects = [str(Path(work)/"target.o")]
        _run([chosen, *flags, *shlex.split(coverage), "-c", str(source), "-o", objects[0]])
        if engine == "driver":
            objects.append(str(Path(work)/"driver.o"))
            _run([chosen, *flags, "-c", str(FOLDER/"driver.c"), "-o", objects[1]])
        else:
            objects.append(str(FOLDER/"libfuzzer.c"))
        _run([chosen, *flags, *(["-fsanitize=fuzzer"] if engine == "libfuzzer" else []), *objects, str(library), "-o", str(Path(work)/"program")])
        os.replace(Path(work)/"program", program)
    return program


def _library(folder, work, chosen, sanitize):
    """The firmware as a library for fuzzing, with its headers beside it."""
    library = folder/"firmware"/"litetern.a"
    if not library.exists():
        output  = work/"firmware"
        command = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(FIRMWARE), "TARGET=host", f"O={os.path.relpath(output, FIRMWARE)}",
            f"PYTHON={shlex.quote(sys.executable)}", f"CC={chosen}", "OPT=-O1", f"SANITIZE={sanitize}",
            f"{os.path.relpath(output, FIRMWARE)}/litetern.a"]
        _run(command, env={name: value for name, value in os.environ.items() if name not in ("CFLAGS", "MAKEFLAGS", "MAKELEVEL", "CROSS_COMPILE")})
        include = output/"include"
        include.write_text(include.read_text().replace(os.path.relpath(output, FIRMWARE), str(folder/"firmware")))
        try:
            os.replace(output, folder/"firmware")
        except OSError:  # Another process was first.
            if not library.exists():
                raise
    return library
