#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The terminal of a chat: words that wrap, lines with history, Ctrl-C that asks first."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import termios
import textwrap

from litetern.model.common import progress
from litetern.model.common.printable import printable

# Words --------------------------------------------------------------------------------------------


class Words:
    """Writes streamed text to `stream`; on a terminal, no word breaks at the edge.

    A word is held back until its end is known, which is the next blank: tokens are shorter than words. Control characters of tokens
    are shown, not obeyed.
    """
    def __init__(self, stream):
        self.stream, self.wraps = stream, stream.isatty()
        self.column, self.word, self.blanks = 0, "", ""
        self.begun = False  # Something stands on the line.

    def _put(self, text):
        self.stream.write(text)
        self.begun = not text.endswith("\n") if text else self.begun

    def write(self, text):
        text = printable(text)
        if not self.wraps:
            self._put(text)
        else:
            for character in text:
                if character.isspace():
                    self._word()
                    if character == "\n":
                        self._put("\n")
                        self.column, self.blanks = 0, ""
                    else:
                        self.blanks += " "
                else:
                    self.word += character
        self.stream.flush()

    def _word(self):
        if not self.word:
            return
        width = shutil.get_terminal_size().columns
        if self.column and self.column + len(self.blanks) + len(self.word) >= width:
            self._put("\n")
            self.column, self.blanks = 0, ""
        self._put(self.blanks + self.word)
        self.column += len(self.blanks) + len(self.word)
        self.word, self.blanks = "", ""

    def end(self):
        """Writes the last word and ends the line, where one has begun: what follows has a line of its own."""
        self._word()
        if self.begun:
            self._put("\n")
        self.stream.flush()
        self.column, self.blanks = 0, ""


def wrap(text, stream):
    """The text with lines that fit the terminal."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns - 1, 1)
    return "\n".join(textwrap.fill(line, width, subsequent_indent=" "*(len(line) - len(line.lstrip()))) for line in text.split("\n"))


def dim(text, stream):
    """The text in grey, on a terminal that has it, for a user who wants it (no-color.org)."""
    return f"\x1b[2m{text}\x1b[0m" if progress.terminal(stream) and not os.environ.get("NO_COLOR") else text

# Lines --------------------------------------------------------------------------------------------


def history_file():
    """Where lines that were typed are kept, as the XDG rules say."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state)/"litetern"/"history"


@contextlib.contextmanager
def history(commands):
    """Line editing with history and completion of `commands`, on a terminal that has it; the history outlives the program."""
    try:
        import readline
    except ImportError:  # Not every Python is built with it.
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(1000)
    readline.set_completer_delims(" ")
    readline.set_completer(lambda text, state: [*(c for c in commands if text.startswith("/") and c.startswith(text)), None][state])
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)

# Ctrl-C -------------------------------------------------------------------------------------------


class Interrupt:
    """While it lasts, the first Ctrl-C only sets `requested`; the next one ends the program. Keys do not echo into the text.

    An exception in the middle of an emulated board would leave it in pieces.
    """
    def __enter__(self):
        self.requested = False
        self._previous = signal.signal(signal.SIGINT, self._handle)
        self._terminal = None
        if sys.stdin.isatty():
            self._terminal = termios.tcgetattr(sys.stdin)
            quiet    = termios.tcgetattr(sys.stdin)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        return self

    def __exit__(self, *_):
        if self._terminal is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._terminal)
        signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number, frame):
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
