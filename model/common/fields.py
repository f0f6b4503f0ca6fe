#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Values that others wrote (config.json, the metadata of GGUF), each read by its name, type and range, in one place.

What is not stated, or null, has the default that the caller names. What is stated is right or refused by name: nothing is guessed::

    config.json: rms_norm_eps "x": must be a number between 1e-09 and 1
"""

import json

from litetern.model.common.printable import printable

REQUIRED = object()
SHOWN    = 60   # Characters of a wrong value.
LONGEST  = 255  # Characters of a name.


def shown(value):
    """A wrong value for an error, as JSON spells it, in a few characters."""
    if isinstance(value, (dict, list)) and len(value) > 8:
        return f"({'an object' if isinstance(value, dict) else 'a list'} of {len(value):,})"
    text = printable(json.dumps(value, ensure_ascii=False, default=str), "")
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def is_whole(value, low, high):
    return type(value) is int and low <= value <= high


def is_number(value, low, high):
    return type(value) in (int, float) and low <= value <= high  # No NaN is.


def is_text(value, longest=LONGEST):
    """Whether it is text that can be written as UTF-8: JSON can spell halves of characters."""
    return isinstance(value, str) and len(value) <= longest and not any("\ud800" <= c <= "\udfff" for c in value)


class Fields:
    """values: a mapping; where: what begins an error's line, "config.json". All methods raise ValueError."""
    def __init__(self, values, where):
        self.values, self.where = values, where

    def __contains__(self, name):
        return self.values.get(name) is not None

    def value(self, name, good, must, default=REQUIRED):
        """The value of a name where good(value); must: what it has to be, in words."""
        value = self.values.get(name)
        if value is None:
            if default is REQUIRED:
                raise ValueError(f"{self.where} does not state {name}")
            return default
        if not good(value):
            raise ValueError(f"{self.where}: {name} {shown(value)}: must be {must}")
        return value

    def whole(self, name, low, high, default=REQUIRED):
        return self.value(name, lambda value: is_whole(value, low, high), f"a whole number between {low:,} and {high:,}", default)

    def number(self, name, low, high, default=REQUIRED):
        return float(self.value(name, lambda value: is_number(value, low, high), f"a number between {low:g} and {high:g}", default))

    def flag(self, name, default=REQUIRED):
        return self.value(name, lambda value: isinstance(value, bool), "true or false", default)

    def text(self, name, default=REQUIRED, longest=LONGEST):
        return self.value(name, lambda value: is_text(value, longest), f"text of at most {longest:,} characters", default)

    def choice(self, name, choices, default=REQUIRED):
        return self.value(name, lambda value: is_text(value) and value in choices, f"one of {', '.join(choices)}", default)

    def fields(self, name):
        """Fields of an object; empty where there is none."""
        return Fields(self.value(name, lambda value: isinstance(value, dict), "an object", {}), f"{self.where}: {name}")

    def texts(self, name, longest=LONGEST):
        """List of texts; empty where there is none."""
        return self.value(name, lambda value: isinstance(value, list) and all(is_text(text, longest) for text in value),
            f"a list of texts of at most {longest:,} characters", [])

    def wholes(self, name, low, high, default=REQUIRED):
        """List of whole numbers, of which there is one or more; a single one may stand for itself."""
        value = self.value(name, lambda value: value != [] and all(is_whole(one, low, high) for one in (
            value if isinstance(value, list) else [value])), f"a whole number between {low:,} and {high:,}, or a list of such", default)
        return value if isinstance(value, list) else [value]
