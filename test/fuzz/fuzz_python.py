#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The loop of a target in Python: arguments and output as of driver.c, the target's name first; SIGPROF ends what hangs.

A run repeats exactly for its seed. Nothing watches which code an input reaches: inputs are kept where `run` says, by what it returns
(anything that can be compared, None to say nothing), that something new has happened.
"""

import importlib
import mmap
import random
import resource
import signal
import sys
import time

from pathlib import Path

INPUT_MAX = 1 << 20      # Bytes.
KEPT_MAX  = 1 << 12      # Inputs.
MEMORY    = 1 << 30      # Bytes that the process may take beyond what it has at the start.


class Current:
    """The file that always holds the input that runs."""
    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(4 + INPUT_MAX)
            self.map = mmap.mmap(file.fileno(), 4 + INPUT_MAX)

    def put(self, data):
        self.map[:4] = len(data).to_bytes(4, "little")
        self.map[4:4 + len(data)] = data


def limit_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages*resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(name, current, keep, seed, inputs, seconds, *files):
    target, draw, current = importlib.import_module(name), random.Random(int(seed)), Current(current)
    kept, seen, told, refused = [], set(), time.monotonic(), 0

    def run(data):
        nonlocal refused
        current.put(data)
        signal.setitimer(signal.ITIMER_PROF, int(seconds))
        try:
            result = target.run(data)
        except ValueError as refusal:
            text, result = str(refusal), None
            refused += 1
            if not text or "\n" in text:
                raise AssertionError(f"refused in other than one line: {text!r}") from refusal
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return result

    def add(data):
        if len(kept) < KEPT_MAX:
            kept.append(data)
            if keep != "-":
                (Path(keep)/f"{len(kept):06}").write_bytes(data)

    def tell(done):
        print(done, done + len(files) - refused, len(kept), len(seen), flush=True)

    limit_memory()
    for file in files:
        data = Path(file).read_bytes()
        seen.add(run(data))
        add(data)
    for done in range(int(inputs)):
        data   = target.mutate(draw, draw.choice(kept))[:INPUT_MAX]
        result = run(data)
        if result is not None and result not in seen:
            seen.add(result)
            add(data)
        if time.monotonic() > told + 2:
            told = time.monotonic()
            tell(done)
    tell(int(inputs))


if __name__ == "__main__":
    main(*sys.argv[1:])
