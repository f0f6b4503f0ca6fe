#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The one in-memory form of a checkpoint, whatever file it came from."""

from dataclasses import dataclass, field

import numpy as np

from litetern.model.common.printable import printable
from litetern.model.formats.config import ModelConfig
from litetern.model.formats.marks import Marks
from litetern.model.numerics.rope import Angles

MATRICES = ("q", "k", "v", "o", "gate", "up", "down")
WEIGHTS  = ("ternary", "int8", "float")


@dataclass
class Checkpoint(Marks):
    """Weights as the importers give them.

    layers     : per decoder block a dict: "q", "k", "v", "o", "gate", "up", "down" → (int8 [out, in], scale), "attn_norm",
                 "ffn_norm" and, with sub-norms, "o_norm", "down_norm" → float32 gains.
    weights    : what the matrices hold. "ternary": −1, 0, +1 and one float32 scale for all, or float32 [out]. "int8": −127 … 127 and a
                 float32 [out] step of each row. "float": float32 and a scale of 1, for the float reference alone.
    embedding  : float32 [vocab, hidden]; head likewise, None where tied.
    tokenizer  : bytes of a `tokenizers` JSON file.
    chat_template : Jinja text that turns messages into a prompt; empty for models that only continue text.
    bos, add_bos, ends : tokens around texts (`litetern.model.formats.marks`).
    angles     : `litetern.model.numerics.rope.Angles` where RoPE is scaled; None for plain ones of the configuration's rope_theta.
    quantised_activations : trained with int8 activations (the BitNet family); the exact path always quantises them.
    notes      : what a user should know about the import, a sentence each.
    """
    config     : ModelConfig
    layers     : list
    final_norm : np.ndarray
    embedding  : np.ndarray
    head       : np.ndarray = None
    weights    : str   = "ternary"
    tokenizer  : bytes = b""
    chat_template : str = ""
    name       : str   = ""
    bos        : int   = 0
    add_bos    : bool  = True
    ends       : tuple = (0,)
    quantised_activations : bool = True
    angles     : Angles = None
    notes      : list  = field(default_factory=list)

    def __post_init__(self):
        self.check_marks()
        self.name = printable(self.name, "")
