#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Logits of greedy tokens, equal bit for bit on every build: numpy, host C, ARMv7 NEON, AArch64."""

import argparse
import sys
import tempfile

from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT/"test")]

from firmware_builds import BUILDS, firmware_build
from firmware_engine import OK, TOKEN, Engine
from model.exact import ExactModel
from model.image import read_image, write_image
from model.importers import load_checkpoint
from model.quantised import quantise_checkpoint

ZOO    = ROOT/"model"/"zoo"/"stories"
PROMPT = "Once upon a time"

# Builds -------------------------------------------------------------------------------------------


def load(path, folder):
    """(image bytes, QuantisedModel) of an image file or a checkpoint folder."""
    path = Path(path)
    if path.is_dir():
        image = Path(folder)/"model.tern"
        write_image(quantise_checkpoint(load_checkpoint(path)), image)
        path = image
    return path.read_bytes(), read_image(path)


def numpy_logits(model, prompt, count):
    """(tokens, logits [count, vocab]) of greedy generation by the definition."""
    exact, tokens, logits = ExactModel(model, context=len(prompt) + count), [], []
    for token in prompt:
        step = exact.step([token])
    for _ in range(count):
        logits.append(step[0].copy())
        tokens.append(int(step[0].argmax()))
        if len(tokens) < count:
            step = exact.step([tokens[-1]])
    return tokens, np.stack(logits)


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

# Table --------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model",  default=ZOO,          help="Checkpoint folder or image (the project's own model).")
    parser.add_argument("--prompt", default=PROMPT,       help=f"Text that the tokens follow ({PROMPT!r}).")
    parser.add_argument("--tokens", default=64, type=int, help="Greedy tokens (64).")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            image, model = load(args.model, folder)
        except ValueError as error:
            sys.exit(f"equal_bits: {error}")
    from tokenizers import Tokenizer
    prompt   = [model.bos] + Tokenizer.from_str(model.tokenizer.decode()).encode(args.prompt, add_special_tokens=False).ids
    _, expected = numpy_logits(model, prompt, args.tokens)
    print(f"{'build':<24} {'tokens':>6}  equal")
    print(f"{'numpy':<24} {len(expected):>6}  by definition", flush=True)
    for name in BUILDS:
        got        = build_logits(name, image, prompt, args.tokens)
        difference = first_difference(expected, got)
        print(f"{name:<24} {len(got):>6}  {difference or 'yes'}", flush=True)
        if difference:
            sys.exit(1)


if __name__ == "__main__":
    main()
