#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Jinja in the process that renders chat templates (`litetern.model.common.sandbox`): {"template": Jinja, "renders": [{variable: value}, …]} → {"texts": [str, …]}.

Jinja's sandbox keeps a template from files and modules, not from loops without end or strings without limit.
"""

import datetime
import json

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

LENGTH = 1 << 20  # Characters of a text.

# Jinja as transformers sets it up for chat templates ----------------------------------------------


class Generation(Extension):
    """{% generation %} marks what an assistant said, for training: its contents are text like any."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _refuse(message):
    raise TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
ENVIRONMENT.filters["tojson"] = _tojson
ENVIRONMENT.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.datetime.now().strftime(form)}

# Requests -----------------------------------------------------------------------------------------


def _render(template, variables):
    text = []
    length = 0
    for piece in template.generate(variables):
        text.append(piece)
        length += len(piece)
        if length > LENGTH:
            raise ValueError(f"makes a text of more than {LENGTH:,} characters")
    return "".join(text)


def handle(request):
    try:
        template = ENVIRONMENT.from_string(request["template"])
    except MemoryError:
        raise
    except Exception as error:  # Jinja's own, and all that an expression can do: constants are computed here.
        raise ValueError(f"cannot be read ({error or type(error).__name__})") from None
    return {"texts": [_render(template, variables) for variables in request["renders"]]}
