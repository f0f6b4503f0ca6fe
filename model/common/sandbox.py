#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Libraries that run what others wrote (tokenizers, chat templates), in a process of their own that can be ended.

Such a library can loop without end, take all memory, or end its process: bounds of time and memory are the process's. It is kept alive, so
that a call costs little more than in this one. It reads and writes lines of JSON ::

    {…}    ──►  handle(request), a function of a module
           ◄──  its answer, a dict, or {"error": line}
"""

import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import weakref

from litetern.model.paths import ROOT

SECONDS  = 2          # Of the CPU, for a request; what is meant well takes milliseconds.
PATIENCE = 30         # Seconds until the answer beside those, on a computer that is busy.
ANSWER   = 32 << 20   # Bytes of an answer.
ERROR    = 300        # Characters of an error.


class SandboxError(ValueError):
    """The library refuses or fails, as one line of its own says."""


class SandboxEnded(SandboxError):
    """It takes too much, or has ended its process: the line says which."""

# Host ---------------------------------------------------------------------------------------------


def _end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


class Sandbox:
    """module: its `handle(request)` answers in the process, which begins with the first call and anew after one that had to be ended.

    memory : bytes beside those of Python and the module.
    needs  : packages that the module imports; ModuleNotFoundError here where one is missing.
    """
    def __init__(self, module, memory, *needs):
        for name in needs:
            if importlib.util.find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}")
        self.module, self.memory = module, memory
        self._process = self._finish = None

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    def _start(self):
        # In a session of its own: Ctrl-C is for us alone. It ends with our end of the pipe. No threads: their time and memory are counted, too.
        self._process = subprocess.Popen([sys.executable, "-c", f"from litetern.model.common import sandbox; sandbox.serve({self.module!r}, {self.memory})"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1"})
        self._finish = weakref.finalize(self, _end, self._process)

    def close(self):
        if self._process is not None:
            self._finish()
            self._process = None

    def _exchange(self, line, patience, most):
        """The answer to a line (bytes); None where there is none in time or within `most` bytes."""
        out, answer, deadline = self._process.stdout.fileno(), bytearray(), time.monotonic() + patience
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([out], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(out, 1 << 16) if ready else b""
            if not data or len(answer) > most:
                return None
            answer += data
        return json.loads(answer)

    def ask(self, request, seconds=SECONDS, most=ANSWER):
        """The answer (dict) to a request (dict), for so many seconds of the CPU and bytes. Raises SandboxError, SandboxEnded."""
        if not self.running:
            self.close()
            self._start()
        answer = self._exchange(json.dumps({"seconds": seconds, "request": request}).encode() + b"\n", PATIENCE + 2*seconds, most)
        if answer is None:
            process = self._process
            self.close()
            raise SandboxEnded(self._reason(process.returncode, seconds))
        if "error" in answer:
            raise SandboxError(answer["error"])
        return answer

    def _reason(self, status, seconds):
        """Why a process has ended, or had to be."""
        if status == -signal.SIGPROF:
            return f"takes more than {seconds:.0f} s"
        if status == -signal.SIGKILL:  # By us.
            return "answers too late, or too much"
        if status == -signal.SIGABRT:  # What Rust does where memory ends.
            return f"takes more than {self.memory >> 20} MB, or its library gave up"
        return f"ended its process ({status})"

# Process ------------------------------------------------------------------------------------------


def _limit(kind, soft):
    """Lowers a limit of this process; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def serve(module, memory):
    """The process: answers lines until there are no more."""
    handle = importlib.import_module(module).handle
    with open("/proc/self/statm", encoding="ascii") as f:
        _limit(resource.RLIMIT_AS, int(f.read().split()[0])*resource.getpagesize() + memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, message["seconds"])  # Its end is SIGPROF, which no loop in C can put off.
            answer = json.dumps(handle(message["request"]))
        except MemoryError:
            os.abort()  # As Rust does.
        except BaseException as error:  # A panic in Rust is no Exception.
            answer = json.dumps({"error": " ".join(str(error).split())[:ERROR] or type(error).__name__})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
