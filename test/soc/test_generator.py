#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""From a model to an accelerator: its size, its logits and every group of results beside numpy, its figures beside counted ones.

    convert ─► size        against what the shape asks for
            ─► predict     == model.exact
            ─► trace       == model.exact, group by group
            ─► report      bytes against laid-out work, cycles of the simulator against the formula
"""

import ctypes
import dataclasses
import json

import numpy as np
import pytest

from litetern.firmware.build import load_host_library
from litetern.model.common.interface import Function
from litetern.model.formats.config import ModelConfig
from litetern.model.formats.engine import PL
from litetern.model.formats.head import HEADS
from litetern.model.formats.image import write_image
from litetern.model.formats.shapes import SHAPES
from litetern.model.formats.stream import ROW_WEIGHTS_MAX, TOPK_MAX
from litetern.model.numerics.exact import ExactModel
from litetern.soc.boards import BOARDS, find_board
from litetern.soc.generator.design import convert, size
from litetern.soc.generator.report import CONTEXTS, Report, attention_work, estimate, matmul_work, report, simulate
from litetern.soc.virtual.pl.workload import Arena, Group, Head
from tiny_checkpoint import write_checkpoint
from tiny_model import SHAPE, tiny_model

TOKENS = [3, 77, 129, 0, 5]

LARGE = SHAPES["bitnet_b1_58-large"]


def exact_logits(model, tokens):
    exact = ExactModel(model)
    return [exact.step([token])[0] for token in tokens][-1]

# Sizing -------------------------------------------------------------------------------------------


def test_size_follows_the_model():
    a = convert("bitnet_b1_58-large").accelerator
    assert (a.ports, a.vectors_max, a.formats, a.row_weights_max, a.head_dim_max, a.queries_max, a.rows_max) == (
        2, 1, ("ternary", "int8"), 4096, 96, 1, 2048)
    a = convert("SmolLM2-135M", batch=4, context=300, formats=("ternary",)).accelerator
    assert (a.vectors_max, a.formats, a.row_weights_max, a.head_dim_max, a.queries_max, a.rows_max) == (4, ("ternary",), 2048, 64, 4, 512)
    assert convert("SmolLM2-135M").accelerator.queries_max == 3
    assert convert("SmolLM2-135M").context == 2048
    assert convert("SmolLM2-135M", context=4000).accelerator.rows_max == 4096


@pytest.mark.parametrize("shape", [{}, {"hidden": 40, "ffn": 256, "head_dim": 8, "heads": 5, "kv_heads": 5}])
def test_no_buffer_is_too_small(shape):
    config = ModelConfig(**(SHAPE | shape))
    a      = size(config, find_board("pynqz1"))
    assert a.row_weights_max >= max(config.hidden, config.ffn, config.q_width) > a.row_weights_max//2 - 40
    assert a.head_dim_max == config.head_dim and a.rows_max >= config.context


@pytest.mark.parametrize("arguments, message", [
    ({"board": "kv260"},                     "board 'kv260': must be one of pynqz1"),
    ({"strategy": "resident"},               "strategy 'resident': weights resident on chip are not built yet; use streamed"),
    ({"strategy": "pipelined"},              "strategy 'pipelined': there is no such strategy; use streamed"),
    ({"batch": 3},                           "batch 3: must be one of 1, 2, 4, 8"),
    ({"formats": ("ternary", "int4")},       "formats = .*int4.*: must be some of ternary, int8"),
    ({"formats": ("int8",)},                 "formats int8: SmolLM2-135M needs ternary too .ternary matrices, int8 head."),
    ({"head": "int4"},                       "head 'int4': must be one of int8, ternary, hybrid"),
    ({"context": 0},                         "context 0: must be a positive whole number"),
    ({"context": 5000},                      "context 5000: the attention core holds at most 4096 positions"),
    ({"context": 9000},                      "context 9000: SmolLM2-135M has 8192 positions"),
    ({"model": "no/such/model"},             "no such file or folder, and not a shape that is known .bitnet_b1_58-large"),
])
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        convert(**({"model": "SmolLM2-135M"} | arguments))


def test_model_that_does_not_fit():
    with pytest.raises(ValueError, match=r"random weights: \d+ MiB of weights and tables; Digilent PYNQ-Z1 has room for 476 MiB"):
        convert(dataclasses.replace(LARGE, layers=100))

# Simulation ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def design():
    """The tiny model's design, compiled: gateware in Verilator."""
    design = convert(tiny_model()).compile()
    yield design
    design.close()


def test_predict_and_trace(design):
    logits = design.predict(TOKENS)
    assert logits.dtype == np.float32 and np.array_equal(logits, exact_logits(design.quantised, TOKENS))
    steps = design.trace(TOKENS)
    names = ["qkv", "attention", "o", "gate_up", "down"]
    assert [(step.position, step.layer, step.name) for step in steps] == [(position, layer, name) for position in range(len(TOKENS))
        for layer in range(design.model.layers) for name in names] + [(len(TOKENS) - 1, None, "head")]
    assert all(step.equal for step in steps)
    assert [len(step.ours) for step in steps[-6:]] == [128, 64, 64, 192, 64, 130]


def test_struct_of_the_engine():
    """The library fills a struct engine_pl: its members are found where this side looks for them."""
    library = load_host_library()
    table, cores = PL.ctypes(), ctypes.create_string_buffer(library.cores_pl_bytes())
    library.cores_pl_init(cores, ctypes.byref(table), None, ctypes.c_uint64(0), 1, None)
    assert (table.ports, table.rows_max, table.row_weights_max, table.topk_max, table.timeout_us) == (2, 4096, ROW_WEIGHTS_MAX, TOPK_MAX, 2**32 - 1)
    assert all(ctypes.cast(getattr(table, name), ctypes.c_void_p).value for name, kind, _ in PL.members if isinstance(kind, Function))


def test_a_text_starts_afresh(design):
    first = design.predict(TOKENS)
    design.predict([1])
    assert np.array_equal(design.predict(TOKENS), first)


def test_trace_tells_where_they_part():
    design = convert(tiny_model()).compile("c")
    other  = tiny_model()
    packed = other.layers[1].o.packed.copy()
    packed[5] = 242 - packed[5]  # Weights of a row with the other sign.
    other.layers[1].o.packed = packed
    design._quantised = other
    steps = design.trace(TOKENS[:1])
    assert [(step.layer, step.name) for step in steps if not step.equal][0] == (1, "o")
    assert all(step.equal for step in steps[:7])


@pytest.mark.parametrize("shape", [
    {"heads": 6, "kv_heads": 1, "head_dim": 8},   # One KV head: the second lane has no attention; two passes.
    {"vocab": 7, "sub_norms": False},             # Rows that do not fill a beat, all on one lane.
    {"activation": "relu2", "tied": False},
])
def test_shapes_with_the_c_model(shape):
    design = convert(tiny_model(**shape), batch=2).compile("c")
    tokens = [token % design.model.vocab for token in TOKENS]
    assert np.array_equal(design.predict(tokens), exact_logits(design.quantised, tokens))
    assert all(step.equal for step in design.trace(tokens))


@pytest.mark.parametrize("head", HEADS)
def test_heads_with_the_c_model(head):
    design = convert(tiny_model(), head=head).compile("c")
    assert (design.accelerator.topk_max, design.accelerator.row_weights_max) == {
        "int8": (0, 128), "ternary": (0, 128), "hybrid": (256, 128)}[head]
    assert np.array_equal(design.predict(TOKENS), exact_logits(design.quantised, TOKENS))
    steps = design.trace(TOKENS)
    assert all(step.equal for step in steps) and steps[-1].name == ("down" if head == "hybrid" else "head")
    assert [work.name for work in matmul_work(design)][4:] == (["head", "shortlist"] if head == "hybrid" else ["head"])


def test_formats_choose_the_head():
    design = convert(ModelConfig(**SHAPE), formats=("ternary",)).compile("c")
    assert design.head.kind == "ternary"
    assert np.array_equal(design.predict(TOKENS), exact_logits(design.quantised, TOKENS))


def test_models_by_every_name(tmp_path):
    folder = write_checkpoint(tmp_path/"tiny")
    design = convert(folder).compile("c")
    logits = design.predict(TOKENS)
    write_image(design.quantised, tmp_path/"tiny.tern")
    image = convert(tmp_path/"tiny.tern").compile("c")
    assert np.array_equal(image.predict(TOKENS), logits)
    assert np.array_equal(exact_logits(image.quantised, TOKENS), logits)
    shape = convert(ModelConfig(**SHAPE)).compile("c")
    assert np.array_equal(shape.predict(TOKENS), exact_logits(shape.quantised, TOKENS))


def test_what_cannot_run(design):
    with pytest.raises(ValueError, match="tokens 130 … 130: the vocabulary has 0 … 129"):
        design.predict([130])
    with pytest.raises(ValueError, match="must be a list of one or more whole numbers"):
        design.predict([])
    with pytest.raises(ValueError, match="41 tokens: the context holds 40"):
        design.predict([1]*41)
    with pytest.raises(ValueError, match=r"formats ternary: tiny needs int8 too \(ternary matrices, int8 head\)"):
        convert(tiny_model(), formats=("ternary",))
    with pytest.raises(ValueError, match="pl 'fast': must be rtl or c"):
        convert(tiny_model()).compile("fast")

# Report -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch, head", [(1, "ternary"), (1, "int8"), (1, "hybrid"), (8, "int8")])
def test_bytes_are_those_of_the_work(batch, head):
    design = convert(ModelConfig(**(SHAPE | {"kv_heads": 1, "vocab": 512})), batch=batch, head=head)
    random = np.random.default_rng(1)
    for work in (*matmul_work(design), attention_work(design, 24)):
        kind = Group if work.core == "matmul" else Head
        for lane, (read, written) in zip(work.shapes, work.beats()):
            arena = Arena(np.zeros(1 << 20, np.uint8))
            items = [kind(arena, random, *shape) for shape in lane]
            assert (read, written) == (sum(item.beats for item in items), sum(item.result_bytes for item in items)//8), work.name


def test_work_of_a_large_model():
    works = {work.name: work for work in matmul_work(convert("bitnet_b1_58-large", formats=("ternary",)))}
    assert {name: work.times for name, work in works.items()} == {"qkv": 24, "o": 24, "gate_up": 24, "down": 24, "head": 1}
    read  = 8*sum(work.times*sum(read for read, _ in work.beats()) for work in works.values())
    assert read/2**20 == pytest.approx(141.3, abs=0.1)  # What the reference's packing takes, x and headers included.
    heads = attention_work(convert("bitnet_b1_58-large", batch=8), 512)
    assert heads.shapes[0] == ((512, 96, 4),)*16  # Eight heads a lane, two passes of four queries.


def test_report(design):
    r    = report(design, synthesise=False)
    data = json.loads(json.dumps(r.data()))
    assert data["source"] == "Verilator" and data["resources"] == []
    assert [token["context"] for token in data["tokens"]] == ([positions for positions in CONTEXTS if positions <= design.context] or [design.context])
    assert all(token["context"] <= design.context for token in data["tokens"])
    assert data["matmul"]["cycles"] == sum(part["cycles"] for part in data["matmul"]["parts"])
    for token in data["tokens"]:
        assert token["cycles"] == data["matmul"]["cycles"] + token["attention"]["cycles"]
        assert token["tokens_per_second"] == pytest.approx(design.accelerator.clock_hz/token["cycles"])
        assert 0 < token["wall_fraction"] < 1
    assert f"token at {design.context}" in str(r) and "cycles: Verilator" in str(r)


def test_formula_against_simulator(design):
    """What is called an estimate is one: within 8 % for steps of some hundred cycles, where latencies count most."""
    work = attention_work(design, 256)
    assert estimate(work, design) == pytest.approx(simulate({"attention": work}, design)["attention"], rel=0.08)
    quick = report(design, synthesise=False, simulate_cycles=False)
    assert quick.source == "estimate" and "a token (estimate)" in str(quick)


def test_resources_beside_the_chip():
    design = convert("SmolLM2-135M", batch=2)
    cells  = {"lut": 5320, "ff": 1064, "bram36": 7.5, "dsp": 22}
    r      = Report(design, "estimate", [("matmul", 2, cells), ("PL", 1, cells)], [("qkv", 100, 1600)], [(64, 100, 1600)])
    parts  = r.data()["resources"]
    assert [part["percent"]["lut"] for part in parts] == pytest.approx([20, 10])
    assert parts[1]["percent"]["dsp"] == pytest.approx(10) and r.data()["capacity"] == {"lut": 53200, "ff": 106400, "bram36": 140, "dsp": 220}
    assert "matmul × 2" in str(r) and "2 tokens of one text share" in str(r)
    assert r.data()["tokens"][0]["wall_fraction"] == pytest.approx(16*125e6/2.009e9)


@pytest.mark.full
@pytest.mark.parametrize("batch, head", [(4, "int8"), (1, "hybrid")])
def test_report_of_batches_and_shortlists(batch, head):
    """Every result of the simulated steps is compared with numpy on the way; cycles are near the formula's."""
    design = convert(ModelConfig(**(SHAPE | {"vocab": 2048, "ffn": 512})), batch=batch, head=head)
    works  = {work.name: work for work in matmul_work(design)} | {"attention": attention_work(design, 128)}
    for name, cycles in simulate(works, design).items():
        assert cycles == pytest.approx(estimate(works[name], design), rel=0.15), name


@pytest.mark.full
def test_synthesis(design, tmp_path):
    r     = design.report(simulate=False)
    parts = {part: (count, figures) for part, count, figures in r.resources}
    assert list(parts) == ["matmul", "attention", "DMA, registers, rest", "PL"]
    assert all(figures["lut"] > 0 for _, figures in parts.values())
    assert parts["PL"][1]["lut"] < BOARDS["pynqz1"].lut
    path = design.build(tmp_path)
    assert path == tmp_path/"pl.json" and "pl" in json.loads(path.read_text())["modules"] and (tmp_path/"pl.v").exists()
