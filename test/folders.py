#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Where the tests' own modules lie, for what runs without pytest."""

from litetern.model.paths import ROOT

FOLDERS = [str(ROOT/name) for line in (ROOT/"pytest.ini").read_text().splitlines() if line.startswith("pythonpath") for name in line.split()[2:]]
