#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The resident path: a whole token in integers, for models whose weights lie in the fabric's block RAM (see doc/resident.md)."""
