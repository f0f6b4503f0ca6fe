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

from litetern.model.common import console
from litetern.model.common.fields import Fields, is_number
from litetern.model.common.files import read_json
from litetern.model.common.progress import Progress
from litetern.model.formats.image import FLOAT_HIGH, FLOAT_LOW
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.quality.equalise import TOKENS_MAX, equalisable, equalise
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

# What int8 bodies see besides: their channels are made alike, so that any of them may be the one that a text drives furthest.
FURTHER_TEXTS = ("""Tom had a little red car. It was his favourite toy, and he took it everywhere: to the park, to school, even to bed.
One morning the car was gone! Tom looked under the table, behind the sofa and in the big box, but it was not there. He began to cry.
"Do not be sad," said Grandma. "Let's think. Where did you play with it last?" Tom wiped his eyes. "In the garden, near the old tree."
They went outside, hand in hand. A black bird sat on the grass, and in its beak there was something shiny. "Hey! That's mine!" Tom shouted.
The bird got scared, dropped the car and flew away. Tom was so glad that he jumped up and down. "Thank you, Grandma! You are the best!"
From that day on, he always put his toys back in the box, and he shared his bread with the bird every morning. The end.""",
"""The river Nile is about 6,650 kilometres long. It flows north through eleven countries and reaches the Mediterranean Sea in Egypt. For
more than 5,000 years, people have used its water for farming, fishing and trade; today, large dams produce electricity as well. In 1970
the Aswan High Dam was finished, which ended the yearly floods. However, it also holds back the mud that had kept the fields fertile.""",
"""Q: How do I boil an egg? A: 1. Put the egg in a small pot. 2. Cover it with cold water. 3. Heat it until the water boils, then wait for
7 to 10 minutes. 4. Cool it under running water, peel it, and add a pinch of salt. Don't leave the kitchen while the stove is on!""",
"""def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / len(values)\n\nprint(mean([1, 2, 3]))""",
"""Lily and Ben were at the zoo with their dad. "Wow, look at that lion!" said Ben. "He is so big and strong. Can he jump over the wall?" Dad
laughed. "No, Ben, he can't. The wall is too high." Suddenly, they heard a loud noise. ROAR! Lily covered her ears and hid behind Dad. "I
don't like it. I want to go home," she whispered. "Don't worry, sweetie. He is only hungry," Dad said kindly. A man in green clothes came
with a bucket of meat, and the lion ate it all. Then he lay down in the sun, closed his eyes and slept like a cat. Lily smiled again. She
waved and said, "Good night, Mr. Lion!" On the way home they bought three ice creams: one with chocolate, one with vanilla, and one with
strawberries. It was a fun day, and nobody was afraid any more.""",
"""The wheels of the bus go round and round, round and round. The horn goes honk, honk, honk! The rain fell and fell, and the dog barked and
barked. Sue washed and washed, but the spot was still there. She looked at it again and again. "No, no, no!" she said, very, very angry. He ran
and ran, up and up, until the hill was far, far behind him. Tick, tock, tick, tock, said the clock on the wall. One, two, three, four, five.""")
HEAD_ROOM = 1.5, 1.75  # … and K and V of what no text of ours has shown may be larger by so much.


def kv_steps(checkpoint, text=None, margin=1.0, length=256, tokens_max=16384, progress=None):
    """(k_steps, v_steps): float32 [layers, kv_heads], the largest |K| and |V| over the text, times `margin`, over 127.

    text   : list of records; `DEFAULT_TEXT` where None.
    margin : of both, or a pair. Raises ValueError where the checkpoint has no tokenizer.
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
    margins = np.broadcast_to(margin, 2)
    return tuple(np.maximum(maxima[name]*np.float32(margin/127), np.float32(1e-5)) for name, margin in zip("kv", margins))

# Model --------------------------------------------------------------------------------------------


def built_in_text(checkpoint):
    """Records that a checkpoint is calibrated on where there is no other text."""
    return [DEFAULT_TEXT, *FURTHER_TEXTS*equalisable(checkpoint)]


def prepare(checkpoint, path=None, text=None, margin=None, progress=None):
    """(Checkpoint, k_steps, v_steps, file that they come from or None): all that `quantise_checkpoint` takes, of whoever packs, measures or builds.

    int8 bodies are equalised (`model.quality.equalise`), and their steps have head room; other checkpoints come back as they are.

    path     : the checkpoint's, whose floats are rounded and whose owner may have measured steps (`FILE`); None: what is in memory is all.
    text     : list of records to calibrate on; None: the owner's steps, or built-in text.
    margin   : head room of steps over the largest value seen; None: 1, or `HEAD_ROOM` of int8 bodies.
    progress : None or a function (stage, done, total).
    """
    show  = progress or (lambda *arguments: None)
    int8  = equalisable(checkpoint)
    texts = text or built_in_text(checkpoint)
    if int8 and checkpoint.tokenizer:
        show("equalising", 0, 1)
        tokenizer  = load_tokenizer(checkpoint.tokenizer, checkpoint.name)
        floats     = path and (lambda: load_checkpoint(path, floats=True))
        checkpoint = equalise(checkpoint, token_stream(texts, tokenizer, checkpoint.before, TOKENS_MAX), floats)
    stored = path and pathlib.Path(path)/FILE
    if text is None and stored and stored.exists():
        return checkpoint, *read_steps(stored, checkpoint.config), str(stored)
    steps = kv_steps(checkpoint, texts, margin or (HEAD_ROOM if int8 else 1.0), progress=lambda *done: show("calibrating the KV cache", *done))
    return checkpoint, *steps, None

# Files --------------------------------------------------------------------------------------------


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
    p.add_argument("--margin", type=float,               help=f"Head room over the largest value seen (default: 1; int8 bodies {HEAD_ROOM[0]} of K, {HEAD_ROOM[1]} of V).")
    args     = p.parse_args()
    progress = Progress()
    checkpoint = load_checkpoint(args.checkpoint)
    records = read_records(args.text) if args.text else built_in_text(checkpoint)
    _, *steps, _ = prepare(checkpoint, args.checkpoint, records, args.margin, progress.show)
    path = pathlib.Path(args.checkpoint)/FILE
    write_steps(path, *steps, pathlib.Path(args.text).name if args.text else "built-in text")
    progress.end()
    print(f"{path}: K steps {steps[0].min():.5f} to {steps[0].max():.5f}, V steps {steps[1].min():.5f} to {steps[1].max():.5f}")


if __name__ == "__main__":
    console.run(main)
