#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""How the command-line tools end: one clear line on stderr and a non-zero status for what went wrong."""

import os
import pathlib
import sys

INTERRUPTED = 130  # Exit status after Ctrl-C, as of shells.


def run(main):
    """Runs `main()` and ends the program: errors that a user can mend become one line, never a traceback."""
    name = pathlib.Path(sys.argv[0]).name
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
    except (ValueError, OSError, RuntimeError) as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        status = 1
    sys.exit(status)


def one_line(error):
    """Text of an exception without line breaks; OSErrors name their file."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def bytes_text(count):
    """A number of bytes for people: "1.39 MB" (decimal, as memories' speeds are)."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count/scale:.3g} {unit}" if count < 1000*scale else f"{count/scale:.0f} {unit}"
    return f"{count} B"
