#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a run of the simulated SoC starts with and how it ends."""

import sys

from pathlib import Path

import numpy as np

from soc.litex_sim.simulator import Running, run_interactive

# Memory -------------------------------------------------------------------------------------------


def words(data):
    """Bytes as list of uint32, padded with 0 to whole beats."""
    data = bytes(data)
    return np.frombuffer(data + bytes(-len(data) % 8), "<u4").tolist()


def file_words(path):
    """Words of a binary file; none without a path. OSError where it cannot be read."""
    return words(Path(path).read_bytes()) if path is not None else []

# Run ----------------------------------------------------------------------------------------------


def run(folder, args, cpu):
    """Runs the simulator as the options say; returns the exit status."""
    if not args.non_interactive:
        return run_interactive(folder)
    with Running(folder, echo=sys.stdout) as simulation:
        simulation.wait(args.timeout)
        return 0
