#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Runs the project's commands on hostile files: each run in a process of its own with a bound of its memory, its time taken from its start.

    python test/host/hostile_run.py    reads lines of JSON [script, [argument, …], file of its stdout, file of its stderr] and answers each with
                                  [status, seconds of the CPU, seconds] of a process that has all modules already: five times as many runs
                                  in the time, for the many cases of a kind.
"""

import importlib
import json
import os
import resource
import signal
import subprocess
from litetern.model.paths import ROOT
import sys
import time

from dataclasses import dataclass


MEMORY   = 1 << 30  # Bytes of the address space of each process, those of the sandbox, too: what is mapped counts, used or not.
SECONDS  = 5        # Of the CPU, from the start of the process, those that it waited for, too.
PATIENCE = 60       # Seconds until its end: other processes may have the CPUs.

SCRIPTS = {"pack": "host/pack.py", "chat": "host/chat.py"}
THREADS = {"OPENBLAS_NUM_THREADS": "1"}  # Each maps 40 MB; a run is short.


@dataclass(frozen=True)
class Ended:
    """status: as of subprocess; cpu, seconds: that it took; out, err: what it wrote (str)."""
    status  : int
    cpu     : float
    seconds : float
    out     : str
    err     : str

# Processes ----------------------------------------------------------------------------------------


def _limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait(pid, start):
    """(status, seconds of the CPU, seconds) of a child, which is ended when it takes too long."""
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, time.monotonic() - start
        if time.monotonic() - start > PATIENCE:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _read(path):
    return path.read_text("utf-8", errors="backslashreplace")


def run_clean(command, arguments, folder):
    """Ended of a command ("pack", "chat") that is started as users do; what it writes goes to files in a folder."""
    out, err, start = folder/"stdout", folder/"stderr", time.monotonic()
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        process = subprocess.Popen([sys.executable, str(ROOT/SCRIPTS[command]), *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=out_file, stderr=err_file, env={**os.environ, **THREADS}, preexec_fn=_limit, cwd=ROOT)
        process.returncode, cpu, seconds = _wait(process.pid, start)
    return Ended(process.returncode, cpu, seconds, _read(out), _read(err))


class Server:
    """A process that has imported what the commands need, and forks for each run."""
    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **THREADS}, cwd=ROOT)

    def run(self, command, arguments, folder):
        """As `run_clean`; the time begins with the fork."""
        out, err = folder/"stdout", folder/"stderr"
        self._process.stdin.write(json.dumps([SCRIPTS[command], [str(argument) for argument in arguments], str(out), str(err)]) + "\n")
        self._process.stdin.flush()
        return Ended(*json.loads(self._process.stdout.readline()), _read(out), _read(err))

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE)

# Server -------------------------------------------------------------------------------------------


def _become(console, script, arguments, out, err):
    """The forked process: as if the script had been started, its modules being there."""
    _limit()
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv = [str(ROOT/script), *arguments]
    console.run(importlib.import_module(script.removesuffix(".py").replace("/", ".")).main)


def main():
    sys.path[0] = str(ROOT)
    console     = importlib.import_module("litetern.model.common.console")
    for script in SCRIPTS.values():
        importlib.import_module(script.removesuffix(".py").replace("/", "."))
    requests = open(os.dup(0), encoding="utf-8")  # sys.stdin stays as new for the commands.
    while line := requests.readline():
        start, pid = time.monotonic(), os.fork()
        if not pid:
            _become(console, *json.loads(line))
        print(json.dumps(_wait(pid, start)), flush=True)


if __name__ == "__main__":
    main()
