#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A run of every fuzz target, and the frame itself: what does harm is noticed, kept and said in a line. See run.py."""

import re

import pytest

import fuzz_build
import run

from fuzz_runner import corpus, fuzz
from fuzz_targets import TARGETS, Target

# Targets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_short_run(name):
    outcome = fuzz(TARGETS[name], TARGETS[name].inputs)
    assert not outcome.failure, outcome
    assert outcome.inputs == TARGETS[name].inputs and outcome.kept >= len(corpus(TARGETS[name])) and outcome.accepted > 0


@pytest.mark.full
@pytest.mark.parametrize("name", TARGETS)
def test_long_run(name):
    outcome = fuzz(TARGETS[name], 20*TARGETS[name].inputs, seed=2)
    assert not outcome.failure, outcome

# Frame --------------------------------------------------------------------------------------------

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    volatile int shift = 40, count = 0;
    char *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    if (bytes > 2 && data[0] == 'F' && data[1] == 'Z') {
        FAULT;
    }
    count += copy[0] + shift;
    free(copy);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(data, bytes, room);
}
"""
FAULTS = {
    "read"    : ("count += data[bytes]",             "heap-buffer-overflow"),
    "write"   : ("copy[bytes + 1] = 1",              "heap-buffer-overflow"),
    "freed"   : ("free(copy); count += copy[0]",     "heap-use-after-free"),
    "shift"   : ("count = 1 << shift",               "runtime error: shift exponent 40 is too large"),
    "float"   : ("count = (int)(1e30f*shift)",       "runtime error: .*is outside the range of representable values"),
    "null"    : ("count = *(volatile int *)0",       "SEGV|null pointer"),
    "must"    : ("FUZZ_MUST(shift < 9)",             "fuzz: does not hold: shift < 9"),
    "exit"    : ("exit(3)",                          "the process ended with 3"),
    "hang"    : ("while (shift) ;",                  "hang: an input took too long"),
}


@pytest.fixture
def failed(tmp_path, monkeypatch):
    monkeypatch.setattr("fuzz_runner.FAILED", tmp_path/"failed")
    return tmp_path/"failed"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_kept(tmp_path, failed, name):
    """Two bytes are in the way of it: it is found by what is new on the way there. The input shows it again."""
    fault, says = FAULTS[name]
    (tmp_path/f"{name}.c").write_text(SOURCE.replace("FAULT", fault))
    target  = Target(str(tmp_path/name), "a fault", lambda: [b"1234"], 0)
    outcome = fuzz(target, 200000, seconds=1)
    assert re.search(says, outcome.failure) and "\n" not in outcome.failure
    assert outcome.input.parent == failed and outcome.input.read_bytes()[:2] == b"FZ"
    assert re.search(says, fuzz(target, 0, files=[outcome.input], seconds=1).failure)


PYTHON = """
import sys, time
def seeds():
    return [b"1234"]
def mutate(draw, data):
    at = draw.randrange(4)
    return data[:at] + bytes([draw.randrange(256)]) + data[at + 1:]
def run(data):
    if data[0] == 70:
        FAULT
    if data[0] == 71:
        raise ValueError("no")
    return data[0] % 2
"""
PYTHON_FAULTS = {
    "error"   : ("[][1]",                                "IndexError: list index out of range"),
    "lines"   : ('raise ValueError("one\\ntwo")',        "AssertionError: refused in other than one line"),
    "memory"  : ("x = bytearray(3 << 30)",               "MemoryError"),
    "exit"    : ("sys.exit(3)",                          "the process ended with 3"),
    "abort"   : ("import os; os.abort()",                "the process ended with -6"),
    "hang"    : ("while True: pass",                     "hang: an input took too long"),
}


@pytest.mark.parametrize("name", PYTHON_FAULTS)
def test_a_fault_of_a_target_in_python(tmp_path, failed, name, monkeypatch):
    fault, says = PYTHON_FAULTS[name]
    (tmp_path/f"fault_{name}.py").write_text(PYTHON.replace("FAULT", fault))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = fuzz(Target(f"fault_{name}", "a fault", lambda: [b"1234"], 0, python=True), 10000, seconds=1)
    assert re.search(says, outcome.failure) and outcome.input.read_bytes()[:1] == b"F"


def test_runs_repeat():
    """Equal seeds, equal runs; another seed, another run."""
    counts = lambda seed: (lambda o: (o.accepted, o.kept, o.reached))(fuzz(TARGETS["link"], 1000, seed))
    assert counts(3) == counts(3) != counts(4)


def test_without_a_compiler(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    fuzz_build.compiler.__globals__["_links"].cache_clear()
    for arguments, line in (([], "apt-get install gcc"), (["--engine", "libfuzzer"], "apt-get install clang"), (["--bits", "32"],
            "apt-get install gcc-multilib")):
        with pytest.raises(SystemExit) as end:
            run.main(["link", *arguments])
        assert end.value.code == 2 and line in capsys.readouterr().err.splitlines()[-1]


def test_targets_are_listed(capsys):
    assert run.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TARGETS)
