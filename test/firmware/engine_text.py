#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A text, and an engine that generates behind it, beside numpy."""

import numpy as np

from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.sampling import Sampler, SamplingSettings

from firmware_engine import END_LENGTH, OK, PROMPT, TOKEN

TEXT = [0, 17, 5, 99, 5, 42]


def expect_tokens(engine, model, prompt, count, settings=SamplingSettings(), context=None, session=0):
    """Generates and compares every token and logit with numpy; returns the events of sampled tokens."""
    assert engine.generate(prompt, count, session, settings, ignore_eos=True) == OK
    exact, sampler, text = ExactModel(model, context=context), Sampler(settings), list(prompt)
    for token in prompt:
        logits = exact.step([token])[0]
    tokens = []
    for event in engine.events():
        assert event.kind in (PROMPT, TOKEN) and event.session == session
        if event.kind == PROMPT:
            continue
        np.testing.assert_array_equal(event.logits.view(np.uint32), logits.view(np.uint32))
        assert event.token == sampler.choose(logits, text)
        tokens.append(event)
        if len(tokens) < count:
            logits = exact.step([event.token])[0]
            text.append(event.token)
    assert len(tokens) == count and tokens[-1].end == END_LENGTH
    return tokens
