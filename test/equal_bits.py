#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Logits of greedy tokens, equal bit for bit: numpy, C on the host, on ARMv7 NEON and AArch64, the firmware on the virtual board."""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "tokenizers", "unicorn")

import argparse
import sys
import tempfile

from pathlib import Path

import numpy as np

from tokenizers import Tokenizer

from litetern.model.paths import ROOT

sys.path.insert(0, str(ROOT/"test"))

from folders import FOLDERS

sys.path[:0] = FOLDERS

from firmware_builds import BUILDS, firmware_build
from firmware_engine import OK, TOKEN, Engine
from greedy import greedy
from litetern.host.link.device import Device, Sampling
from litetern.model.formats.head import HEADS, with_head
from litetern.model.formats.image import read_image, write_image
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.soc.virtual.board import VirtualBoard

ZOO    = ROOT/"model"/"zoo"/"stories"
PROMPT = "Once upon a time"

# The whole firmware on the virtual board: row → what its PL is.
BOARDS = {"firmware, own C cores": "none", "firmware, C cores as PL": "c", "firmware, gateware": "rtl"}

# Rows ---------------------------------------------------------------------------------------------


def load(path, folder, head=None):
    """(image bytes, QuantisedModel) of an image file or a checkpoint folder, with another head where one is named."""
    path = Path(path)
    if path.is_dir() or head:
        model = quantise_checkpoint(load_checkpoint(path)) if path.is_dir() else read_image(path)
        path  = Path(folder)/"model.tern"
        write_image(with_head(model, head or "int8"), path)
    model = read_image(path)
    return path.read_bytes(), model


def first_difference(expected, got):
    """None, or one line about the first bit that differs between float32 [tokens, vocab] arrays."""
    if expected.shape != got.shape:
        return f"{len(got)} tokens instead of {len(expected)}"
    differs = np.argwhere(expected.view(np.uint32) != got.view(np.uint32))
    if not len(differs):
        return None
    token, entry = differs[0]
    return f"token {token}, logit {entry}: {got[token, entry]!r} instead of {expected[token, entry]!r}"


def build_logits(name, image, prompt, count):
    """Logits [tokens, vocab] of a build's engine with C cores."""
    engine = Engine(firmware_build(name), image)
    error  = engine.error or engine.generate(prompt, count, ignore_eos=True)
    if error != OK:
        raise ValueError(f"{name}: engine error {error}")
    return np.stack([event.logits for event in engine.events() if event.kind == TOKEN])

def board_logits(pl, image, prompt, count):
    """The same of the firmware on the virtual board."""
    with Device(VirtualBoard(image, pl=pl)) as device:
        events = device.generate(prompt, Sampling(ignore_eos=True), count, logits=True)
        return np.stack([event.logits for event in events if event.kind == "token"])


def row_logits(name, image, prompt, count):
    return board_logits(BOARDS[name], image, prompt, count) if name in BOARDS else build_logits(name, image, prompt, count)

# Table --------------------------------------------------------------------------------------------


def compare(rows, image, model, prompt, count):
    """Prints the table; False at the first row that differs."""
    _, expected = greedy(model, prompt, count)
    print(f"{'build':<24} {'tokens':>6}  equal")
    print(f"{'numpy':<24} {len(expected):>6}  by definition", flush=True)
    for name in rows:
        got        = row_logits(name, image, prompt, count)
        difference = first_difference(expected, got)
        if name == "checker" and (subnormals := firmware_build(name).variable("lanes_subnormals")):
            difference = difference or f"{subnormals} subnormal numbers"
        print(f"{name:<24} {len(got):>6}  {difference or 'yes'}", flush=True)
        if difference:
            return False
    return True


def main(arguments=None):
    rows   = [*BUILDS, *BOARDS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model",  default=ZOO,          help="Checkpoint folder or image (the project's own model).")
    parser.add_argument("--head",   choices=HEADS,        help="Head of the model (its own).")
    parser.add_argument("--prompt", default=PROMPT,       help=f"Text that the tokens follow ({PROMPT!r}).")
    parser.add_argument("--tokens", default=64, type=int, help="Greedy tokens (64).")
    parser.add_argument("--rows",   default=rows, nargs="+", choices=rows, metavar="ROW", help=f"Of {', '.join(rows)} (all).")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            image, model = load(args.model, folder, args.head)
        except ValueError as error:
            sys.exit(f"equal_bits: {error}")
    prompt = [model.bos] + Tokenizer.from_str(model.tokenizer.decode()).encode(args.prompt, add_special_tokens=False).ids
    if not compare(args.rows, image, model, prompt, args.tokens):
        sys.exit(1)


if __name__ == "__main__":
    main()
