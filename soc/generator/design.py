#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""From a model and a board to a sized accelerator, in one call.

    design = convert("model.tern", board="pynqz1", batch=4)
    design.compile()                    the gateware in Verilator, the firmware's token loop in front of it
    logits = design.predict(tokens)     no hardware
    steps  = design.trace(tokens)       every group of results beside the numpy definition
    built  = design.build()             bitstream, or without Vivado and openXC7 the netlist
    print(design.report())              what it costs, what it brings
"""

import importlib
import tempfile

from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from litetern.model.formats.config import ModelConfig
from litetern.model.formats.head import HEADS, PLANES, shortlist_of, with_head
from litetern.model.formats.image import image_parts, read_image, write_image
from litetern.model.formats.shapes import SHAPES
from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY, TERNARY_PER_BEAT, TOPK_MAX
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.micro import micro_model
from litetern.model.numerics.quantised import QuantisedModel
from litetern.model.paths import BUILD
from litetern.model.perplexity import calibrated
from litetern.soc.accelerator import FORMATS, AcceleratorConfig
from litetern.soc.boards import Board, find_board

STRATEGIES  = ("streamed",)
BATCHES     = (1, 2, 4, 8)
CONTEXTS    = (512, 1024, 2048, 4096)  # Score buffers come in these sizes.
QUERIES_MAX = 4                        # Queries of a pass: each takes as many DSPs again.

# Model --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """kind: of `litetern.model.formats.head.HEADS`; planes of its ternary rows; shortlist: rows that int8 then scores."""
    kind      : str
    planes    : int = 0
    shortlist : int = 0

    @classmethod
    def of(cls, model):
        """The Head of a QuantisedModel."""
        if model.ternary is None:
            return cls("int8")
        return cls("hybrid" if model.ternary.shortlist else "ternary", model.ternary.planes, model.ternary.shortlist)

    @classmethod
    def default(cls, kind, config):
        """The Head that `with_head` makes of a model of this ModelConfig."""
        if kind not in HEADS:
            raise ValueError(f"head {kind!r}: must be one of {', '.join(HEADS)}")
        return cls(kind, PLANES.get(kind, 0), shortlist_of(config.vocab) if kind == "hybrid" else 0)

    @property
    def formats(self):
        """Weight formats that it needs."""
        return {"int8": {"int8"}, "ternary": {"ternary"}, "hybrid": {"ternary", "int8"}}[self.kind]


@dataclass
class Source:
    """Where a model comes from: its shape now, its weights when `load` is called. head: None where any can be made."""
    name      : str
    config    : ModelConfig
    load      : object
    attention : AttentionParameters = ATTENTION
    body      : int  = FORMAT_TERNARY
    head      : Head = None


def _source(model):
    """The Source of all that `convert` takes."""
    if isinstance(model, QuantisedModel):
        return Source(model.name or "model", model.config, lambda: model, model.attention, model.body_format, Head.of(model))
    if isinstance(model, ModelConfig):
        return Source("random weights", model, lambda: micro_model(**asdict(model)))
    if str(model) in SHAPES and not Path(model).exists():
        return Source(str(model), SHAPES[str(model)], lambda: micro_model(**asdict(SHAPES[str(model)])))
    path = Path(model)
    if not path.exists():
        raise ValueError(f"model {str(model)!r}: no such file or folder, and not a shape that is known ({', '.join(SHAPES)})")
    if path.is_file() and path.suffix == ".tern":
        return _source(read_image(path))
    checkpoint = load_checkpoint(path)
    return Source(checkpoint.name or path.name, checkpoint.config, lambda: calibrated(checkpoint, path), body=FORMATS[checkpoint.weights])

# Sizing -------------------------------------------------------------------------------------------


def size(config, board, batch=1, formats=tuple(FORMATS), context=None, head=Head("int8"), attention=ATTENTION):
    """AcceleratorConfig for a ModelConfig on a Board: no buffer larger than the model asks for."""
    context = min(context or board.rows_max, config.context)
    if context > CONTEXTS[-1]:
        raise ValueError(f"context {context}: the attention core holds at most {CONTEXTS[-1]} positions")
    longest = max(config.hidden*head.planes, *(columns for _, columns in config.groups.values()))
    return AcceleratorConfig(
        ports           = len(board.ports),
        vectors_max     = batch,
        formats         = tuple(formats),
        row_weights_max = max(TERNARY_PER_BEAT, 1 << (longest - 1).bit_length()),  # Memories hold powers of two.
        topk_max        = TOPK_MAX if head.shortlist else 0,
        head_dim_max    = config.head_dim,
        queries_max     = min(QUERIES_MAX, config.group*batch),
        rows_max        = min(rows for rows in CONTEXTS if rows >= context),
        attention       = attention,
        clock_hz        = board.clock_hz,
    )


# Trace --------------------------------------------------------------------------------------------


@dataclass
class Step:
    """One group of results: what the gateware gave and what the definition gives, int32 vectors.

    position : of the token. layer: None for the head. name: "qkv", "attention" (numerators of all heads), "o", "gate_up", "down", "head".
    """
    position : int
    layer    : int
    name     : str
    ours     : np.ndarray
    expected : np.ndarray

    @property
    def equal(self):
        return np.array_equal(self.ours, self.expected)

# Design -------------------------------------------------------------------------------------------


@dataclass
class Design:
    """An accelerator for a model on a board; `convert` makes it."""
    name        : str
    model       : ModelConfig
    board       : Board
    accelerator : AcceleratorConfig
    context     : int
    body        : int
    head        : Head
    weights     : object = field(repr=False)  # Function that returns the QuantisedModel.

    def __post_init__(self):
        self._quantised = None
        self._engine    = None

    @property
    def quantised(self):
        """The QuantisedModel: read, or drawn for a shape without weights, when first asked for."""
        if self._quantised is None:
            self._quantised = self.weights()
        return self._quantised

    # Simulation -----------------------------------------------------------------------------------

    def compile(self, pl="rtl"):
        """Builds the gateware in Verilator ("rtl") or takes its bit-exact C model ("c"), and loads the model; returns self.

        Raises ValueError where a tool is missing.
        """
        from litetern.firmware import build
        from litetern.soc.virtual.pl.cmodel import CModelPL
        from litetern.soc.virtual.engine import Engine
        from litetern.soc.virtual.pl.verilated import RtlPL

        if pl not in ("rtl", "c"):
            raise ValueError(f"pl {pl!r}: must be rtl or c")
        library = build.load_host_library()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)/"model.tern"
            write_image(self.quantised, path)
            image = path.read_bytes()
        make_pl = {
            "rtl": lambda memory: RtlPL(memory, self.accelerator),
            "c":   lambda memory: CModelPL(memory, library, self.accelerator),
        }[pl]
        self.close()
        self._engine = Engine(image, self.accelerator, make_pl, library, self.context)
        return self

    def close(self):
        """Frees the simulation."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _run(self, tokens):
        tokens = np.asarray(tokens)
        if tokens.ndim != 1 or not len(tokens) or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(f"tokens {tokens.dtype}{list(tokens.shape)}: must be a list of one or more whole numbers")
        if tokens.min() < 0 or tokens.max() >= self.model.vocab:
            raise ValueError(f"tokens {tokens.min()} … {tokens.max()}: the vocabulary has 0 … {self.model.vocab - 1}")
        if len(tokens) > self.context:
            raise ValueError(f"{len(tokens)} tokens: the context holds {self.context}")
        if self._engine is None:
            self.compile()
        return self._engine.run(tokens)

    def predict(self, tokens):
        """float32 [vocab]: the logits behind `tokens` (int [n]), computed by the compiled design."""
        return self._run(tokens)

    def trace(self, tokens):
        """[Step]: every group of results on the way to `predict`'s logits, in order, beside the numpy definition's.

        Of a hybrid head the results are the shortlist, and not among them: its scores are the logits.
        """
        self._run(tokens)
        exact, parts, steps = ExactModel(self.quantised, context=self.context), iter(self._engine.parts), []
        for position, token in enumerate(tokens):
            exact.trace = []
            exact.step([token])
            for index, (name, value) in enumerate(exact.trace):
                if name == "head" and (position + 1 < len(tokens) or self.head.shortlist):
                    continue  # The token loop computes the logits of the last token only.
                ours = next(parts).results
                if name == "attention":
                    ours = ours.reshape(self.model.heads, self.model.head_dim + 2)[:, :self.model.head_dim].reshape(-1)
                expected = value.reshape(-1).astype(np.int32)
                # Results are padded to a beat.
                steps.append(Step(position, None if name == "head" else index//5, name, ours[:len(expected)].copy(), expected))
        return steps

    # Hardware -------------------------------------------------------------------------------------

    def build(self, toolchain=None, folder=None):
        """Builds the board's SoC, processing system included: a dict of toolchain, bitstream (a path, or None without a toolchain that makes
        one), files and, of Yosys, resources. toolchain: of the board's target; folder: of what is built (default: build/<board>).
        """
        target = importlib.import_module(self.board.target)
        return target.build(self.accelerator, toolchain, folder or BUILD/self.board.name)

    def report(self, synthesise=True, simulate=True):
        """A `litetern.soc.generator.report.Report`: resources, cycles, bytes, tokens per second.

        synthesise : run Yosys (minutes, the first time); without it there are no resources.
        simulate   : cycles from Verilator; without it from a formula, and then they are called estimates.
        """
        from litetern.soc.generator.report import report
        return report(self, synthesise, simulate)

# Convert ------------------------------------------------------------------------------------------


def convert(model, board="pynqz1", strategy="streamed", batch=1, formats=tuple(FORMATS), context=None, head=None):
    """A `Design` for a model on a board.

    model    : image (.tern), checkpoint folder or file, name in `litetern.model.formats.shapes.SHAPES`, ModelConfig or QuantisedModel. A shape without
               weights gets random ones where weights matter.
    board    : name in `litetern.soc.boards.BOARDS`, or a Board.
    strategy : "streamed": weights come from DDR for every token.
    batch    : vectors that share a pass over the weights (1, 2, 4 or 8).
    formats  : weight formats of the matmul core, of `litetern.soc.accelerator.FORMATS`.
    context  : positions (default: the model's, up to the board's `rows_max`).
    head     : of `litetern.model.formats.head.HEADS`; by default the model's own, where it has none yet int8, or ternary without int8 in `formats`.
    Raises ValueError with one clear line for what cannot be built.
    """
    board = find_board(board)
    if strategy not in STRATEGIES:
        known = "weights resident on chip are not built yet" if strategy == "resident" else "there is no such strategy"
        raise ValueError(f"strategy {strategy!r}: {known}; use {', '.join(STRATEGIES)}")
    if batch not in BATCHES:
        raise ValueError(f"batch {batch!r}: must be one of {', '.join(map(str, BATCHES))}")
    if context is not None and not (isinstance(context, int) and context >= 1):
        raise ValueError(f"context {context!r}: must be a positive whole number")
    source  = _source(model)
    config  = source.config
    if context is not None and context > config.context:
        raise ValueError(f"context {context}: {source.name} has {config.context} positions")
    weights = source.load
    shape   = source.head
    if head is not None or shape is None:
        shape   = Head.default(head or ("int8" if "int8" in formats else "ternary"), config)
        weights = lambda: with_head(source.load(), shape.kind)
    accelerator = size(config, board, batch, formats, context, shape, source.attention)
    missing     = ({name for name, format in FORMATS.items() if format == source.body} | shape.formats) - set(formats)
    if missing:
        raise ValueError(f"formats {', '.join(formats)}: {source.name} needs {', '.join(sorted(missing))} too "
            f"({'int8' if source.body == FORMAT_INT8 else 'ternary'} matrices, {shape.kind} head)")
    needed = sum(image_parts(config, source.body, shape.planes, shape.shortlist).values())  # Whatever its tokenizer takes.
    if needed > board.image_bytes:
        raise ValueError(f"{source.name}: {needed >> 20} MiB of weights and tables; {board.title} has room for "
            f"{board.image_bytes >> 20} MiB")
    return Design(source.name, config, board, accelerator, min(context or board.rows_max, config.context), source.body, shape, weights)
