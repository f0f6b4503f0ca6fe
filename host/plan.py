#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a model takes: bytes that each token reads, and its place in the board's memory."""

import numpy as np

from litetern.model.common import console
from litetern.model.formats.head import HEADS, head_bytes
from litetern.model.formats.image import image_parts
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, FORMAT_TERNARY, row_beats
from litetern.model.importers.assemble import model_config
from litetern.model.numerics.quantised import Group, Layer, QuantisedModel, TernaryHead
from litetern.model.perplexity import head_name
from litetern.soc.boards import find_board

BOARD       = "pynqz1"  # Unless another is named.
BUFFERS     = 8 << 20  # Bytes: more than the engine's buffers take beside weights and KV cache.
CONTEXT_MIN = 16       # Positions: a board that holds fewer is of no use.

# Figures ------------------------------------------------------------------------------------------


def report(model, board=BOARD, sessions=1):
    """What a model takes on a board (name, or Board): a dict of the figures that the packer prints.

    sessions : that share the memory for KV caches. ValueError for more than the board has.
    """
    board    = find_board(board)
    if not 1 <= sessions <= board.sessions_max:
        raise ValueError(f"sessions {sessions}: must lie in 1 … {board.sessions_max}, which the firmware of the {board.title} holds")
    config   = model.config
    head     = (model.ternary.planes, model.ternary.shortlist) if model.ternary else (0, 0)
    position = 2*config.layers*config.kv_width
    parts    = image_parts(config, model.body_format, *head, len(model.tokenizer), len(model.metadata), model.row_steps)
    image    = sum(parts.values())
    room     = max(0, board.model_bytes - image - BUFFERS)
    at_wall  = lambda count: milliseconds(count, board)
    weights  = config.layers*sum(rows*row_beats(columns, model.body_format)*BEAT_BYTES for rows, columns in config.groups.values())
    return {
        "board"             : board.name,
        "sessions"          : sessions,
        "name"              : model.name,
        "layers"            : config.layers,
        "hidden"            : config.hidden,
        "ffn"               : config.ffn,
        "heads"             : config.heads,
        "kv_heads"          : config.kv_heads,
        "head_dim"          : config.head_dim,
        "vocab"             : config.vocab,
        "tied"              : config.tied,
        "context"           : config.context,
        "context_max"       : min(config.context, board.rows_max, room//(sessions*position)),
        "body"              : "int8" if model.body_format == FORMAT_INT8 else "ternary",
        "weights"           : config.layers*sum(rows*columns for rows, columns in config.groups.values()),
        "weight_bytes"      : weights,
        "head"              : head_name(model),
        "head_bytes"        : model.head_bytes,
        "ms_at_wall"        : at_wall(weights + model.head_bytes),
        "head_choices"      : [{"head": kind, "bytes": size, "ms_at_wall": at_wall(weights + size)}
            for kind in HEADS for size in [head_bytes(config.vocab, config.hidden, kind)]],
        "kv_position_bytes" : position,
        "image_parts"       : parts,
        "image_bytes"       : image,
        "kv_room_bytes"     : room,
    }


def milliseconds(count, board):
    """Time in which a board's memory gives so many bytes: no token is faster."""
    return 1e3*count/board.ddr_bytes_per_second

# Outline ------------------------------------------------------------------------------------------


def outline(shape, weights="ternary", planes=0, shortlist=0, **about):
    """QuantisedModel of a shape: arrays of the right sizes that take no memory.

    planes, shortlist : of the head's format (`litetern.model.formats.head.head_shape`).
    about             : other fields of QuantisedModel.
    """
    config = model_config(shape)
    array  = lambda dtype, *size: np.broadcast_to(dtype(0), size)
    format = FORMAT_TERNARY if weights == "ternary" else FORMAT_INT8
    groups = {name: Group(array(np.uint8, rows, row_beats(columns, format)*BEAT_BYTES), columns, (),
        None if weights == "ternary" else array(np.float32, rows)) for name, (rows, columns) in config.groups.items()}
    layer  = Layer(**groups, **{name: array(np.float32, length) for name, length in config.vectors.items()})
    table  = array(np.int8, config.vocab, config.hidden), array(np.float32, config.vocab)
    angles = array(np.float32, config.context, config.head_dim//2)
    head   = TernaryHead(array(np.uint8, config.vocab, row_beats(planes*config.hidden)*BEAT_BYTES), planes, table[1], shortlist) \
        if planes else None
    return QuantisedModel(config, [layer]*config.layers, array(np.float32, config.hidden), *table, *table, angles, angles, ternary=head,
        **about)

# Memory -------------------------------------------------------------------------------------------


class DoesNotFit(ValueError):
    """One line that says what does not fit; `lines` are the plan."""
    def __init__(self, text, lines):
        super().__init__(text)
        self.lines = lines


def check(figures, context=None):
    """Raises DoesNotFit where the board of a report cannot hold the image and `context` positions of each session.

    Where None, a few do for a single session, and each of several must get what the firmware gives it: all that the core takes.
    """
    size, board = console.bytes_text, find_board(figures["board"])
    name, image, sessions = figures["name"], figures["image_bytes"], figures["sessions"]
    needed = context or min(figures["context"], CONTEXT_MIN if sessions == 1 else board.rows_max)
    refuse = lambda text: DoesNotFit(text, memory_lines(figures, needed))
    if image > board.image_bytes:
        angles = 4*figures["context"]*figures["head_dim"]
        hint   = f"; angles of {figures['context']:,} positions take {size(angles)} of that, --context takes fewer" \
            if image - angles <= board.image_bytes - 4*board.rows_max*figures["head_dim"] else ""
        raise refuse(f"{name} does not fit: image {size(image)}; the {board.title} has room for {size(board.image_bytes)}{hint}")
    if needed > board.rows_max:
        raise refuse(f"{name}, context {needed}: the attention core takes {board.rows_max} positions")
    if figures["context_max"] < needed:
        times = f"{sessions} sessions of " if sessions > 1 else ""
        cache = sessions*needed*figures["kv_position_bytes"]
        raise refuse(f"{name} does not fit: image {size(image)}, KV cache {size(cache)} for "
            f"{times}{needed} positions, buffers {size(BUFFERS)}: together "
            f"{size(image + cache + BUFFERS)}; the {board.title} has {size(board.model_bytes)}; the largest context is {figures['context_max']}")


def _row(name, value, text=""):
    return f"  {name:32}{console.bytes_text(value):>9}   {text}".rstrip()


def memory_lines(r, context):
    """The plan of the board's memory for people, with a KV cache of `context` positions for each session."""
    parts, board = r["image_parts"], find_board(r["board"])
    cache  = r["sessions"]*context*r["kv_position_bytes"]
    times  = f"{r['sessions']} x " if r["sessions"] > 1 else ""
    taken  = r["image_bytes"] + cache + BUFFERS
    return [
        f"memory of the {board.title} ({board.ddr_bytes >> 20} MiB)",
        _row(f"{r['body']} weights",    parts["weights"], f"{r['layers']} layers"),
        _row("int8 embedding",          parts["embedding"], "also the rows of the int8 head" if r["tied"] else ""),
        *([_row("head", parts["head"], r["head"])] if parts["head"] else []),
        _row("norms, steps, angles",    parts["tables"]),
        _row("tokenizer, template",     parts["texts"]),
        _row("image",                   r["image_bytes"], f"of {console.bytes_text(board.image_bytes)}"),
        _row("KV cache",                cache, f"{times}{context:,} of {r['context']:,} positions; room for "
            f"{r['kv_room_bytes']//(r['sessions']*r['kv_position_bytes']):,}, the attention core takes {board.rows_max:,}"),
        _row("buffers",                 BUFFERS, "at most"),
        _row("together",                taken, f"of {console.bytes_text(board.model_bytes)}"),
    ]

# Report -------------------------------------------------------------------------------------------


def _measured_lines(r):
    """The heads that were measured, cheapest first, and which was taken."""
    measured, board = r["head_measured"], find_board(r["board"])
    result   = [f"heads measured on {measured['states_of_text']:,} states of the text and {measured['states_of_the_models_own']:,} of what the model "
        "goes on to tell", f"  {'head':32}{'ms per token':>13}{'same choice':>13}{'top-p mass':>12}{'perplexity':>12}"]
    for head in sorted(measured["heads"], key=lambda head: head["bytes"]):
        name    = "int8" if head["kind"] == "int8" else f"{head['shortlist']} rows by {head['planes']} plane{'s'*(head['planes'] > 1)}"
        time    = milliseconds(r["weight_bytes"] + head["bytes"], board)
        result += [f"  {name:32}{time:13.3g}{100*head['agreed']/head['states']:11.2f} %{100*head['mass']:10.2f} %"
            f"{head['perplexity']:12.4g}{'   taken' if head['chosen'] else ''}"]
    return result


def lines(r):
    """Lines of the report for people."""
    context = r["context_max"]
    board   = find_board(r["board"])
    at_wall = lambda count: f"{milliseconds(count, board):.3g} ms"
    weights = r["weight_bytes"] + r["head_bytes"]
    cache   = context*r["kv_position_bytes"]
    values  = any("perplexity" in choice for choice in r["head_choices"])
    result  = [
        f"{r['name']}: {r['layers']} layers of {r['hidden']}, FFN {r['ffn']}, {r['heads']} heads ({r['kv_heads']} KV) of {r['head_dim']}, "
        f"vocabulary {r['vocab']:,}",
        "",
        "read for each token",
        _row(f"{r['body']} weights", r["weight_bytes"], f"{r['weights']:,} of {8*r['weight_bytes']/r['weights']:.3f} bits"),
        _row(r["head"], r["head_bytes"], f"with the weights {at_wall(weights)} at the memory wall of {board.ddr_bytes_per_second/1e9} GB/s"),
        _row("KV cache", cache, f"at position {context:,}; {at_wall(weights + cache)} with the weights"),
        "",
        f"heads (--head){'':24}bytes   ms per token{'   perplexity' if values else ''}",
    ]
    for choice in r["head_choices"]:
        value   = f"{choice['perplexity']:13.4g}" if "perplexity" in choice else ""
        result += [f"  {choice['head']:32}{console.bytes_text(choice['bytes']):>9}{choice['ms_at_wall']:15.3g}{value}"]
    if "head_measured" in r:
        result += ["", *_measured_lines(r)]
    if "perplexity" in r:
        floats, exact = r["perplexity"]["float"], r["perplexity"]["exact"]
        result += ["", "perplexity", f"  {'as the checkpoint has it':32}{floats:9.4g}",
            f"  {'of this image':32}{exact:9.4g}   {exact/floats:.3f} of the floats'"]
    if "clipped" in r:
        result += ["", *(["clipped", *(f"  {line}" for line in r["clipped"])] if r["clipped"] else ["nothing clips"])]
    return [*result, "", *memory_lines(r, context)]
