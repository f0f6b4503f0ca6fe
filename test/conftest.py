#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT))

import hypothesis
import litetern

from litetern.model.setup import environment

# As every script does; the rooms are those of `litetern` alone.
environment.enter()

# Tests assert counts, not seconds: a busy machine fails nobody.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# PyTorch comes with the extra `train` only: `make test` does without it, `make test-full` has it.
collect_ignore = [] if importlib.util.find_spec("torch") else ["model/test_train.py"]
