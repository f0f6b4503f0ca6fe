#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteX's simulator of a SoC: compiled by LiteX's own makefiles, kept while its Verilog stays the same, and run."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

from pathlib import Path

from litetern.soc.tools.verilate import find_verilator

MODULES         = Path(__file__).resolve().parent
COMPILE_TIMEOUT = 1800  # Seconds, on a busy machine.
PIP_FLAGS       = "CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_STD=-std=gnu++17 CFG_LDLIBS_THREADS=-pthread"  # What `configure` would have found.
LIBRARIES       = {"event2/event.h": "libevent-dev", "json-c/json.h": "libjson-c-dev"}


class SimulatorError(RuntimeError):
    """The simulator could not be built or has come to an end: one line says why."""

# Build --------------------------------------------------------------------------------------------


def check_libraries():
    """SimulatorError where LiteX's simulator lacks a library of the system."""
    for header, package in LIBRARIES.items():
        probe = subprocess.run(["cc", "-E", "-x", "c", "-o", os.devnull, "-"], input=f"#include <{header}>\n", text=True,
            capture_output=True, timeout=60)
        if probe.returncode:
            raise SimulatorError(f"{header} not found: LiteX's simulator needs {package} (Debian: apt-get install {' '.join(LIBRARIES.values())})")


def copy_modules(folder):
    """Copies our simulator modules below `folder`, where LiteX writes beside them; returns (names, path) for its toolchain."""
    names = []
    for source in sorted(path for path in MODULES.iterdir() if (path/"Makefile").exists()):
        target = folder/source.name
        target.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            shutil.copyfile(file, target/file.name)
        names.append(source.name)
    return names, str(folder)


def _environment(folder):
    """Environment with a `verilator` on its PATH: the system's or pip's."""
    command, root, _ = find_verilator()
    environment      = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS")}
    if Path(command).name != "verilator":
        tools = folder/"tools"
        tools.mkdir(exist_ok=True)
        script = tools/"verilator"
        script.write_text(f"#!/bin/sh\nexec \"{command}\" \"$@\"\n")
        script.chmod(0o755)
        environment |= {"PATH": f"{tools}{os.pathsep}{environment['PATH']}", "VERILATOR_ROOT": str(root), "MAKEFLAGS": PIP_FLAGS}
    return environment


def compile_simulator(folder, sources=(), name="sim", say=lambda text: None):
    """Compiles what LiteX's builder has left in `folder`; memory contents and the modules' settings are read when it runs.

    sources : further Verilog files of the design, which decide with those in `folder` whether there is anything to do.
    say     : called with a line for people before something is compiled.
    """
    folder  = Path(folder)
    command = ["bash", f"build_{name}.sh"]
    inputs  = [folder/f"{name}.v", folder/f"{name}_init.cpp", folder/"sim_header.h", folder/"variables.mak", folder/f"build_{name}.sh",
        *map(Path, sources), *sorted(MODULES.glob("*/*.c"))]
    key     = hashlib.sha256(find_verilator()[2].encode())
    for path in inputs:
        text = re.sub(r"//[^\n]*", "", path.read_text()) if path.suffix == ".v" else path.read_text()  # LiteX dates its comments.
        key.update(text.encode())
    stamp = folder/"compiled"
    if stamp.exists() and stamp.read_text() == key.hexdigest() and (folder/"obj_dir"/"Vsim").exists():
        return
    stamp.unlink(missing_ok=True)
    check_libraries()
    say("building the simulator (once; 1 to 3 minutes)")
    try:
        done = subprocess.run(command, cwd=folder, env=_environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=COMPILE_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise SimulatorError(f"the simulator was not built within {COMPILE_TIMEOUT} s") from None
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if re.search(r"%Error|error:|undefined reference", line)] or done.stdout.splitlines()[-1:]
        raise SimulatorError(f"the simulator does not build: {lines[0] if lines else 'no output'}")
    stamp.write_text(key.hexdigest())

# Run ----------------------------------------------------------------------------------------------


def run_interactive(folder):
    """Hands the terminal to the simulator until it ends; returns its exit status."""
    settings = None
    if sys.stdin.isatty():
        import termios
        settings = termios.tcgetattr(sys.stdin.fileno())
    try:
        return subprocess.call(["obj_dir/Vsim"], cwd=folder)
    except KeyboardInterrupt:
        return 130
    finally:
        if settings is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, settings)


class Running:
    """A simulator that runs: `lines` is what it has printed, `wait_for` waits for a line, `stop` ends it."""
    def __init__(self, folder, echo=None):
        self.lines   = []
        self._echo   = echo
        self._news   = threading.Condition()
        self._over   = False
        self.process = subprocess.Popen(["obj_dir/Vsim"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if self._echo is not None:
                print(text, file=self._echo, flush=True)
            with self._news:
                self.lines.append(text)
                self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()

    def type(self, text):
        """Types on the console."""
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def wait_for(self, pattern, timeout, first=0):
        """(match, number) of the first line from number `first` on that matches; SimulatorError where it ends or time is over before."""
        def found():
            return next(((match, i) for i, line in enumerate(self.lines[first:], first) if (match := re.search(pattern, line))), None)
        with self._news:
            self._news.wait_for(lambda: self._over or found(), timeout)
            result = found()
        if result is None:
            last = next((line for line in reversed(self.lines) if line.strip()), "nothing")
            raise SimulatorError(f"the simulation {'ended' if self._over else f'went on for {timeout:g} s'} without {pattern!r}; "
                f"its last line is {last!r}")
        return result

    def wait(self, timeout):
        """Waits for its own end; SimulatorError where it does not come."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise SimulatorError(f"the simulation did not end within {timeout:g} s") from None
        self._reader.join(timeout)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(10)
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
