#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Fixed steps of the int8 KV cache, per layer and KV head, from a calibration text.

The steps must be fixed before the first token (a running maximum would rescale the past), so they come from text, which must not
be the text that the model is judged by.

    python model/calibrate.py model/zoo/stories [text.txt]
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers")

import argparse
import json
import pathlib
import sys

import numpy as np

from litetern.model.common.fields import Fields, is_number
from litetern.model.common.files import read_json
from litetern.model.common.printable import printable
from litetern.model.common.progress import Progress
from litetern.model.formats.image import FLOAT_HIGH, FLOAT_LOW
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.tokenizer.text import read_records, token_stream, windows
from litetern.model.tokenizer.tokenizer import load_tokenizer

FILE = "calibration.json"  # Beside a checkpoint: the steps that its owner measured.

# What a model says of itself when no text is at hand: plain English, ours.
DEFAULT_TEXT = """Once upon a time there was a small boat on a wide river. A girl named Mia and her brother Sam found it one sunny day.
"Look, Sam! A boat!" said Mia. "Can we ride in it?" Sam was not sure. "We should ask Mom first," he said. So they ran home and asked.
Mom smiled and said, "Yes, but wear your red jackets and come back before dinner." They were so happy. They took bread, apples and
their big brown dog, and they sat in the boat all day. They saw ducks, a green frog and a fish that jumped very high. When it began
to rain, they were a little scared, but the dog licked their hands and they laughed. At last they went home. "We had the best day,"
said Mia. Mom hugged them both, and they ate warm soup and told her everything."""


def kv_steps(checkpoint, text=None, margin=1.0, length=256, tokens_max=16384, progress=None):
    """(k_steps, v_steps): float32 [layers, kv_heads], the largest |K| and |V| over the text, times `margin`, over 127.

    text: list of records; `DEFAULT_TEXT` where None. Raises ValueError where the checkpoint has no tokenizer.
    """
    config    = checkpoint.config
    tokenizer = load_tokenizer(checkpoint.tokenizer, checkpoint.name)
    tokens    = token_stream(text or [DEFAULT_TEXT], tokenizer, checkpoint.before, tokens_max)
    maxima    = {name: np.zeros((config.layers, config.kv_heads), np.float32) for name in "kv"}

    def observe(layer, name, value):
        if name in maxima:
            maxima[name][layer] = np.maximum(maxima[name][layer], np.abs(value).max(axis=(0, 1, 3)))

    model = ReferenceModel(checkpoint, observe)
    parts = list(windows(tokens, min(length, config.context)))
    for index, (window, _) in enumerate(parts):
        model.states(window)
        if progress:
            progress(index + 1, len(parts))
    return tuple(np.maximum(maxima[name]*np.float32(margin/127), np.float32(1e-5)) for name in "kv")

# Files --------------------------------------------------------------------------------------------


def steps_of(path, checkpoint, text=None, progress=None):
    """(k_steps, v_steps, where they come from) of the checkpoint at `path`: of a text file that is given, of its owner, of our default text."""
    stored = pathlib.Path(path)/FILE
    if text is None and stored.exists():
        return *read_steps(stored, checkpoint.config), str(stored)
    return *kv_steps(checkpoint, text and read_records(text), progress=progress), str(text or "default text")


def write_steps(path, k_steps, v_steps, source):
    """Writes calibration.json beside a checkpoint."""
    pathlib.Path(path).write_text(json.dumps({"source": source, "k_steps": k_steps.tolist(), "v_steps": v_steps.tolist()}, indent=1) + "\n")


def read_steps(path, config):
    """(k_steps, v_steps) of a calibration.json for a ModelConfig. ValueError where it holds no such steps."""
    stated = Fields(read_json(path), path)
    row    = lambda row: isinstance(row, list) and len(row) == config.kv_heads and all(is_number(step, FLOAT_LOW, FLOAT_HIGH) for step in row)
    good   = lambda rows: isinstance(rows, list) and len(rows) == config.layers and all(map(row, rows))
    must   = f"{config.layers} lists (layers) of {config.kv_heads} numbers (KV heads) between {FLOAT_LOW:g} and {FLOAT_HIGH:g}"
    return tuple(np.array(stated.value(name, good, must), np.float32) for name in ("k_steps", "v_steps"))

# Command line -------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description="Fix the steps of the int8 KV cache from a text, and store them beside the checkpoint.")
    p.add_argument("checkpoint",                         help="Checkpoint folder; receives calibration.json.")
    p.add_argument("text",   nargs="?",                  help="UTF-8 text that is not the evaluation text (default: a built-in one).")
    p.add_argument("--margin", type=float, default=1.0,  help="Head room over the largest value seen (default: 1.0).")
    args     = p.parse_args()
    progress = Progress()
    try:
        checkpoint = load_checkpoint(args.checkpoint)
        steps = kv_steps(checkpoint, args.text and read_records(args.text), args.margin,
            progress=lambda done, total: progress.show("calibrating", done, total))
        path = pathlib.Path(args.checkpoint)/FILE
        write_steps(path, *steps, pathlib.Path(args.text).name if args.text else "built-in text")
    except (OSError, ValueError) as error:
        sys.exit(f"calibrate.py: {printable(str(error))}")
    progress.end()
    print(f"{path}: K steps {steps[0].min():.5f} to {steps[0].max():.5f}, V steps {steps[1].min():.5f} to {steps[1].max():.5f}")


if __name__ == "__main__":
    main()
