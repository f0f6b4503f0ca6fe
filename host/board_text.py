#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What comes between the frames of a link: the console of the board, or another device that has its place."""

import re

from litetern.model.common.printable import printable

KEPT     = 4096                                  # Bytes that are looked at; older ones go.
BANNER   = b"LiteTern firmware "                 # The firmware's first line.
FAULT    = re.compile(rb"fault: ([^\r\n]*)\r?\n") # Its last.
QUOTED   = 60                                    # Characters of a line that are shown.
READABLE = 0.6                                   # Share of characters that makes text; of random bytes it is 0.4.


def _readable(text):
    return bool(text) and sum(c.isprintable() and c != "\N{REPLACEMENT CHARACTER}" or c.isspace() for c in text) >= READABLE*len(text)


class BoardText:
    """kept: the last bytes; fresh: some came since the last frame; echo: frames came back as they were sent."""
    def __init__(self):
        self.clear()

    def clear(self):
        self.kept, self.fresh, self.echo = bytearray(), False, False

    def add(self, data):
        self.fresh |= bool(data)
        self.kept  += data
        del self.kept[:-KEPT]

    @property
    def started(self):
        """The firmware has said that it starts."""
        return BANNER in self.kept

    @property
    def fault(self):
        """The firmware's last words, or ""."""
        found = FAULT.search(self.kept)
        return printable(found[1].decode("utf-8", "replace"), "") if found else ""

    def said(self):
        """What came, for people."""
        if self.echo:
            return "what is sent comes back, an echo"
        text  = self.kept.decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if _readable(line.strip())]
        if lines and _readable(text):
            return f'the device says "{printable(lines[-1][:QUOTED], "")}"'
        return "what comes is no text: another device, or another baud rate" if self.kept else "nothing came"
