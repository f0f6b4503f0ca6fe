#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Jinja templates of others, rendered in a process of their own that can be ended: bounded in time, memory and length.

Jinja's sandbox keeps a template from files and modules, not from loops without end or strings without limit. The process is kept
alive, so that a render costs little more than in this one. It reads and writes lines of JSON::

    {"template": Jinja, "renders": [{variable: value}, …]}    ──►
                                                              ◄──    {"texts": [str, …]} or {"error": line}
"""

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

from model.environment import ROOT

SECONDS  = 2           # Of the CPU, for a request; templates that are meant well take milliseconds.
PATIENCE = 30          # Seconds until the answer, on a computer that is busy.
MEMORY   = 256 << 20   # Bytes beside those of Python and Jinja.
LENGTH   = 1 << 20     # Characters of a text.
ERROR    = 300         # Characters of an error.


class SandboxError(ValueError):
    """The template cannot be read, fails, or takes too much: one line says which."""

# Host ---------------------------------------------------------------------------------------------


def _end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


class Sandbox:
    """Renders templates in its process, which begins with the first and anew after one that had to be ended."""
    def __init__(self):
        if importlib.util.find_spec("jinja2") is None:
            raise ModuleNotFoundError("No module named 'jinja2'")
        self._process = self._finish = None

    def _start(self):
        # In a session of its own: Ctrl-C is for us alone. It ends with our end of the pipe.
        self._process = subprocess.Popen([sys.executable, "-c", "from host import sandbox; sandbox.serve()"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self._finish = weakref.finalize(self, _end, self._process)

    def close(self):
        if self._process is not None:
            self._finish()
            self._process = None

    def _exchange(self, line):
        """The answer to a line (bytes); b"" where the process has ended or does not answer."""
        out, answer, deadline = self._process.stdout.fileno(), bytearray(), time.monotonic() + PATIENCE
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            return b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([out], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(out, 1 << 16) if ready else b""
            if not data:
                return b""
            answer += data
        return bytes(answer)

    def render(self, template, *renders):
        """Texts (str) of a template (str) with each dict of variables. Raises SandboxError."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        answer = self._exchange(json.dumps({"template": template, "renders": renders}).encode() + b"\n")
        if not answer:
            process = self._process
            self.close()
            slow = process.returncode in (-signal.SIGPROF, -signal.SIGKILL)
            raise SandboxError(f"takes more than {SECONDS} s" if slow else f"ended its process ({process.returncode})")
        answer = json.loads(answer)
        if "error" in answer:
            raise SandboxError(answer["error"])
        return answer["texts"]

# Process ------------------------------------------------------------------------------------------


def _environment():
    """Jinja as transformers sets it up for chat templates."""
    import datetime

    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks what an assistant said, for training: its contents are text like any."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def refuse(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    environment.filters["tojson"] = tojson
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.datetime.now().strftime(form)}
    return environment


def _limit(kind, soft):
    """Lowers a limit of this process; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _render(template, variables):
    text = []
    length = 0
    for piece in template.generate(variables):
        text.append(piece)
        length += len(piece)
        if length > LENGTH:
            raise ValueError(f"makes a text of more than {LENGTH:,} characters")
    return "".join(text)


def _answer(environment, request):
    try:
        template = environment.from_string(request["template"])
    except Exception as error:  # Jinja's own, and all that an expression can do: constants are computed here.
        return {"error": f"cannot be read ({_text(error)})"}
    try:
        return {"texts": [_render(template, variables) for variables in request["renders"]]}
    except Exception as error:
        return {"error": _text(error)}


def _text(error):
    return f"takes more than {MEMORY >> 20} MB" if isinstance(error, MemoryError) else (str(error) or type(error).__name__)[:ERROR]


def serve():
    """The process: answers lines until there are no more."""
    environment = _environment()
    with open("/proc/self/statm", encoding="ascii") as f:
        _limit(resource.RLIMIT_AS, int(f.read().split()[0])*resource.getpagesize() + MEMORY)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # Its end is SIGPROF, which no loop in C can put off.
        sys.stdout.write(json.dumps(_answer(environment, json.loads(line))) + "\n")
        sys.stdout.flush()
