#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Where the project lies, and where it builds."""

import os
import pathlib

ROOT     = pathlib.Path(__file__).resolve().parent.parent  # Holds model/, cores/, soc/, firmware/, host/.
CHECKOUT = (ROOT/"setup.py").is_file()                     # Else: installed from a wheel, in a folder that need not be writable.
CACHE    = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
BUILD    = ROOT/"build" if CHECKOUT else CACHE/"litetern"
