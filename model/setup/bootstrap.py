#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What make runs first: it must be readable to every Python, even one that cannot read the rest.

    python3 -m litetern.model.setup.bootstrap [EXTRA ...]    see litetern.model.setup.environment
"""

import sys

OLDEST = (3, 10)


def check():
    """Ends the program with one line under a Python that is too old."""
    if sys.version_info < OLDEST:
        sys.exit("setup: Python %s is too old: LiteTern needs %d.%d or newer (`make PYTHON=python3.x ...` chooses another one)"
            % ((sys.version.split()[0],) + OLDEST))


if __name__ == "__main__":
    check()
    from litetern.model.setup import environment
    environment.main()
