#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The one in-memory form of a checkpoint, whatever file it came from."""

from dataclasses import dataclass, field

import numpy as np

from model.config import ModelConfig


@dataclass
class Checkpoint:
    """Weights as the importers give them.

    layers     : per decoder block a dict: "q", "k", "v", "o", "gate", "up", "down" → (int8 [out, in] of −1, 0, +1, scale),
                 "attn_norm", "ffn_norm" and, with sub-norms, "o_norm", "down_norm" → float32 gains.
    embedding  : float32 [vocab, hidden]; head likewise, None where tied.
    tokenizer  : bytes of a `tokenizers` JSON file.
    quantised_activations : trained with int8 activations (the BitNet family); the exact path always quantises them.
    """
    config     : ModelConfig
    layers     : list
    final_norm : np.ndarray
    embedding  : np.ndarray
    head       : np.ndarray = None
    tokenizer  : bytes = b""
    name       : str   = ""
    bos        : int   = 0
    eos        : int   = 0
    quantised_activations : bool = True
    notes      : list  = field(default_factory=list)
