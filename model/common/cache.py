#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Files that are made once for what they are made of: named by a hash of that, there whole or not at all, whoever else makes them meanwhile."""

import hashlib
import os
import pathlib
import tempfile


def key_of(*parts):
    """Hexadecimal digits that stand for these parts: bytes as they are, all else by its repr. Where a part ends is told, too."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(f"{type(part) is bytes} {len(data)} ".encode() + data)
    return digest.hexdigest()[:20]


def cached(path, make):
    """The Path of a file, made by `make(partial)` where it is not there: into a folder of its own, then renamed.

    What `make` raises leaves nothing behind. Processes that make the same file at once may both succeed; each finds a whole one.
    """
    path = pathlib.Path(path)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}-", dir=path.parent) as work:
        partial = pathlib.Path(work)/path.name
        make(partial)
        os.replace(partial, path)
    return path
