#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Runs a target in a process of its own and says what came of it."""

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

from dataclasses import dataclass
from pathlib import Path

from litetern.model.paths import ROOT

from folders import FOLDERS
from fuzz_build import CACHE, FOLDER, build_target

ENGINES = ("driver", "libfuzzer")
FAILED  = CACHE/"failed"
SECONDS = 10   # Processor time of an input: more is a hang.
SILENCE = 300  # Seconds without a line: a process that stands still.

# What the process's last words say, the most telling first.
REPORTS = (re.compile(r"fuzz: .*"), re.compile(r".*runtime error: .*"), re.compile(r"SUMMARY: .*"), re.compile(r"==\d+==\s*ERROR: .*"),
    re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*"))


@dataclass
class Outcome:
    """inputs that ran; those that got past all checks, or -1 where nobody counts; inputs kept; places of the code (of a target in Python:
    results) that were reached; failure: what went wrong, in a line, or ""; the input that did it."""
    target   : str
    inputs   : int
    accepted : int
    kept     : int
    reached  : int
    failure  : str  = ""
    input    : Path = None

    def __str__(self):
        text = f"{self.target}: {self.inputs} inputs, {self.accepted} accepted, {self.kept} kept, {self.reached} places reached"
        return f"{text}; {self.failure}\nThe input: {self.input}" if self.failure else f"{text}, no fault"


def corpus(target):
    """Paths of the inputs that the project keeps for a target."""
    return sorted(path for path in (FOLDER/"corpus"/target.name).glob("*") if path.is_file())


def fuzz(target, inputs, seed=1, files=None, keep=None, engine="driver", compiler=None, bits=64, seconds=SECONDS, progress=lambda done, note: None):
    """Runs seeds and corpus (or `files`), then `inputs` mutations of them; returns an `Outcome`. ValueError where it cannot be built.

    seconds : of processor time that an input may take.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=CACHE) as work:
        work = Path(work)
        if files is None:
            files = [*_seeds(target, work/"seeds"), *corpus(target)]
        current = work/"current"
        if target.python:
            command = [sys.executable, str(FOLDER/"fuzz_python.py"), target.name]
        else:
            command = [str(build_target(target.name, target.headers(), engine, compiler, bits))]
        if engine == "libfuzzer" and not target.python:
            return _libfuzzer(target, command[0], inputs, seed, files, work, keep, seconds)
        command += [str(current), str(keep or "-"), str(seed), str(inputs), str(seconds), *map(str, files)]
        return _watch(target, command, current, progress)


def _seeds(target, folder):
    folder.mkdir()
    for number, data in enumerate(target.seeds()):
        (folder/f"{number:04}").write_bytes(data)
    return sorted(folder.iterdir())


def _environment():
    options = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:symbolize=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**os.environ, **options, "PYTHONPATH": os.pathsep.join([*FOLDERS, str(ROOT), os.environ.get("PYTHONPATH", "")])}


def _watch(target, command, current, progress):
    counts = [0, 0, 0, 0]
    with tempfile.TemporaryFile("w+", errors="replace") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=_environment()) as process:
        try:
            signal.signal(signal.SIGALRM, lambda *_: process.kill())
            for line in process.stdout:
                signal.alarm(SILENCE)
                counts = [int(count) for count in line.split()]
                progress(counts[0], f"{target.name}: {counts[1]} accepted, {counts[2]} kept, {counts[3]} places reached")
        finally:
            signal.alarm(0)
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()
        process.wait()
        outcome = Outcome(target.name, *counts)
        if process.returncode:
            errors.seek(0)
            outcome.failure = _failure(errors.read(), process.returncode)
            outcome.input   = _save(target, current)
        return outcome


def _failure(text, code):
    """What went wrong, in a line."""
    if code in (-signal.SIGVTALRM, -signal.SIGKILL, -signal.SIGPROF):
        return "hang: an input took too long"
    for report in REPORTS:
        found = report.findall(text)
        if found:
            return found[-1].strip()
    return f"the process ended with {code}: {text.strip()[-200:]}"


def _save(target, current):
    """The input that ran last, kept; None if there was none."""
    data = current.read_bytes() if current.exists() else b""
    if len(data) < 4:
        return None
    data = data[4:4 + struct.unpack_from("<I", data)[0]]
    FAILED.mkdir(parents=True, exist_ok=True)
    path = FAILED/f"{Path(target.name).name}-{zlib.crc32(data):08x}"
    path.write_bytes(data)
    return path


def _libfuzzer(target, program, inputs, seed, files, work, keep, seconds):
    folder = keep or work/"kept"
    folder.mkdir(exist_ok=True)
    for file in files:
        (folder/f"seed-{Path(file).name}").write_bytes(Path(file).read_bytes())
    FAILED.mkdir(parents=True, exist_ok=True)
    command = [program, f"-runs={inputs}", f"-seed={seed}", "-max_len=65536", f"-timeout={seconds}", f"-artifact_prefix={FAILED}/{target.name}-", str(folder)]
    done    = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", env=_environment())
    counts  = re.findall(r"#(\d+)\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)", done.stderr) or [("0", "0", "0")]
    outcome = Outcome(target.name, int(counts[-1][0]), -1, int(counts[-1][2]), int(counts[-1][1]))
    if done.returncode:
        saved = re.search(r"Test unit written to (.*)", done.stderr)
        outcome.failure, outcome.input = _failure(done.stderr, done.returncode), saved and Path(saved[1])
    return outcome
