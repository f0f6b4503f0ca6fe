#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the board would clip of a text, counted on the float reference: whole windows at once, so that large models can be asked."""

import numpy as np

from litetern.model.numerics import ops
from litetern.model.numerics.circuits import ATTENTION, clamp, products
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.numerics.saturation import Saturation
from litetern.model.tokenizer.text import windows


def clips(checkpoint, k_steps, v_steps, tokens, length=256, parameters=ATTENTION, progress=None):
    """Saturation of int32 [n] tokens, in windows of `length`; k_steps, v_steps: float32 [layers, kv_heads] of the KV cache."""
    config, saturation, queries = checkpoint.config, Saturation(), {}

    def observe(layer, name, value):
        if name == "q":
            queries[layer] = value
        elif name == "v":
            saturation.see("values", layer, ops.leaves_int8(value, v_steps[layer][:, None]))
        else:
            saturation.see("keys", layer, ops.leaves_int8(value, k_steps[layer][:, None]))
            q8, q_step = ops.quantise(queries.pop(layer).transpose(0, 2, 1, 3))
            factor     = np.repeat(ops.k_factor(k_steps[layer], config.head_dim, parameters.steps_per_nat), config.group)[:, None]
            saturation.see("multipliers", layer, ops.multiplier_clips(q_step, factor, parameters.mantissa_max))
            k8   = np.repeat(ops.quantise_fixed(value, k_steps[layer][:, None]), config.group, axis=2).transpose(0, 2, 1, 3)
            free = products(q8, k8, *ops.score_multiplier(q_step, factor, parameters.mantissa_max), parameters)
            past = np.tri(q8.shape[2], dtype=bool)  # A query sees positions up to its own.
            saturation.see("scores", layer, (free != clamp(free, parameters))[..., past])

    model  = ReferenceModel(checkpoint, observe)
    length = min(length, config.context)
    parts  = list(windows(tokens, length))
    for index, (window, _) in enumerate(parts):
        model.states(window[:length])
        if progress:
            progress(index + 1, len(parts))
    return saturation
