#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Hostile checkpoints and images: the command ends in time, within its memory, with one clear line; what is good among them is taken."""

import re

import pytest

import hostile_folders, hostile_singles, hostile_talk  # Each adds its cases.
from hostile_files import CASES
from hostile_run import SECONDS, Server, run_clean

# What stands before the line where stderr is no terminal: stages, and the plan of the memory where a model is too large for it.
STAGES = ("reading the checkpoint", "equalising", "calibrating the KV cache", "choosing a head", "looking for what clips", "quantising", "writing")
PLAN   = re.compile(r"memory of the Digilent PYNQ-Z1 \(512 MiB\)|  [A-Za-z0-9, ]{3,32} +[\d.]+ [kMG]?B\b.*")

LONGEST = 600  # Characters of a line.

FIRSTS = list({name.split(":")[0]: name for name in reversed(CASES)}.values())  # Of each kind.


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


def check(case, run, tmp_path):
    files = tmp_path/"files"
    files.mkdir()
    arguments, output = case.make(files), tmp_path/"m.tern"
    before = sorted(files.iterdir())
    ended  = run(case.command, [*arguments, "-o", output] if case.command == "pack" else arguments, tmp_path)
    assert ended.cpu <= SECONDS, f"{ended.cpu:.1f} s of the CPU: {ended.err}"
    *stages, line = ended.err.splitlines() or [""]
    assert "\n".join(other for other in stages if other not in STAGES and not PLAN.fullmatch(other)) == ""
    # Nothing is left beside the image, and nothing without one.
    assert sorted(files.iterdir()) == before
    assert {path.name for path in tmp_path.iterdir()} - {"files", "stdout", "stderr"} == ({output.name} if case.good else set())
    if case.good:
        assert ended.status == 0, line
        return
    assert ended.status == 1 and ended.out == "", ended
    assert line.startswith(f"{case.command}.py: ") and case.line in line and len(line) <= LONGEST and line.isprintable(), line


@pytest.mark.parametrize("name", FIRSTS)
def test_in_a_clean_process(name, tmp_path):
    check(CASES[name], run_clean, tmp_path)


@pytest.mark.parametrize("name", [name for name in CASES if name not in FIRSTS])
def test_in_a_forked_process(server, name, tmp_path):
    check(CASES[name], server.run, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in CASES if name not in FIRSTS])
def test_all_in_clean_processes(name, tmp_path):
    check(CASES[name], run_clean, tmp_path)
