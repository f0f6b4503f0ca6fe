#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""In a checkout, the package `litetern`: its rooms (`litetern.model`, `litetern.soc` and so on) are the folders beside this file.

A wheel does without: there, the rooms lie in a folder `litetern`.
"""

import os

__path__ = [os.path.dirname(os.path.abspath(__file__))]
