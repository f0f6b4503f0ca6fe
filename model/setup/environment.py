#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The project's Python environment: `.venv` in its root, made by `make setup`, entered by every script.

    python3 -m litetern.model.setup.bootstrap [EXTRA ...]    makes it, or brings it up to date (extras: see setup.py)

Standard library only, because it runs before anything is installed. A script that users start begins with ::

    if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
        import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
        from litetern.model.setup import environment; environment.enter("numpy")
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

from litetern.model.common.progress import Progress
from litetern.model.paths import BUILD, ROOT
from litetern.model.setup import packages
from litetern.model.setup.bootstrap import OLDEST

VENV   = ROOT/".venv"

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
CACHES      = ("", "pip", "zig", "YoWASP", "matplotlib", "huggingface")  # Folders of the user's cache that tools write to.


class SetupError(Exception):
    """One line that says what is missing and how to get it."""

# Enter --------------------------------------------------------------------------------------------


def use_cache():
    """Tools keep what they can make again in the user's cache, as they do by themselves; in build/ where that cannot be written."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        writable = cache.is_absolute() and all(os.access(cache/name, os.W_OK) for name in CACHES if (cache/name).exists())
    except OSError:
        writable = False
    if not writable:
        os.environ["XDG_CACHE_HOME"] = str(BUILD/"cache")


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
    use_cache()
    # The rooms are those of the package alone: no module is there under two names.
    sys.path[:] = [place for place in sys.path if pathlib.Path(place).resolve() != ROOT]
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


def _apt(names, purpose):
    """Installs Debian packages as root; SetupError with the command to type for everybody else."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", *names]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"{purpose} is missing: run `sudo {' '.join(command)}` (or your system's equivalent), then try again")
    print(f"Installing {' '.join(names)} ({purpose}) with apt-get", flush=True)
    lines = []
    for step in (["apt-get", "update", "-q"], command):
        try:
            done = subprocess.run(step, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=APT_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise SetupError(f"`{' '.join(step)}` did not end within {APT_TIMEOUT} s") from None
        lines += done.stdout.splitlines()
        # A stale third-party list is no reason to stop: the installation itself decides.
        if done.returncode and step is command:
            raise SetupError(f"`{' '.join(step)}` failed: {packages.apt_reason(lines)}")


def _pip(arguments):
    """Runs pip of `.venv`, its many lines condensed to what is being fetched now."""
    pip      = [str(VENV/"bin"/"python"), "-I", "-m", "pip"]
    progress = Progress(sys.stdout)
    lines    = []
    try:
        environment = packages.pip_environment(pip)
    except ValueError as error:
        raise SetupError(f"pip's configuration cannot be read: {error}") from None
    with subprocess.Popen([*pip, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as process:
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
        raise SetupError(f"pip could not install the packages: {packages.reason(lines)}")


def _recipe():
    """What an environment was made from: it is as new as setup.py, the Python that made it and its place."""
    return hashlib.sha256((ROOT/"setup.py").read_bytes() + sys.version.encode() + str(ROOT).encode()).hexdigest()


def _python_works():
    """Whether `.venv` has a Python of this version, and pip."""
    check = f"import pip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    try:
        return subprocess.run([str(VENV/"bin"/"python"), "-I", "-c", check], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _venv():
    """An empty `.venv` of this Python."""
    own     = pathlib.Path(sys.prefix).resolve() == VENV  # It cannot make itself anew.
    command = [sys._base_executable if own else sys.executable, "-m", "venv", "--clear", str(VENV)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        raise SetupError(f"`{' '.join(command)}` did not end within 600 s") from None
    if done.returncode:
        raise SetupError(f"`{' '.join(command)}` failed: {(done.stdout.strip().splitlines() or ['it says nothing'])[-1]}")


def make(extras=()):
    """Makes `.venv` or brings it up to date; returns at once where nothing has changed. Raises SetupError."""
    for extra in extras:
        for command, package, purpose in SYSTEM_TOOLS.get(extra, ()):
            if shutil.which(command) is None and not pathlib.Path(command).is_file():
                _apt([package], purpose)
    # The stamp holds the recipe, the extras that are there (they stay when others are asked for) and, in its second line, all packages.
    use_cache()
    stamp, recipe  = VENV/".made", _recipe()
    first, second  = (stamp.read_text() + "\n\n").split("\n")[:2] if stamp.exists() else ("", "")
    made, *there   = first.split() or [""]
    if made == recipe and set(extras) <= set(there) and (VENV/"bin"/"python").exists():
        if second and set(second.split()) <= packages.there(VENV):
            return
    extras = sorted({*extras, *there})
    start = time.monotonic()
    print(f"Setting up the Python environment in {VENV} (once; about a minute)", flush=True)
    # ensurepip is a package of its own on Debian, and the environment's own Python is gone after an upgrade of the system's.
    if importlib.util.find_spec("ensurepip") is None:
        _apt([f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"], "Python's venv module")
    if not _python_works():
        _venv()
    packages.remove_broken(VENV)
    # Without the option pips up to Debian 12's link the project by `setup.py develop`, which leaves nothing of what it requires.
    _pip(["install", "--use-pep517", "-e", f".[{','.join(extras)}]" if extras else "."])
    lacking = packages.lacking(VENV, extras)
    if lacking:
        raise SetupError(f"pip reports no error, but {VENV} lacks {', '.join(lacking)}")
    stamp.write_text(f"{' '.join([recipe, *extras])}\n{' '.join(sorted(packages.there(VENV)))}\n")
    print(f"Environment ready after {time.monotonic() - start:.0f} s", flush=True)


def main():
    os.chdir(ROOT)
    try:
        make(tuple(sys.argv[1:]))
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except OSError as error:
        sys.exit(f"setup: {error.filename or VENV}: {error.strerror}")
    except subprocess.SubprocessError as error:  # A time-out.
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: stopped; the next call goes on")
