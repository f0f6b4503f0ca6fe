#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Feeds what takes data from outside with inputs that nobody should send, until one does harm.

    python test/fuzz/run.py                          the targets
    python test/fuzz/run.py image --inputs 1000000   a long run; `make test` does a short one of each, `make test-full` a longer one
    python test/fuzz/run.py link FILE ...            runs inputs again

An input does harm where a sanitizer reports, where the process ends or hangs, or where something does not hold that the target states.
It is kept in build/fuzz/failed/. Mend what it shows, state the right behaviour in a test of the folder's own kind, and, where it reaches
what no seed reaches, put it into corpus/TARGET/ under a name that says what it was: every run begins with those files.

A target in C is NAME.c: libFuzzer's two functions (fuzz.h). fuzz_build.py builds it with all of the firmware, address and undefined
behaviour sanitizers, and driver.c, which mutates, keeps inputs that reach new code and repeats exactly for a seed; --engine libfuzzer takes
Clang's in its place. A target in Python is a module targets/NAME.py with

    seeds() -> [bytes]               inputs to begin with
    mutate(draw, data) -> bytes      another input; `draw` is a random.Random
    run(data)                        raises ValueError (one line) for what it refuses; all else is a fault

which fuzz_python.py runs in a process of its own under limits of memory and time. fuzz_targets.py lists both kinds with their seeds.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    from folders import FOLDERS; sys.path[:0] = FOLDERS

import argparse
import sys
import time

from pathlib import Path

from fuzz_runner import ENGINES, fuzz
from fuzz_targets import TARGETS
from litetern.model.common.progress import Progress


MINUTE = 60  # Seconds between two lines where there is no terminal.


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target",     nargs="?", choices=TARGETS, metavar="TARGET", help="; ".join(f"{t.name}: {t.what}" for t in TARGETS.values()))
    parser.add_argument("files",      nargs="*", metavar="FILE", type=Path, help="Runs these inputs only.")
    parser.add_argument("--inputs",   type=int, default=10000, help="Inputs (10000).")
    parser.add_argument("--seed",     type=int, default=1,     help="Of the random numbers (1).")
    parser.add_argument("--compiler", choices=("gcc", "clang"), help="Of targets in C (the first that the system has).")
    parser.add_argument("--engine",   choices=ENGINES, default=ENGINES[0], help=f"Of targets in C ({ENGINES[0]}); libfuzzer wants clang.")
    parser.add_argument("--bits",     type=int, choices=(32, 64), default=64, help="Of pointers of targets in C (64); 32 as on the board: wants gcc-multilib.")
    parser.add_argument("--keep",     type=Path, help="A folder for inputs that reach new code.")
    args = parser.parse_args(arguments)
    if args.target is None:
        for target in TARGETS.values():
            print(f"{target.name:<12} {target.what}")
        return 0
    progress, told = Progress(), -MINUTE

    def tell(done, note):
        nonlocal told
        if progress.live or time.monotonic() > told + MINUTE:
            told = time.monotonic()
            progress.show(f"{note}, {done} of {args.inputs} inputs")

    try:
        outcome = fuzz(TARGETS[args.target], 0 if args.files else args.inputs, args.seed, files=args.files or None, keep=args.keep,
            engine=args.engine, compiler=args.compiler, bits=args.bits, progress=tell)
    except ValueError as error:
        parser.error(str(error))
    finally:
        progress.end()
    print(outcome)
    return 1 if outcome.failure else 0


if __name__ == "__main__":
    sys.exit(main())
