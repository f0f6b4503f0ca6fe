#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The packer as a user meets it: what it writes, what it prints, and one clear line for what it refuses."""

import ctypes
import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from tokenizers import Tokenizer, models

from litetern.firmware import build
from litetern.host import pack as packer, plan
from litetern.model import calibrate
from litetern.model.formats import image
from litetern.model.formats.checkpoint import MATRICES
from litetern.model.formats.config import GROUPS
from litetern.model.formats.image import HEAD_HYBRID, HEAD_INT8, HEAD_TERNARY, read_header, read_image, IMAGE_HEADER
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.paths import ROOT
from litetern.model.perplexity import load_text
from litetern.model.quality.likelihood import perplexity_float
from litetern.soc.boards import BOARDS, Board, find_board
from golden_checkpoints import Golden
from tiny_checkpoint import write_checkpoint

# Helpers ------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    return write_checkpoint(tmp_path/"tiny")


def pack(*arguments):
    """(status, stdout, stderr) of the command."""
    done = subprocess.run([sys.executable, str(ROOT/"host"/"pack.py"), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def refused(*arguments):
    """Last line on stderr of a command that must fail with one clear line."""
    status, out, err = pack(*arguments)
    assert status == 1 and out == "" and "Traceback" not in err
    return err.splitlines()[-1]

def refused_arguments(*arguments):
    """Last line of a command that argparse refuses."""
    status, out, err = pack(*arguments)
    assert status == 2 and out == ""
    return err.splitlines()[-1]

# Results ------------------------------------------------------------------------------------------


def test_image_holds_the_checkpoint(checkpoint, tmp_path):
    status, out, _ = pack(checkpoint, "-o", tmp_path/"m.tern", "--json")
    model, figures = read_image(tmp_path/"m.tern"), json.loads(out)
    expected = quantise_checkpoint(load_checkpoint(checkpoint), *calibrate.kv_steps(load_checkpoint(checkpoint)))
    # The image holds float32 of what the configuration says in float64.
    assert status == 0 and dataclasses.replace(model.config, norm_eps=1e-5) == expected.config
    for name in ("embedding", "cosine", "final_norm"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    for layer, other in zip(model.layers, expected.layers):
        np.testing.assert_array_equal(layer.qkv.packed, other.qkv.packed)
        np.testing.assert_array_equal(layer.k_steps, other.k_steps)
    assert figures["image_bytes"] == (tmp_path/"m.tern").stat().st_size
    assert figures["weight_bytes"] == sum(getattr(layer, name).packed.nbytes for layer in model.layers for name in GROUPS)
    assert figures["kv_position_bytes"] == 2*2*32  # K and V, layers, KV width.
    assert figures["context_max"] == 64


def test_table_names_the_sizes(checkpoint, tmp_path):
    status, out, err = pack(checkpoint, "-o", tmp_path/"m.tern", "--head", "int8")
    assert status == 0 and "2 layers of 64" in out and "at the memory wall" in out and "64 of 64 positions" in out
    assert err.splitlines() == ["reading the checkpoint", "calibrating the KV cache", "quantising", "looking for what clips", "writing"]


@pytest.mark.parametrize("arguments, number, planes, shortlist", [(["--head", "int8"], HEAD_INT8, 0, 0), (["--head", "ternary"], HEAD_TERNARY, 1, 0),
    (["--head", "hybrid"], HEAD_HYBRID, 2, 2), (["--head", "hybrid", "--planes", 3, "--shortlist", 40], HEAD_HYBRID, 3, 40)])
def test_heads(checkpoint, tmp_path, arguments, number, planes, shortlist):
    status, out, _ = pack(checkpoint, "-o", tmp_path/"m.tern", "--json", *arguments)
    header, figures = read_header((tmp_path/"m.tern").read_bytes())[0], json.loads(out)
    assert status == 0 and (header["head_format"], header["head_planes"], header["shortlist"]) == (number, planes, shortlist)
    assert figures["image_bytes"] == (tmp_path/"m.tern").stat().st_size == sum(figures["image_parts"].values())
    assert [choice["head"] for choice in figures["head_choices"]] == ["int8", "ternary", "hybrid"]
    sizes = [choice["bytes"] for choice in figures["head_choices"]]
    assert sizes[0] == 320*64 and sizes[1] < sizes[2] < sizes[0]
    if "--planes" not in arguments:
        assert figures["head_bytes"] == sizes[number]


def test_heads_are_compared_on_a_text(checkpoint, tmp_path):
    (tmp_path/"text.txt").write_text("The dog ran. A girl ran, too, and they were fast.")
    status, out, _ = pack(checkpoint, "-o", tmp_path/"m.tern", "--text", tmp_path/"text.txt")
    assert status == 0 and "perplexity" in out
    figures = packer.pack(checkpoint, tmp_path/"m.tern", text=tmp_path/"text.txt")
    assert all(1 < choice["perplexity"] < np.inf for choice in figures["head_choices"])


@pytest.fixture
def file(tmp_path):
    """A checkpoint that is one file, with a tokenizer beside it."""
    path = Golden("llama2c_0", tmp_path).path
    Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>")).save(str(path.with_name("tokenizer.json")))
    return path


@pytest.mark.parametrize("arguments, body", [([], "int8"), (["--ternary"], "ternary")])
def test_single_files(tmp_path, file, arguments, body):
    status, out, err = pack(file, "-o", tmp_path/"m.tern", "--json", *arguments)
    assert status == 0 and json.loads(out)["body"] == body
    # What a user should know is said, and goes with the image.
    notes = json.loads(read_image(tmp_path/"m.tern").metadata)["notes"]
    assert all(f"note: {note}" in err for note in notes) and (notes or not arguments)


def test_single_files_are_packed_for_the_chat(tmp_path, file, monkeypatch):
    monkeypatch.setattr(packer, "CACHE", tmp_path/"cache")
    first = packer.packed(file)
    assert read_image(first).config.layers > 0 and packer.packed(file) == first


def test_context(checkpoint, tmp_path):
    assert pack(checkpoint, "-o", tmp_path/"m.tern", "--context", 24)[0] == 0
    assert read_image(tmp_path/"m.tern").config.context == 24


def test_calibration_text_and_stored_steps(checkpoint, tmp_path):
    (tmp_path/"text.txt").write_text("The dog ran.")
    packer.pack(checkpoint, tmp_path/"text.tern", calibration=tmp_path/"text.txt")
    of_text = read_image(tmp_path/"text.tern")
    steps   = calibrate.kv_steps(load_checkpoint(checkpoint), ["The dog ran."])
    np.testing.assert_array_equal(of_text.layers[1].k_steps, steps[0][1])
    assert json.loads(of_text.metadata)["calibration"] == "text.txt"

    calibrate.write_steps(checkpoint/calibrate.FILE, *[2*step for step in steps], "text.txt")
    packer.pack(checkpoint, tmp_path/"stored.tern")
    np.testing.assert_array_equal(read_image(tmp_path/"stored.tern").layers[1].k_steps, 2*steps[0][1])


def test_folder_is_packed_again_only_when_it_changed(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(packer, "CACHE", tmp_path/"cache")
    first = packer.packed(checkpoint)
    made  = first.stat().st_mtime_ns
    assert packer.packed(checkpoint) == first and first.stat().st_mtime_ns == made
    write_checkpoint(checkpoint, seed=2)
    assert packer.packed(checkpoint) != first
    assert packer.packed(first) == first

# Refusals -----------------------------------------------------------------------------------------


def test_what_is_no_checkpoint(tmp_path):
    assert "no such file or folder" in refused(tmp_path/"none", "-o", tmp_path/"m.tern")
    assert "config.json" in refused(tmp_path, "-o", tmp_path/"m.tern")


def test_damaged_weights(checkpoint, tmp_path):
    data = (checkpoint/"model.safetensors").read_bytes()
    (checkpoint/"model.safetensors").write_bytes(data[:len(data)//2])
    assert "damaged safetensors" in refused(checkpoint, "-o", tmp_path/"m.tern")
    assert list(tmp_path.glob("*.tern*")) == []


def test_no_tokenizer(checkpoint, tmp_path):
    (checkpoint/"tokenizer.json").unlink()
    assert "tokenizer" in refused(checkpoint, "-o", tmp_path/"m.tern")


def test_arguments(checkpoint, tmp_path):
    assert "context 65: must lie in 1 … 64" in refused(checkpoint, "-o", tmp_path/"m.tern", "--context", 65)
    assert "must be a file" in refused(checkpoint, "-o", tmp_path/"none"/"m.tern")
    assert "are needed, for example: python host/pack.py model/zoo/stories -o stories.tern" in refused_arguments(checkpoint)
    assert "4 planes: must be 1 to 3" in refused(checkpoint, "-o", tmp_path/"m.tern", "--head", "ternary", "--planes", 4)
    assert "text.txt" in refused(checkpoint, "-o", tmp_path/"m.tern", "--calibration", tmp_path/"text.txt")


def test_image_too_large(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(image, "LENGTH_MAX", 20000)
    with pytest.raises(ValueError, match="an image of .* bytes or more: must have at most 20,000"):
        packer.pack(checkpoint, tmp_path/"m.tern")
    assert list(tmp_path.glob("*.tern*")) == []


def test_memory_plan(checkpoint, tmp_path, monkeypatch):
    """A context that the board's memory cannot hold is refused; what is there stays."""
    size = packer.pack(checkpoint, tmp_path/"m.tern")["image_bytes"]
    (tmp_path/"m.tern").write_text("old")
    board = find_board("pynqz1")
    small = dataclasses.replace(board, model_bytes=size + plan.BUFFERS + 33*128)
    monkeypatch.setitem(BOARDS, "pynqz1", small)
    with pytest.raises(ValueError, match=r"tiny does not fit: image .*, KV cache 8.19 kB for 64 positions, buffers 8.39 MB: together .* MB; "
            r"the Digilent PYNQ-Z1 has .* MB; the largest context is 33$"):
        packer.pack(checkpoint, tmp_path/"m.tern", context=64)
    with pytest.raises(ValueError, match=r"KV cache 16.4 kB for 2 sessions of 64 positions, .*; the largest context is 15$"):
        monkeypatch.setitem(BOARDS, "pynqz1", dataclasses.replace(board, model_bytes=size + plan.BUFFERS + 31*128))
        packer.pack(checkpoint, tmp_path/"m.tern", sessions=2)
    monkeypatch.setitem(BOARDS, "pynqz1", dataclasses.replace(board, image_bytes=size - 1))
    with pytest.raises(ValueError, match="tiny does not fit: image .* the Digilent PYNQ-Z1 has room for"):
        packer.pack(checkpoint, tmp_path/"m.tern")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["m.tern"] and (tmp_path/"m.tern").read_text() == "old"


def test_refusal_shows_the_plan(tmp_path, checkpoint, monkeypatch, capsys):
    size = packer.pack(checkpoint, tmp_path/"m.tern")["image_bytes"]
    monkeypatch.setitem(BOARDS, "pynqz1", dataclasses.replace(find_board("pynqz1"), image_bytes=size - 1))
    monkeypatch.setattr(sys, "argv", ["pack.py", str(checkpoint), "-o", str(tmp_path/"m.tern")])
    with pytest.raises(plan.DoesNotFit):
        packer.main()
    shown = capsys.readouterr().err
    assert all(part in shown for part in ("ternary weights", "int8 embedding", "KV cache", "buffers", "together"))


def test_too_large_checkpoints_are_refused_with_the_plan(tmp_path, checkpoint):
    """A 2B model's shape: the plan, then one line with the arithmetic; nothing of its size is read or written."""
    config = json.loads((checkpoint/"config.json").read_text())
    (checkpoint/"config.json").write_text(json.dumps(config | {"hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 30,
        "num_attention_heads": 20, "num_key_value_heads": 5, "vocab_size": 128256}))
    status, _, err = pack(checkpoint, "-o", tmp_path/"m.tern")
    assert status == 1 and "together 713 MiB" in err.splitlines()[-1]
    assert [line.split("  ")[1] for line in err.splitlines()[2:-1]] == ["ternary weights", "int8 embedding", "norms, steps, angles",
        "tokenizer, template", "image", "KV cache", "buffers", "together"]


FALCON_E_1B = {"hidden": 2048, "ffn": 8192, "layers": 24, "heads": 16, "kv_heads": 4, "head_dim": 128, "vocab": 32768, "context": 2048,
    "norm_eps": 1e-6, "rope_theta": 1e6, "activation": "silu", "sub_norms": False, "tied": False}


@pytest.mark.parametrize("sessions, context, fits", [(1, None, True), (1, 2048, True), (2, 1024, True), (2, 2048, False), (2, None, False)])
def test_a_model_of_a_billion_weights_fits(sessions, context, fits):
    """By its shape: 281 MiB of ternary weights, twice 64 MiB of int8 tables, and 24 KiB of KV cache a position beside them."""
    figures = plan.report(plan.outline(FALCON_E_1B, tokenizer=bytes(2_000_000), name="Falcon-E-1B"), sessions=sessions)
    assert figures["image_parts"]["weights"] == pytest.approx(281 << 20, rel=0.01) and figures["image_bytes"] > 384 << 20
    assert figures["image_parts"]["embedding"] == figures["image_parts"]["head"] == 64 << 20 and figures["kv_position_bytes"] == 24 << 10
    if fits:
        plan.check(figures, context)
    else:
        with pytest.raises(plan.DoesNotFit, match=f"KV cache 101 MB for 2 sessions of 2048 positions, .*; the largest context is {figures['context_max']}$"):
            plan.check(figures, context)


def test_the_firmwares_arena_is_no_larger_than_the_plan_says():
    """Of a shape with everything: engine_arena_bytes() of the C engine beside the plan's KV cache and buffers."""
    shape   = {**FALCON_E_1B, "layers": 2, "context": 512}
    library = build.load_host_library()
    model   = plan.outline(shape, planes=2, shortlist=256)
    figures = plan.report(model)
    header  = np.zeros(1, IMAGE_HEADER.dtype)
    for name in ("hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocab", "context"):
        header[name] = shape[name]
    header["head_format"], header["head_planes"], header["shortlist"] = 2, 2, 256
    table = np.zeros(32, np.uint64)
    table.view(np.uint32)[6:13] = 2, 3, 2048, 16384, 256, 0, 0  # Ports, queries, rows, weights of a row, shortlist, time-out, results.
    library.engine_arena_bytes.restype = ctypes.c_size_t
    for sessions in range(1, Board.sessions_max + 1):
        arena = library.engine_arena_bytes(ctypes.c_void_p(header.ctypes.data), sessions, 512, ctypes.c_void_p(table.ctypes.data))
        cache = sessions*512*figures["kv_position_bytes"]
        assert cache < arena <= cache + plan.BUFFERS


def test_sessions_and_boards(checkpoint, tmp_path):
    assert "sessions 5: must lie in 1 … 4" in refused(checkpoint, "-o", tmp_path/"m.tern", "--sessions", 5)
    assert "sessions 0: must lie in 1 … 4" in refused(checkpoint, "-o", tmp_path/"m.tern", "--sessions", 0)
    assert "invalid choice: 'none'" in refused_arguments(checkpoint, "-o", tmp_path/"m.tern", "--board", "none")
    status, out, _ = pack(checkpoint, "-o", tmp_path/"m.tern", "--board", "pynqz1", "--sessions", 2)
    assert status == 0 and "memory of the Digilent PYNQ-Z1 (512 MiB)" in out and "2 x 64 of 64 positions" in out


def test_contexts_are_bounded_by_the_attention_core(tmp_path, checkpoint):
    write_checkpoint(checkpoint, max_position_embeddings=4096)
    assert packer.pack(checkpoint, tmp_path/"m.tern")["context_max"] == 2048
    with pytest.raises(plan.DoesNotFit, match="the attention core takes 2048 positions"):
        packer.pack(checkpoint, tmp_path/"m.tern", context=4096)


def test_positions_beyond_the_board_are_refused_at_once(tmp_path, checkpoint, monkeypatch):
    """16 million positions: neither calibration nor the angles' gigabyte; fewer positions of the same checkpoint fit."""
    write_checkpoint(checkpoint, max_position_embeddings=16_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(calibrate, "kv_steps", None)
        with pytest.raises(plan.DoesNotFit, match="angles of 16,000,000 positions take 2.05 GB of that, --context takes fewer$"):
            packer.pack(checkpoint, tmp_path/"m.tern")
        with pytest.raises(plan.DoesNotFit, match="the attention core takes 2048 positions"):
            packer.pack(checkpoint, tmp_path/"m.tern", context=4096)
        with pytest.raises(ValueError, match="4 planes: must be 1 to 3"):
            packer.pack(checkpoint, tmp_path/"m.tern", context=64, head="hybrid", planes=4)
    assert packer.pack(checkpoint, tmp_path/"m.tern", context=64)["context"] == 64

def test_clips_are_counted_printed_and_priced(checkpoint, tmp_path):
    """Steps of another model, a thousand times too small: the kinds that clip, the price, a refusal that --force overrides."""
    steps = [part/1000 for part in calibrate.kv_steps(load_checkpoint(checkpoint))]
    assert packer.pack(checkpoint, tmp_path/"good.tern")["clipped"] == []
    calibrate.write_steps(checkpoint/calibrate.FILE, *steps, "another model's")
    (tmp_path/"text.txt").write_text("Once upon a time there was a girl and a dog. "*20)
    result = packer.pack(checkpoint, tmp_path/"m.tern", force=True)
    assert [line.split(":")[0] for line in result["clipped"]] == ["keys", "values"]
    assert result["perplexity"]["exact"] != pytest.approx(result["perplexity"]["float"], rel=0.01)
    shown = "\n".join(plan.lines(result))
    assert "keys: " in shown and "of this image" in shown


def test_what_the_exact_path_ruins_is_refused(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(packer, "RUINED", 0.5)
    (tmp_path/"text.txt").write_text("Once upon a time there was a girl and a dog. "*20)
    with pytest.raises(ValueError, match=r"of its own floats becomes .* ruins it \(nothing clips\); --force packs it all the same$"):
        packer.pack(checkpoint, tmp_path/"m.tern", text=tmp_path/"text.txt")
    assert not (tmp_path/"m.tern").exists()
    assert packer.pack(checkpoint, tmp_path/"m.tern", text=tmp_path/"text.txt", force=True)["clipped"] == []


@pytest.mark.parametrize("name", ["gguf_float", "llama2c_0", "smollm", "any floats"])
def test_floats_of_the_file(tmp_path, name):
    """int8 bodies: the price is taken of the file's floats, not of the int8 rows that they are rounded to."""
    path = write_checkpoint(tmp_path/"floats", architectures=["BitNetForCausalLM"]) if name == "any floats" else Golden(name, tmp_path).path
    floats, rounded = load_checkpoint(path, floats=True), load_checkpoint(path)
    assert floats.weights == "float" and rounded.weights == "int8"
    for layer, other in zip(floats.layers, rounded.layers):
        for key in MATRICES:
            (weights, scale), (rows, steps) = layer[key], other[key]
            error = np.abs(weights - rows*steps[:, None])
            assert scale == 1 and weights.dtype == np.float32 and np.all(error <= 0.5001*steps[:, None])
            assert name != "any floats" or error.max() > 0.4*steps.max()
    with pytest.raises(ValueError, match="holds floats: images hold ternary or int8 matrices"):
        quantise_checkpoint(floats)


def test_the_price_is_of_the_files_floats(tmp_path):
    path   = write_checkpoint(tmp_path/"floats", architectures=["BitNetForCausalLM"])
    text   = tmp_path/"text.txt"
    text.write_text("Once upon a time there was a girl and a dog. "*4)
    tokens = load_text(load_checkpoint(path), text)
    length = min(64, len(tokens) - 1)
    price  = packer.pack(path, tmp_path/"m.tern", text=text, force=True)["perplexity"]["float"]
    assert price == perplexity_float(load_checkpoint(path, floats=True), tokens, length)
    assert price != perplexity_float(load_checkpoint(path), tokens, length)


# What is read is never written --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["its name", "another spelling", "a symbolic link", "a hard link"])
def test_output_is_no_file_that_is_read(checkpoint, tmp_path, way):
    """A member of the folder and a text, by whatever name: refused before anything is read, and whole afterwards."""
    text = tmp_path/"text.txt"
    text.write_text("Once upon a time.")
    for read, options in ((checkpoint/"model.safetensors", []), (text, ["--calibration", text])):
        before, output = read.read_bytes(), read
        if way == "another spelling":
            output = read.parent/".."/read.parent.name/read.name
        elif "link" in way:
            output = tmp_path/f"{read.stem}.tern"
            output.symlink_to(read) if way == "a symbolic link" else output.hardlink_to(read)
        assert f"{output}: is read as {read}, so the image must go to another file" in refused(checkpoint, "-o", output, *options)
        assert read.read_bytes() == before


def test_image_in_the_folder_is_packed_again(checkpoint):
    """An image that lies beside its checkpoint is not read by the packer."""
    for _ in range(2):
        assert pack(checkpoint, "-o", checkpoint/"m.tern")[0] == 0
