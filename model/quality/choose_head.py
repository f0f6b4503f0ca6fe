#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Which hybrid head does a model need? Planes and lengths of the shortlist, measured on states of its exact path against the int8 head.

A head serves where its choice is the int8 head's in `AGREEMENT` of the states and where its shortlist holds `MASS` of what top-p sampling at
temperature 1 may draw. States are those of a text and, where it has fewer than `STATES`, of what the model goes on to tell by itself.
"""

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.head import PLANES_MAX, head_bytes, with_head
from litetern.model.formats.stream import ROW_WEIGHTS_MAX, TOPK_MAX
from litetern.model.numerics.exact import ExactHead, ExactModel
from litetern.model.quality.likelihood import exact_states

STATES     = 10000  # At least so many are looked at: fewer cannot tell 99.9 % from 99.8 %.
AGREEMENT  = 0.999
MASS       = 0.995
TOP_P      = 0.95   # The chat's default.
SHORTLISTS = tuple(1 << i for i in range(3, TOPK_MAX.bit_length()))  # 8, 16 … `TOPK_MAX`.
SESSIONS   = 64     # Stories that are told at once.
WINDOW     = 512    # Positions of the text that see each other.

# States -------------------------------------------------------------------------------------------


def own_states(model, length, progress=None, seed=1):
    """Yields (states, tokens that were drawn next) of stories that the model tells."""
    exact, random = ExactModel(model, SESSIONS, length), np.random.default_rng(seed)
    tokens = np.full(SESSIONS, model.bos)
    for position in range(length):
        states = exact.states(tokens)
        noise  = random.gumbel(size=(SESSIONS, model.config.vocab))  # The largest of logits and this noise is a draw of the softmax.
        tokens = (exact.head(states)[0] + noise).argmax(axis=-1)
        yield states, tokens
        if progress:
            progress(position + 1, length)


def many_states(model, tokens, count=STATES):
    """Yields (float32 [n, hidden] states, int [n] next tokens, whether they are the text's), `count` states or a few more.

    tokens: int [n] of a text; what it lacks the model (a QuantisedModel with its int8 head) tells itself, from a fixed seed.
    """
    seen, seed = 0, 0
    if len(tokens) > 1:
        for states, targets in exact_states(model, tokens[:count + 1], min(model.config.context, WINDOW, len(tokens) - 1)):
            yield states, targets, True
            seen += len(states)
    while seen < count:
        seed += 1
        for states, targets in own_states(model, min(model.config.context, WINDOW, -(-(count - seen)//SESSIONS)), seed=seed):
            yield states, targets, False
            seen += len(states)

# Measure ------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """A head on so many states.

    kind, planes, shortlist : arguments of `with_head`; None, None for "int8".
    bytes      : that a token reads of it.
    agreed     : states in which the int8 head's choice is on the shortlist, which is then the choice.
    mass       : share of what top-p sampling may draw that is on the shortlist, the mean of all states.
    perplexity : of the next tokens; what is not on a shortlist takes the ternary pass's estimate.
    """
    kind       : str
    planes     : int
    shortlist  : int
    bytes      : int
    states     : int
    agreed     : int
    mass       : float
    perplexity : float

    @property
    def serves(self):
        return self.agreed >= AGREEMENT*self.states and self.mass >= MASS


def nucleus(logits, top_p=TOP_P):
    """float64 [n, vocab]: probabilities at temperature 1 of the fewest best tokens that reach `top_p`, of sum 1; 0 elsewhere."""
    p       = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    p      /= p.sum(axis=-1, keepdims=True)
    count   = min(TOPK_MAX, logits.shape[-1])
    best    = np.argpartition(-logits, count - 1, axis=-1)[:, :count]
    best    = np.take_along_axis(best, np.argsort(-np.take_along_axis(logits, best, axis=-1), axis=-1, kind="stable"), axis=-1)
    share   = np.take_along_axis(p, best, axis=-1)
    before  = np.cumsum(share, axis=-1) - share
    kept    = np.where(before < top_p, share, 0)
    result  = np.zeros_like(p)
    np.put_along_axis(result, best, kept/kept.sum(axis=-1, keepdims=True), axis=-1)
    return result


def measure(model, tokens, count=STATES, progress=None):
    """([Measured], states of the text, states of the model's own) of a QuantisedModel: its int8 head, then hybrid ones by planes and shortlist."""
    config  = model.config
    whole   = ExactHead(with_head(model))
    planes  = range(1, min(PLANES_MAX, ROW_WEIGHTS_MAX//config.hidden) + 1)
    lengths = np.array([length for length in SHORTLISTS if length < config.vocab] or [1])
    heads   = {number: ExactHead(with_head(model, "hybrid", number, int(lengths[-1]))) for number in planes}
    agreed, mass, lost = (np.zeros((len(heads), len(lengths))) for _ in range(3))
    own, seen, lost_int8 = 0, 0, 0.0
    for x, targets, of_text in many_states(with_head(model), tokens, count):
        logits, _ = whole(x)
        logits    = logits.astype(np.float64)
        drawn     = nucleus(logits)
        choice    = logits.argmax(axis=-1)
        top       = logits.max(axis=-1)
        wanted    = np.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
        lost_int8 += float((np.log(np.exp(logits - top[:, None]).sum(axis=-1)) + top - wanted).sum())
        for row, head in enumerate(heads.values()):
            estimate, order = head.shortlist(x)
            take      = lambda values: np.take_along_axis(values, order, axis=-1)
            first     = lambda hits: np.where(hits.any(axis=-1), hits.argmax(axis=-1), len(order[0]))  # Place on the list, or behind it.
            agreed[row] += (first(order == choice[:, None])[:, None] < lengths).sum(axis=0)
            mass[row]   += take(drawn).cumsum(axis=-1)[:, lengths - 1].sum(axis=0)
            # Sums of exponentials with the first rows of the list exact and all others estimated.
            highest   = np.maximum(top, estimate.max(axis=-1))[:, None]
            e, exact  = np.exp(estimate - highest), np.exp(take(logits) - highest)
            total     = e.sum(axis=-1, keepdims=True) + (exact - take(e)).cumsum(axis=-1)[:, lengths - 1]
            listed    = first(order == targets[:, None])[:, None] < lengths
            target    = np.where(listed, wanted[:, None], np.take_along_axis(estimate, targets[:, None], axis=-1))
            lost[row] += (np.log(np.maximum(total, 1e-300)) + highest - target).sum(axis=0)
        seen += len(x)
        own  += 0 if of_text else len(x)
        if progress:
            progress(min(seen, count), count)
    rows = [Measured("int8", None, None, head_bytes(config.vocab, config.hidden), seen, seen, 1.0, float(np.exp(lost_int8/seen)))]
    rows += [Measured("hybrid", number, int(length), head_bytes(config.vocab, config.hidden, "hybrid", number, int(length)), seen,
        int(agreed[row, column]), float(mass[row, column]/seen), float(np.exp(lost[row, column]/seen)))
        for row, number in enumerate(heads) for column, length in enumerate(lengths)]
    return rows, seen - own, own


def cheapest(rows):
    """The Measured that reads least of those that serve; the int8 head always does."""
    return min((row for row in rows if row.serves), key=lambda row: row.bytes)
