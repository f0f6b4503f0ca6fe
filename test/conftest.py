#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

import importlib.util

from model import environment

environment.use_cache()  # As every script does.

# PyTorch comes with the extra `train` only: `make test` does without it, `make test-full` has it.
collect_ignore = [] if importlib.util.find_spec("torch") else ["test_train.py"]
