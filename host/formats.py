#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What can be imported, shown by doing it: tiny checkpoints of each format, made by the libraries that define them.

    python host/formats.py [--json]

For each format: is it imported, does the float reference give the library's logits, can it be packed, does the virtual board (firmware and
C cores as PL) generate from it, to the bit; and for the checkpoint that it stands for, the largest context on the board and the tokens per
second that the memory's wall allows (weights and int8 head, no KV cache).
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "tokenizers", "gguf", "unicorn", extra="convert")

import argparse
import json
import pathlib
import tempfile

from dataclasses import dataclass

import numpy as np

from litetern.host import plan
from litetern.host.link.device import Device, Sampling
from litetern.model.common import console
from litetern.model.formats.image import write_image
from litetern.model.importers import load_checkpoint
from litetern.model.importers.assemble import check_fits
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.paths import ROOT
from litetern.model.quality.rounding import round_to_ternary
from litetern.soc.boards import find_board
from litetern.soc.virtual.board import VirtualBoard

GOLDEN = ROOT/"test"/"importers"/"golden"

# Checkpoints --------------------------------------------------------------------------------------


def _shape(hidden, ffn, layers, heads, kv_heads, vocab, context, head_dim=None, sub_norms=False, tied=False, activation="silu"):
    return dict(hidden=hidden, ffn=ffn, layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim or hidden//heads, vocab=vocab,
        context=context, sub_norms=sub_norms, tied=tied, activation=activation)


BITNET_LARGE = _shape(1536, 4096, 24, 16, 16, 32002, 2048, sub_norms=True, tied=True)
BITNET_XL    = _shape(2048, 5460, 24, 32, 32, 32002, 2048, sub_norms=True, tied=True)
BITNET_2B    = _shape(2560, 6912, 30, 20, 5, 128256, 4096, sub_norms=True, tied=True, activation="relu2")
FALCON3_1B   = _shape(2048, 8192, 18, 8, 4, 131072, 4096, head_dim=256)
TRILM_99M    = _shape(512, 1280, 16, 8, 8, 50304, 2048)
SMOLLM2      = _shape(576, 1536, 30, 9, 3, 49152, 8192, tied=True)
STORIES_110M = _shape(768, 2048, 12, 12, 12, 32000, 1024, tied=True)


@dataclass(frozen=True)
class Format:
    """golden: stem in test/importers/golden. checkpoint: whom it stands for; shape: that one's."""
    name       : str
    golden     : str
    checkpoint : str
    shape      : dict
    rounded    : bool = False

    @property
    def weights(self):
        """What the image holds: "ternary", or "int8" for floats that stay."""
        return "int8" if self.name.endswith(": int8") else "ternary"


FORMATS = (
    Format("Hugging Face, BitNet floats (shards)",   "bitnet_large",     "1bitLLM/bitnet_b1_58-large",        BITNET_LARGE),
    Format("the same, padded FFN",                   "bitnet_xl",        "1bitLLM/bitnet_b1_58-xl",           BITNET_XL),
    Format("Hugging Face, packed uint8, divide",     "microsoft_packed", "microsoft/bitnet-b1.58-2B-4T",      BITNET_2B),
    Format("Hugging Face, bfloat16 master weights",  "microsoft_latent", "microsoft/bitnet-b1.58-2B-4T-bf16", BITNET_2B),
    Format("Hugging Face, packed uint8, multiply",   "falcon_e",         "tiiuae/Falcon3-1B-1.58bit",         FALCON3_1B),
    Format("Hugging Face, ternary floats",           "trilm",            "SpectraSuite/TriLM_99M",            TRILM_99M),
    Format("GGUF TQ1_0",                             "gguf_tq1_0",       "SpectraSuite/TriLM_99M",            TRILM_99M),
    Format("GGUF TQ2_0",                             "gguf_tq2_0",       "SpectraSuite/TriLM_99M",            TRILM_99M),
    Format("GGUF I2_S",                              "gguf_i2_s",        "1bitLLM/bitnet_b1_58-large",        BITNET_LARGE),
    Format("Hugging Face, floats: int8",             "smollm",           "HuggingFaceTB/SmolLM2-135M",        SMOLLM2),
    Format("Hugging Face, floats: rounded",          "smollm",           "HuggingFaceTB/SmolLM2-135M",        SMOLLM2, True),
    Format("GGUF floats: int8",                      "gguf_float",       "HuggingFaceTB/SmolLM2-135M",        SMOLLM2),
    Format("llama2.c .bin: int8",                    "llama2c_0",        "karpathy/tinyllamas stories110M",   STORIES_110M),
    Format("llama2.c .bin version 1: int8",          "llama2c_1",        "karpathy/tinyllamas stories110M",   STORIES_110M),
)

# The checkpoint -----------------------------------------------------------------------------------


def estimate(format):
    """(largest context, tokens/s at the wall, None) of the checkpoint that a format stands for; (0, None, why) where it does not fit."""
    try:
        check_fits(format.shape, format.weights, format.checkpoint, find_board(plan.BOARD).image_bytes)
    except ValueError as error:
        return 0, None, str(error)
    figures = plan.report(plan.outline(format.shape, format.weights))
    return figures["context_max"], 1e3/figures["ms_at_wall"], None

# Board --------------------------------------------------------------------------------------------


def board_logits(image, tokens):
    """float32 [vocab] after the tokens, from the firmware on the virtual board with the C cores as PL."""
    with Device(VirtualBoard(image, pl="c")) as device:
        return next(event.logits for event in device.generate(tokens, Sampling(ignore_eos=True), 1, logits=True) if event.kind == "token")

# The format ---------------------------------------------------------------------------------------


def try_format(format, generate=None):
    """Row of the table: a dict.

    generate: None, or a function such as `board_logits`; "generates" then tells whether its logits are the exact path's to the bit.
    Errors of the format itself appear as "error".
    """
    context, speed, why = estimate(format)
    row = {"format": format.name, "imports": False, "equals_oracle": False, "packs": False, "generates": None,
        "checkpoint": format.checkpoint, "context_max": context, "tokens_per_s_at_wall": speed, "error": why}
    arrays = np.load(GOLDEN/f"{format.golden}.npz")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)/"tiny"
        folder.mkdir()
        files  = [key[5:] for key in arrays if key.startswith("file:")]
        for name in files:
            (folder/name).write_bytes(arrays[f"file:{name}"].tobytes())
        path = folder if len(files) > 1 else folder/files[0]
        try:
            error = np.abs(ReferenceModel(load_checkpoint(path)).logits(arrays["tokens"]) - arrays["logits"])/arrays["logits"].std()
            row |= {"imports": True, "equals_oracle": bool(np.median(error) < 1e-5 and error.max() < 0.03)}
            checkpoint = load_checkpoint(path)
            if format.rounded:
                checkpoint = round_to_ternary(checkpoint)
            model      = quantise_checkpoint(checkpoint)
            write_image(model, folder/"m.tern")
            row["packs"] = True
            if generate is not None:
                exact, tokens = ExactModel(model), arrays["tokens"][0, :8]
                for token in tokens:
                    expected = exact.step([token])[0]
                row["generates"] = bool(np.array_equal(generate(folder/"m.tern", tokens.tolist()), expected))
        except ValueError as error:
            row |= {"error": str(error), "context_max": 0, "tokens_per_s_at_wall": None}
    return row


def table(generate=None):
    """Rows of all formats."""
    return [try_format(format, generate) for format in FORMATS]


def lines(rows):
    """The table for people."""
    mark  = lambda value: "-" if value is None else "yes" if value else "no"
    cells = [("format", "imports", "= oracle", "packs", "generates", "checkpoint", "context", "tok/s at the wall")]
    cells += [(r["format"], mark(r["imports"]), mark(r["equals_oracle"]), mark(r["packs"]), mark(r["generates"]), r["checkpoint"],
        f"{r['context_max']:,}" if r["context_max"] else "-", f"{r['tokens_per_s_at_wall']:.1f}" if r["tokens_per_s_at_wall"] else "-")
        for r in rows]
    width  = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    result = ["  ".join(cell.ljust(size) for cell, size in zip(line, width)).rstrip() for line in cells]
    reasons = {r["checkpoint"]: r["error"].removeprefix(r["checkpoint"] + " ").removeprefix("tiny ") for r in rows if r["error"]}
    return result + [f"  {name}: {reason}" for name, reason in sorted(reasons.items())]

# Command line -------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description="Show what can be imported, by importing a tiny checkpoint of each format.")
    p.add_argument("--json", action="store_true", help="Print one JSON array of objects.")
    args = p.parse_args()
    rows = table(board_logits)
    print(json.dumps(rows) if args.json else "\n".join(lines(rows)))


if __name__ == "__main__":
    console.run(main)
