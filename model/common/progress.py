#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Progress of what takes long: one line that is rewritten on a terminal, one line per stage elsewhere. Standard library only."""

import contextlib
import os
import shutil
import sys
import threading
import time


def terminal(stream):
    """Whether `stream` is a terminal that understands more than text."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Progress:
    """Shows stages on `stream` (stderr, so that stdout stays for results)."""
    INTERVAL = 0.1  # Seconds between two updates of the line by a stage.
    PATIENCE = 2.0  # Seconds that `waiting` may take without a word where there is no terminal.

    def __init__(self, stream=None):
        self.stream  = stream or sys.stderr
        self.live    = terminal(self.stream)
        self.start   = time.monotonic()
        self.stage   = None
        self._share  = ""
        self._shown  = 0.0
        self._lock   = threading.Lock()
        self._ticker = None
        self._ended  = threading.Event()

    def show(self, stage, done=None, total=None):
        """The stage that runs now and, where known, how much of it is done."""
        now = time.monotonic()
        if stage == self.stage and (not self.live or now - self._shown < self.INTERVAL):
            return
        self.stage, self._shown = stage, now
        self._share = f" {100*done//total:3d} %" if total else ""
        if not self.live:
            self.stream.write(f"{stage}\n")
            self.stream.flush()
            return
        self._draw()
        if self._ticker is None:
            self._ended.clear()
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()

    def _draw(self):
        with self._lock:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + f"[{time.monotonic() - self.start:3.0f} s] {self.stage}{self._share}"[:width])
            self.stream.flush()

    def _tick(self):
        """The seconds go on where a stage says nothing."""
        while not self._ended.wait(1):
            self._draw()

    def end(self):
        """Clears the line."""
        if self._ticker is not None:
            self._ended.set()
            self._ticker.join()
            self._ticker = None
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        self.stage = None

    @contextlib.contextmanager
    def waiting(self, stage):
        """While something runs that reports nothing: its seconds count on a terminal; elsewhere a line, if it takes long."""
        if self.live:
            self.show(stage)
            late = None
        else:
            before = self.stage
            late   = threading.Timer(self.PATIENCE, lambda: self.show(stage) if self.stage == before else None)  # Unless more was said.
            late.start()
        try:
            yield
        finally:
            if late is not None:
                late.cancel()
                late.join()
            self.end()
