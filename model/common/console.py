#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""How the command-line tools end: one clear line on stderr and a non-zero status for what went wrong."""

import io
import os
import pathlib
import subprocess
import sys

from litetern.model.common.printable import printable

INTERRUPTED = 130  # Exit status after Ctrl-C, as of shells.
MENDABLE    = (ValueError, OSError, RuntimeError, ImportError, MemoryError, subprocess.SubprocessError)  # By a user whom a line tells what.


def streams():
    """Makes the standard streams what a tool can rely on: there, and stopped by no character that they cannot spell."""
    for name, mode, errors in (("stdin", "r", "surrogateescape"), ("stdout", "w", "replace"), ("stderr", "w", "backslashreplace")):
        if getattr(sys, name) is None:  # Whoever started us has closed it.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        if isinstance(getattr(sys, name), io.TextIOWrapper):
            getattr(sys, name).reconfigure(errors=errors)


def run(main):
    """Runs `main()` and ends the program: errors that a user can mend become one line, never a traceback."""
    name = pathlib.Path(sys.argv[0]).name
    streams()
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except KeyboardInterrupt:
        print(f"\n{name}: stopped", file=sys.stderr)
        status = INTERRUPTED
    except MENDABLE as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        status = 1
    sys.exit(status)


def one_line(error):
    """Text of an exception without line breaks and control characters; OSErrors name their file, missing modules the way to get them."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, ModuleNotFoundError):
        text = f"{error}: run `make setup`"
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error or 'the system gives no more'})"
    else:
        text = str(error) or type(error).__name__
    return printable(" ".join(text.split()))


def bytes_text(count):
    """A number of bytes for people: "1.39 MB" (decimal, as memories' speeds are)."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count/scale:.3g} {unit}" if count < 1000*scale else f"{count/scale:.0f} {unit}"
    return f"{count} B"
