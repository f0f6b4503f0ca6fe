#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Progress of what takes long: one line that is rewritten on a terminal, one line per stage elsewhere. Standard library only."""

import contextlib
import shutil
import sys
import threading
import time


class Progress:
    """Shows stages on `stream` (stderr, so that stdout stays for results)."""
    INTERVAL = 0.1  # Seconds between two updates of the line.
    PATIENCE = 2.0  # Seconds that something may take without a word where there is no terminal.

    def __init__(self, stream=None):
        self.stream = stream or sys.stderr
        self.live   = self.stream.isatty()
        self.start  = time.monotonic()
        self.stage  = None
        self.shown  = 0.0

    def show(self, stage, done=None, total=None):
        """The stage that runs now and, where known, how much of it is done."""
        now = time.monotonic()
        if stage == self.stage and (not self.live or now - self.shown < self.INTERVAL):
            return
        self.stage, self.shown = stage, now
        if self.live:
            share = f" {100*done//total:3d} %" if total else ""
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + f"[{now - self.start:3.0f} s] {stage}{share}"[:width])
        else:
            self.stream.write(f"{stage}\n")
        self.stream.flush()

    def end(self):
        """Clears the line."""
        if self.live and self.stage is not None:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        self.stage = None

    @contextlib.contextmanager
    def waiting(self, stage):
        """While something runs that reports nothing: its seconds count on a terminal; elsewhere a line, if it takes long."""
        ended = threading.Event()

        def tick():
            if not self.live:
                ended.wait(self.PATIENCE)
            while not ended.is_set():
                self.show(stage)
                ended.wait(1)

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.end()
