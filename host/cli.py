#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The command `litetern` of an installed project: the scripts of a checkout by their names.

    litetern chat --board virtual      is      python host/chat.py --board virtual
"""

import importlib
import sys

from litetern.model.common import console
from litetern.model.setup import environment

# Name: (module, what it does). Each has a main() that reads sys.argv.
COMMANDS = {
    "chat"       : ("litetern.host.chat",        "talk to a model on a board, virtual or real"),
    "pack"       : ("litetern.host.pack",        "pack a checkpoint into the image that a board streams"),
    "perplexity" : ("litetern.model.perplexity", "what the exact path costs in quality, on a text"),
    "pynqz1"     : ("litetern.soc.pynqz1",       "the accelerator of the PYNQ-Z1: report, build"),
    "sim"        : ("litetern.soc.sim",          "LiteX's simulator (extra `sim`)"),
    "train"      : ("litetern.model.train",      "train a story model (extra `train`)"),
}


def usage():
    width = max(map(len, COMMANDS))
    return "usage: litetern COMMAND [options]\n\n" + "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()) + \
        "\n\nlitetern COMMAND --help lists a command's options."


def run():
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in COMMANDS:
        raise ValueError(f"command {name!r}: must be one of {', '.join(COMMANDS)}")
    sys.argv = [f"litetern {name}", *sys.argv[2:]]
    return importlib.import_module(COMMANDS[name][0]).main()


def main():
    environment.use_cache()
    console.run(run)
