#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Text of others (names, tokens, what a device says) for a terminal: its control characters are shown, not obeyed. Standard library only."""

import re

# C0, DEL and C1 move the cursor, set titles and ask terminals for answers; line separators and overrides of the writing direction hide text.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text, keep="\n\t"):
    r"""The text with each control character that is not in `keep` spelled as Python does: "\x1b"."""
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode(), text)
