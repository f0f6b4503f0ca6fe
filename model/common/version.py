#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The version: of the package (setup.py reads it here) and of the firmware, which says it when it starts."""

VERSION = "0.1.0"
