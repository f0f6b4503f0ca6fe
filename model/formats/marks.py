#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokens around texts: what begins one, what ends an answer."""

ENDS_MAX = 8  # Tokens that end an answer; an image holds so many.


class Marks:
    """What checkpoints and packed models share.

    bos     : token that begins a text; None where the model has none.
    add_bos : whether it stands before each text. Otherwise only chat templates write it.
    ends    : tokens that end an answer, any of them; none or up to `ENDS_MAX`. The first one is what chat templates call eos_token.
    """
    @property
    def eos(self):
        """What chat templates call eos_token; None where nothing ends an answer."""
        return self.ends[0] if self.ends else None

    @property
    def before(self):
        """Tokens before each text: [bos], or none."""
        return [self.bos] if self.add_bos else []

    def check_marks(self):
        """ValueError for more ends than an image holds, or a text that is to begin with a token that there is not."""
        if len(self.ends) > ENDS_MAX:
            raise ValueError(f"{len(self.ends)} tokens end an answer: an image holds {ENDS_MAX}")
        if self.add_bos and self.bos is None:
            raise ValueError("add_bos_token is true, but there is no token that begins a text (bos_token)")
