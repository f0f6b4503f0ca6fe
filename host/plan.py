#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a model takes: bytes that each token reads, and its place in the board's memory."""

import numpy as np

from litetern.host import console
from litetern.model.formats.head import HEADS, head_bytes
from litetern.model.formats.image import IMAGE_LIMIT, image_parts
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, FORMAT_TERNARY, ROWS_MAX, row_beats
from litetern.model.importers.assemble import model_config
from litetern.model.numerics.quantised import Group, Layer, QuantisedModel, TernaryHead
from litetern.model.perplexity import head_name
from litetern.soc.zynq import memory_map as zynq

BUFFERS     = 8 << 20  # Bytes: more than the engine's buffers take beside weights and KV cache.
CONTEXT_MIN = 16       # Positions: a board that holds fewer is of no use.

# Figures ------------------------------------------------------------------------------------------


def report(model):
    """What a model takes: a dict of the figures that the packer prints."""
    config   = model.config
    head     = (model.ternary.planes, model.ternary.shortlist) if model.ternary else (0, 0)
    position = 2*config.layers*config.kv_width
    parts    = image_parts(config, model.body_format, *head, len(model.tokenizer), len(model.metadata), model.row_steps)
    image    = sum(parts.values())
    # The firmware takes the larger of two rooms for KV caches: behind the image, or below it.
    room     = max(IMAGE_LIMIT - image, zynq.HANDOVER_BASE - zynq.ARENA_BASE) - BUFFERS if image <= IMAGE_LIMIT else 0
    weights  = config.layers*sum(rows*row_beats(columns, model.body_format)*BEAT_BYTES for rows, columns in config.groups.values())
    return {
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
        "context_max"       : max(0, min(config.context, ROWS_MAX, room//position)),
        "body"              : "int8" if model.body_format == FORMAT_INT8 else "ternary",
        "weights"           : config.layers*sum(rows*columns for rows, columns in config.groups.values()),
        "weight_bytes"      : weights,
        "head"              : head_name(model),
        "head_bytes"        : model.head_bytes,
        "ms_at_wall"        : milliseconds(weights + model.head_bytes),
        "head_choices"      : [{"head": kind, "bytes": size, "ms_at_wall": milliseconds(weights + size)}
            for kind in HEADS for size in [head_bytes(config.vocab, config.hidden, kind)]],
        "kv_position_bytes" : position,
        "image_parts"       : parts,
        "image_bytes"       : image,
        "kv_room_bytes"     : room,
    }


def milliseconds(count):
    """Time in which the memory gives so many bytes: no token is faster."""
    return 1e3*count/zynq.DDR_BYTES_PER_SECOND

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
    """Raises DoesNotFit where the board cannot hold the image and `context` positions (a few, where None)."""
    size, name = console.bytes_text, figures["name"]
    needed = context or min(CONTEXT_MIN, figures["context"])
    if figures["image_bytes"] > IMAGE_LIMIT:
        angles = 4*figures["context"]*figures["head_dim"]
        hint   = f"; angles of {figures['context']:,} positions take {size(angles)} of that, --context takes fewer" \
            if figures["image_bytes"] - angles <= IMAGE_LIMIT - 4*ROWS_MAX*figures["head_dim"] else ""
        raise DoesNotFit(f"{name} does not fit: image {size(figures['image_bytes'])}; the board has room for {size(IMAGE_LIMIT)}{hint}",
            memory_lines(figures, needed))
    if needed > ROWS_MAX:
        raise DoesNotFit(f"{name}, context {needed}: the attention core takes {ROWS_MAX} positions", memory_lines(figures, needed))
    if figures["context_max"] < needed:
        raise DoesNotFit(f"{name} does not fit: image {size(figures['image_bytes'])}, KV cache "
            f"{size(needed*figures['kv_position_bytes'])} for {needed} positions; the largest context is {figures['context_max']}",
            memory_lines(figures, needed))


def _row(name, value, text=""):
    return f"  {name:32}{console.bytes_text(value):>9}   {text}".rstrip()


def memory_lines(r, context):
    """The plan of the board's memory for people, with a KV cache of `context` positions."""
    parts  = r["image_parts"]
    behind = IMAGE_LIMIT - r["image_bytes"]
    below  = zynq.HANDOVER_BASE - zynq.ARENA_BASE
    cache  = context*r["kv_position_bytes"]
    return [
        f"memory of the board ({zynq.DDR_BYTES >> 20} MiB)",
        _row(f"{r['body']} weights",    parts["weights"], f"{r['layers']} layers"),
        _row("int8 embedding",          parts["embedding"], "also the rows of the int8 head" if r["tied"] else ""),
        *([_row("head", parts["head"], r["head"])] if parts["head"] else []),
        _row("norms, steps, angles",    parts["tables"]),
        _row("tokenizer, template",     parts["texts"]),
        _row("image",                   r["image_bytes"], f"of {console.bytes_text(IMAGE_LIMIT)}"),
        _row("KV cache",                cache, f"{context:,} of {r['context']:,} positions; room for "
            f"{max(0, r['kv_room_bytes']//r['kv_position_bytes']):,}, the attention core takes {ROWS_MAX:,}"),
        _row("buffers",                 BUFFERS, "at most"),
        _row("room for both",           max(0, behind, below), "behind the image" if behind >= below else "below the image"),
    ]

# Report -------------------------------------------------------------------------------------------


def lines(r):
    """Lines of the report for people."""
    context = r["context_max"]
    at_wall = lambda count: f"{milliseconds(count):.3g} ms"
    weights = r["weight_bytes"] + r["head_bytes"]
    cache   = context*r["kv_position_bytes"]
    values  = any("perplexity" in choice for choice in r["head_choices"])
    result  = [
        f"{r['name']}: {r['layers']} layers of {r['hidden']}, FFN {r['ffn']}, {r['heads']} heads ({r['kv_heads']} KV) of {r['head_dim']}, "
        f"vocabulary {r['vocab']:,}",
        "",
        "read for each token",
        _row(f"{r['body']} weights", r["weight_bytes"], f"{r['weights']:,} of {8*r['weight_bytes']/r['weights']:.3f} bits"),
        _row(r["head"], r["head_bytes"], f"with the weights {at_wall(weights)} at the memory wall of {zynq.DDR_BYTES_PER_SECOND/1e9} GB/s"),
        _row("KV cache", cache, f"at position {context:,}; {at_wall(weights + cache)} with the weights"),
        "",
        f"heads (--head){'':24}bytes   ms per token{'   perplexity' if values else ''}",
    ]
    for choice in r["head_choices"]:
        value   = f"{choice['perplexity']:13.4g}" if "perplexity" in choice else ""
        result += [f"  {choice['head']:32}{console.bytes_text(choice['bytes']):>9}{choice['ms_at_wall']:15.3g}{value}"]
    if "perplexity" in r:
        floats, exact = r["perplexity"]["float"], r["perplexity"]["exact"]
        result += ["", "perplexity", f"  {'as the checkpoint has it':32}{floats:9.4g}",
            f"  {'of this image':32}{exact:9.4g}   {exact/floats:.3f} of the floats'"]
    if "clipped" in r:
        result += ["", *(["clipped", *(f"  {line}" for line in r["clipped"])] if r["clipped"] else ["nothing clips"])]
    return [*result, "", *memory_lines(r, context)]
