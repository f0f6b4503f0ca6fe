#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The project's Python environment: `.venv` in its root, made by `make setup`, entered by every script.

    python3 -m model.environment [EXTRA ...]    makes it, or brings it up to date (extras: see setup.py)

Standard library only, because it runs before anything is installed. A script that users start begins with ::

    if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
        import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
        from model import environment; environment.enter("numpy")
"""

import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from model.progress import Progress

ROOT   = pathlib.Path(__file__).resolve().parent.parent
VENV   = ROOT/".venv"
OLDEST = (3, 10)

# What pip cannot bring, by extra: (command or header, Debian package, what it is for).
SIM_LIBRARIES = [
    ("/usr/include/event2/event.h",  "libevent-dev",  "LiteX's simulator"),
    ("/usr/include/json-c/json.h",   "libjson-c-dev", "LiteX's simulator"),
]
SYSTEM_TOOLS = {
    "sim":  SIM_LIBRARIES,
    "test": [("arm-none-eabi-gcc", "gcc-arm-none-eabi", "the second ARM compiler"), *SIM_LIBRARIES],
}

APT_TIMEOUT = 1800  # Seconds.


class SetupError(Exception):
    """One line that says what is missing and how to get it."""

# Enter --------------------------------------------------------------------------------------------


def _report(kind, error, trace):
    """Ctrl-C while modules are imported is no fault that wants a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print(f"\n{pathlib.Path(sys.argv[0]).name}: stopped", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def enter(*modules, extra=""):
    """Starts the running script again under `.venv` where this Python lacks one of `modules`.

    Ends the program with one line where `.venv` lacks it too; `extra` is the extra of setup.py that brings it. Who asks for help
    alone gets the script's own text then.
    """
    sys.excepthook = _report
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing and sys.version_info >= OLDEST:
        return
    python = VENV/"bin"/"python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != VENV:
        os.execv(str(python), [str(python), *sys.argv])
    name = pathlib.Path(sys.argv[0]).name
    line = f"needs {', '.join(missing)}: run `make setup{extra and ' EXTRAS='}{extra}` in {ROOT}"
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(f"usage: {name} [options]\n\n{sys.modules['__main__'].__doc__ or ''}\nThe list of options {line}")
        sys.exit(0)
    sys.exit(f"{name}: {line}")

# Make ---------------------------------------------------------------------------------------------


def _apt(packages, purpose):
    """Installs Debian packages as root; SetupError with the command to type for everybody else."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"{purpose} is missing: run `sudo {' '.join(command)}` (or your system's equivalent), then try again")
    print(f"Installing {' '.join(packages)} ({purpose}) with apt-get", flush=True)
    for step in (["apt-get", "update", "-q"], command):
        try:
            done = subprocess.run(step, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=APT_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise SetupError(f"`{' '.join(step)}` did not end within {APT_TIMEOUT} s") from None
        # A stale third-party list is no reason to stop: the installation itself decides.
        if done.returncode and step is command:
            raise SetupError(f"`{' '.join(step)}` failed: {done.stdout.strip().splitlines()[-1]}")


def _pip(arguments):
    """Runs pip of `.venv`, its many lines condensed to what is being fetched now."""
    command  = [str(VENV/"bin"/"python"), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    progress = Progress(sys.stdout)
    lines    = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            fetched = re.match(r"\s*(?:Downloading|Using cached|Processing)\s+(?:\S*/)?([^-\s]+)-([^-\s]+)\S*(?: \(([\d.]+ .?B)\))?", line)
            if fetched:
                size = f" ({fetched[3]})" if fetched[3] else ""
                progress.show(f"  fetching {fetched[1]} {fetched[2]}{size}")
            elif line.startswith("Installing collected packages"):
                progress.show(f"  installing {line.count(',') + 1} packages")
    progress.end()
    if process.returncode:
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["it says nothing"]
        raise SetupError(f"pip could not install the packages: {errors[-1]}")


def _recipe():
    """What an environment was made from: it is as new as setup.py, the Python that made it and its place."""
    return hashlib.sha256((ROOT/"setup.py").read_bytes() + sys.version.encode() + str(ROOT).encode()).hexdigest()


def make(extras=()):
    """Makes `.venv` or brings it up to date; returns at once where nothing has changed. Raises SetupError."""
    if sys.version_info < OLDEST:
        raise SetupError(f"Python {sys.version.split()[0]} is too old: LiteTern needs {OLDEST[0]}.{OLDEST[1]} or newer "
            "(`make PYTHON=python3.x ...` chooses another one)")
    for extra in extras:
        for command, package, purpose in SYSTEM_TOOLS.get(extra, ()):
            if shutil.which(command) is None and not pathlib.Path(command).is_file():
                _apt([package], purpose)
    # The stamp holds the recipe and the extras that are there: those stay when others are asked for.
    stamp, recipe = VENV/".made", _recipe()
    made, *there  = stamp.read_text().split() if stamp.exists() else [""]
    if made == recipe and set(extras) <= set(there) and (VENV/"bin"/"python").exists():
        return
    extras = sorted({*extras, *there})
    start = time.monotonic()
    print(f"Setting up the Python environment in {VENV} (once; about a minute)", flush=True)
    # ensurepip is a package of its own on Debian, and the environment's own Python is gone after an upgrade of the system's.
    if importlib.util.find_spec("ensurepip") is None:
        _apt([f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"], "Python's venv module")
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=600)
    if done.returncode:
        raise SetupError(f"`{sys.executable} -m venv {VENV}` failed: {done.stdout.strip().splitlines()[-1]}")
    _pip(["install", "-e", f".[{','.join(extras)}]" if extras else "."])
    stamp.write_text(" ".join([recipe, *extras]))
    print(f"Environment ready after {time.monotonic() - start:.0f} s", flush=True)


def main():
    os.chdir(ROOT)
    try:
        make(tuple(sys.argv[1:]))
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: stopped; the next call goes on")


if __name__ == "__main__":
    main()
