#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Files that are damaged, mismatched, pickled, unknown or too large: one clear line each, and never anything but a ValueError."""

import json
import pickle
import random
import zipfile

import gguf
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

from golden_checkpoints import FORMATS, Golden
from hostile_files import with_tensor
from litetern.model.importers import load_checkpoint

# Helpers ------------------------------------------------------------------------------------------


LIMIT = 476 << 20  # Bytes of an image.


def refused(path, **options):
    """The one line by which a checkpoint is refused."""
    with pytest.raises(ValueError) as error:
        load_checkpoint(path, **options)
    line = str(error.value)
    assert "\n" not in line and len(line) < 500 and str(path) in line
    return line


def configured(golden, remove=(), **settings):
    """Changes config.json of a folder."""
    path   = golden.folder/"config.json"
    config = {key: value for key, value in json.loads(path.read_text()).items() if key not in remove} | settings
    path.write_text(json.dumps(config))
    return golden.folder


def edited(golden, edit):
    """Rewrites model.safetensors (numpy's types only) after `edit` of {name: array}."""
    path = golden.folder/"model.safetensors"
    with safe_open(path, framework="numpy") as f:
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    edit(tensors)
    save_file(tensors, path)
    return golden.folder


@pytest.fixture
def trilm(tmp_path):
    return Golden("trilm", tmp_path)


@pytest.fixture
def packed(tmp_path):
    return Golden("microsoft_packed", tmp_path)

# Safetensors --------------------------------------------------------------------------------------


def test_truncated_shard(tmp_path):
    golden = Golden("bitnet_large", tmp_path)
    shard  = sorted(golden.folder.glob("*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "damaged safetensors file" in refused(golden.folder)


def test_missing_shard(tmp_path):
    golden = Golden("bitnet_large", tmp_path)
    sorted(golden.folder.glob("*.safetensors"))[1].unlink()
    assert "model-00002-of-00005.safetensors is missing (1 of 5 shards are)" in refused(golden.folder)


def test_index_that_does_not_match(tmp_path):
    golden = Golden("bitnet_large", tmp_path)
    index  = golden.folder/"model.safetensors.index.json"
    value  = json.loads(index.read_text())
    value["weight_map"]["model.norm.weight"] = "model-00002-of-00005.safetensors"
    index.write_text(json.dumps(value))
    assert "tensor model.norm.weight is not in model-00002-of-00005.safetensors" in refused(golden.folder)
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../other.safetensors"}}))
    assert "weight_map {\"model.norm.weight\": \"../other.safetensors\"}: must be an object from tensors to names" in refused(golden.folder)
    index.write_text("{")
    assert "cannot be read as JSON" in refused(golden.folder)


def test_tensor_in_two_files(tmp_path):
    """Without an index nobody can know which one is meant."""
    golden = Golden("bitnet_large", tmp_path)
    (golden.folder/"model.safetensors.index.json").unlink()
    first  = sorted(golden.folder.glob("*.safetensors"))[0]
    (golden.folder/"old.safetensors").write_bytes(first.read_bytes())
    line = refused(golden.folder)
    assert f"is in {first.name} and in old.safetensors: one of the two must go" in line


def test_missing_tensor(trilm):
    folder = edited(trilm, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    assert "tensor model.layers.1.mlp.up_proj.weight is missing (must be [48, 32])" in refused(folder)


def test_missing_head(trilm):
    folder = edited(trilm, lambda tensors: tensors.pop("lm_head.weight"))
    assert "tensor lm_head.weight is missing" in refused(folder)


def test_shape_that_does_not_match(trilm):
    assert "is [48, 32]: must be [56, 32]" in refused(configured(trilm, intermediate_size=56))


def test_not_finite(trilm):
    def edit(tensors):
        tensors["model.layers.0.mlp.down_proj.weight"][3, 4] = np.nan
    assert "tensor model.layers.0.mlp.down_proj.weight holds infinite values or NaN" in refused(edited(trilm, edit))


def test_not_ternary(trilm):
    def edit(tensors):
        tensors["model.layers.1.self_attn.o_proj.weight"][0, :3] *= [2, 3, 4]
    assert "o_proj.weight has weights of" in refused(edited(trilm, edit))


def test_integers_for_floats(trilm):
    folder = edited(trilm, lambda tensors: tensors.update({"model.norm.weight": np.ones(32, np.int32)}))
    assert "tensor model.norm.weight is int32: must be floats" in refused(folder)


def test_float8(trilm):
    path = trilm.folder/"model.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + size])
    start, end = head["model.norm.weight"]["data_offsets"]
    head["model.norm.weight"] |= {"dtype": "F8_E4M3", "shape": [end - start]}
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    configured(trilm, hidden_size=32)
    assert "model.norm.weight is [64]: must be [32]" in refused(trilm.folder)
    head["model.norm.weight"] |= {"shape": [32]}
    head["more"] = {"dtype": "F8_E4M3", "shape": [32], "data_offsets": [end - 32, end]}
    head["model.norm.weight"]["data_offsets"] = [start, end - 32]
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    assert "tensor model.norm.weight is of type F8_E4M3" in refused(trilm.folder)


def test_tensors_without_a_place(trilm):
    folder = edited(trilm, lambda tensors: tensors.update({"model.layers.0.self_attn.q_norm.weight": np.ones(8, np.float32)}))
    assert "tensor model.layers.0.self_attn.q_norm.weight has no place in a LlamaForCausalLM" in refused(folder)

# Packed -------------------------------------------------------------------------------------------


def test_invalid_code(packed):
    def edit(tensors):
        tensors["model.layers.0.mlp.up_proj.weight"][2, 5] |= 0b110000
    assert "up_proj.weight holds the code 3" in refused(edited(packed, edit))


@pytest.mark.parametrize("scale", [[0.0], [-1.0], [np.inf], [1.0, 2.0]])
def test_invalid_scale(packed, scale):
    folder = edited(packed, lambda tensors: tensors.update({"model.layers.1.mlp.up_proj.weight_scale": np.array(scale, np.float32)}))
    assert "scale of tensor model.layers.1.mlp.up_proj.weight: must be one positive number" in refused(folder)


def test_scale_is_missing(packed):
    folder = edited(packed, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight_scale"))
    assert "up_proj.weight is [12, 32]: must be [48, 32]" in refused(folder)


def test_convention_follows_the_configuration(packed, tmp_path):
    """Divide where nothing is said, multiply for offline AutoBitLinear."""
    divided    = load_checkpoint(packed.folder).layers[0]["q"]
    configured(packed, quantization_config={"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"})
    multiplied = load_checkpoint(packed.folder).layers[0]["q"]
    np.testing.assert_array_equal(divided[0], multiplied[0])
    assert divided[1]*multiplied[1] == pytest.approx(1)

# config.json --------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings, line", [
    ({"architectures": ["Qwen3ForCausalLM"]},                     "architecture Qwen3ForCausalLM is not known (BitnetForCausalLM"),
    ({"architectures": [], "model_type": None},                   "architecture None is not known"),
    ({"architectures": None, "model_type": "falcon_h1"},          "architecture falcon_h1 is not known (BitnetForCausalLM"),
    ({"architectures": 5},                                        "config.json: architectures 5: must be a list of texts"),
    ({"attention_bias": True},                                    "config.json has attention_bias"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "rope_parameters": None}, "does not state low_freq_factor"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}},   "RoPE of type 'dynamic': default, linear, llama3, yarn are known"),
    ({"rope_scaling": {"type": "su", "short_factor": [1.0]}},     "RoPE of type 'su'"),
    ({"rope_parameters": {"rope_type": "longrope"}},              "RoPE of type 'longrope'"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "RoPE of its own for layers of kind 'full_attention'"),
    ({"rope_scaling": {"type": "linear", "factor": 0}},           "rope_scaling: factor 0: must be a number between 0.001 and 1e+06"),
    ({"rope_scaling": {"type": "linear"}},                        "rope_scaling does not state factor"),
    ({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}}, "low_freq_factor 4: must be less than"),
    ({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": "x"}}, "beta_fast \"x\": must be a number"),
    ({"rope_scaling": {"type": "yarn", "factor": 4, "rope_theta": 1}}, "rope_theta 1: YaRN needs one beyond 1"),
    ({"partial_rotary_factor": 0.5},                              "RoPE turns 0.5 of each head (partial_rotary_factor)"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "RoPE turns 0.25 of each head"),
    ({"quantization_config": {"quant_method": "gptq"}},           "quantised by 'gptq'"),
    ({"quantization_config": {"use_rms_norm": True}},             "use_rms_norm"),
    ({"quantization_config": [1]},                                "config.json: quantization_config [1]: must be an object"),
    ({"quantization_config": {"linear_class": "other"}},          "quantization_config: linear_class \"other\": must be one of bitlinear"),
    ({"hidden_act": "gelu"},                                      "config.json: hidden_act \"gelu\": must be one of silu, relu2"),
    ({"num_hidden_layers": "two"},                                "num_hidden_layers \"two\": must be a whole number between 1 and 4,096"),
    ({"num_hidden_layers": 1e30},                                 "num_hidden_layers 1e+30: must be a whole number"),
    ({"num_hidden_layers": True},                                 "num_hidden_layers true: must be a whole number"),
    ({"num_attention_heads": 0},                                  "num_attention_heads 0: must be a whole number"),
    ({"num_attention_heads": None},                               "config.json does not state num_attention_heads"),
    ({"vocab_size": -100},                                        "vocab_size -100: must be a whole number between 2 and"),
    ({"num_key_value_heads": 3},                                  "must be"),
    ({"rms_norm_eps": "x"},                                       "rms_norm_eps \"x\": must be a number between 1e-09 and 1"),
    ({"rope_theta": 0, "rope_parameters": None},                  "rope_theta 0: must be a number between 1 and 1e+12"),
    ({"tie_word_embeddings": "false"},                            "tie_word_embeddings \"false\": must be true or false"),
    ({"eos_token_id": "x"},                                       "eos_token_id \"x\": must be a whole number between 0 and 99"),
    ({"eos_token_id": []},                                        "eos_token_id []: must be"),
    ({"eos_token_id": 1.5},                                       "eos_token_id 1.5: must be"),
    ({"eos_token_id": [2, -1]},                                   "eos_token_id [2, -1]: must be"),
    ({"bos_token_id": 100},                                       "bos_token_id 100: must be a whole number between 0 and 99"),
])
def test_configuration(trilm, settings, line):
    assert line in refused(configured(trilm, remove=("head_dim",), **settings))


def test_configuration_is_damaged(trilm):
    configured(trilm, remove=("hidden_size",))
    assert "config.json does not state hidden_size" in refused(trilm.folder)
    (trilm.folder/"config.json").write_text("[1, 2]")
    assert "must be a JSON object" in refused(trilm.folder)
    (trilm.folder/"config.json").write_bytes(b"\xff\xfe")
    assert "cannot be read as JSON" in refused(trilm.folder)
    (trilm.folder/"config.json").unlink()
    assert "config.json: cannot be read (No such file or directory)" in refused(trilm.folder)


def test_tokenizer_does_not_match(trilm):
    from tiny_checkpoint import tokenizer
    tokenizer(320).save(str(trilm.folder/"tokenizer.json"))
    assert "the tokenizer has tokens up to" in refused(trilm.folder)
    (trilm.folder/"tokenizer.json").write_text("{}")
    assert "tokenizer cannot be read" in refused(trilm.folder)


def test_tokenizer_of_one_token_too_many(trilm):
    """The largest token id is one below the embedding's rows, not equal to them."""
    rows = json.loads((trilm.folder/"config.json").read_text())["vocab_size"]
    path = trilm.folder/"tokenizer.json"
    words = lambda count: Tokenizer(models.WordLevel({f"w{i}": i for i in range(count)}, unk_token="w0"))
    words(rows).save(str(path))
    load_checkpoint(trilm.folder)
    words(rows + 1).save(str(path))
    assert f"the tokenizer has tokens up to {rows:,}: the embedding has {rows:,} rows" in refused(trilm.folder)

# Too large ----------------------------------------------------------------------------------------


def test_microsoft_2b_does_not_fit(packed):
    folder = configured(packed, hidden_size=2560, intermediate_size=6912, num_hidden_layers=30, num_attention_heads=20,
        num_key_value_heads=5, head_dim=128, vocab_size=128256)
    line   = refused(folder, limit=LIMIT)
    assert "30 layers take 398 MiB of ternary weights, int8 embedding (also the head) of 128,256 x 2,560 take 313 MiB" in line
    assert "together 713 MiB; there is room for 476 MiB" in line


def test_falcon3_does_not_fit(tmp_path):
    golden = Golden("falcon_e", tmp_path)
    folder = configured(golden, hidden_size=2048, intermediate_size=8192, num_hidden_layers=18, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, vocab_size=131072)
    assert "embedding and head of 131,072 x 2,048 take 512 MiB" in refused(folder, limit=LIMIT)


def test_wide_heads(tmp_path):
    """A head of 256 is refused even where the memory would do."""
    golden = Golden("falcon_e", tmp_path)
    assert "head_dim = 256: must be a multiple of 8 up to 128" in refused(configured(golden, head_dim=256))

# Pickles ------------------------------------------------------------------------------------------


class Attack:
    """A pickle that leaves a trace where it is loaded."""
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "pytorch_model.bin", "model.ckpt"])
@pytest.mark.parametrize("archive", [False, True])
def test_pickles_are_never_loaded(tmp_path, name, archive):
    data, path = pickle.dumps(Attack(tmp_path/"trace")), tmp_path/name
    if archive:
        with zipfile.ZipFile(path, "w") as f:
            f.writestr("archive/data.pkl", data)
    else:
        path.write_bytes(data)
    assert "pickled checkpoint can run any code and is never loaded" in refused(path)
    assert not (tmp_path/"trace").exists()


def test_folder_of_pickles(trilm):
    (trilm.folder/"model.safetensors").unlink()
    (trilm.folder/"pytorch_model.bin").write_bytes(pickle.dumps([1]))
    assert "pytorch_model.bin is pickled" in refused(trilm.folder)

# GGUF ---------------------------------------------------------------------------------------------


def resealed(golden, old, new, count=1):
    """Replaces bytes of the same length in a file."""
    data = golden.path.read_bytes()
    assert data.count(old) >= count and len(old) == len(new)
    golden.path.write_bytes(data.replace(old, new))
    return golden.path


def test_gguf_of_another_architecture(tmp_path):
    path = resealed(Golden("gguf_i2_s", tmp_path), b"general.architecture\x08\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00bitnet",
        b"general.architecture\x08\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00falcon")
    assert "architecture 'falcon' is not known (llama, bitnet are)" in refused(path)


def test_gguf_without_a_tensor(tmp_path):
    path = resealed(Golden("gguf_tq1_0", tmp_path), b"blk.0.ffn_up.weight", b"blk.0.ffn_uq.weight")
    assert "tensor blk.0.ffn_up.weight is missing" in refused(path)


def test_gguf_without_a_key(tmp_path):
    path = resealed(Golden("gguf_tq1_0", tmp_path), b"llama.block_count", b"llama.block_kount")
    assert "the file does not state llama.block_count" in refused(path)


def rewritten(path, edit, without=(), **tensors):
    """The GGUF file at `path`, written anew by the gguf package: edit(writer) adds keys, those of `without` go; tensors: further ones, float32."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(path.with_suffix(".new"), reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", *without):
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    edit(writer)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".new").replace(path)
    return path


@pytest.mark.parametrize("edit, line", [
    (lambda writer: (writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE), writer.add_rope_scaling_factor(4.0)),
        "the file asks for RoPE scaling of type 'longrope': none, linear, yarn are known"),
    (lambda writer: writer.add_float32("llama.rope.scale_linear", 0.0), "llama.rope.scale_linear 0.0: must be a number between 0.001 and 1e+06"),
    (lambda writer: writer.add_rope_dimension_count(4), "llama.rope.dimension_count: RoPE turns 4 of each head's 8 values"),
    (lambda writer: writer.add_uint16("split.count", 3), "one of 3 parts of a split file, whose names end with -00001-of-00003.gguf and so on"),
])
def test_gguf_that_means_more_than_it_holds(tmp_path, edit, line):
    golden = Golden("gguf_float", tmp_path)
    assert line in refused(rewritten(golden.path, edit))


def test_gguf_without_a_base(tmp_path):
    """llama.cpp's base of RoPE where the file states none."""
    golden = Golden("gguf_float", tmp_path)
    assert load_checkpoint(rewritten(golden.path, lambda writer: None, without=["llama.rope.freq_base"])).config.rope_theta == 10000


def test_gguf_with_scaled_frequencies(tmp_path):
    """The tensor that holds the divisors of RoPE's frequencies is of their number, and none of them is far out."""
    golden  = Golden("gguf_float", tmp_path)
    pairs   = load_checkpoint(golden.path).config.head_dim//2
    factors = np.ones(pairs, np.float32)
    factors[-1] = 0
    assert "tensor rope_freqs.weight holds 0 … 1: divisors" in refused(rewritten(golden.path, lambda writer: None, **{"rope_freqs.weight": factors}))
    golden  = Golden("gguf_float", tmp_path)
    factors = np.ones(pairs + 1, np.float32)
    assert "tensor rope_freqs.weight is [5]: must be [4]" in refused(rewritten(golden.path, lambda writer: None, **{"rope_freqs.weight": factors}))


def test_gguf_of_an_unknown_type(tmp_path):
    """A type that neither the package nor we know."""
    data  = Golden("gguf_i2_s", tmp_path).path
    bytes_ = data.read_bytes()
    start = bytes_.index(b"blk.0.ffn_up.weight") + len("blk.0.ffn_up.weight") + 4 + 16
    assert bytes_[start] == 36
    data.write_bytes(bytes_[:start] + bytes([99]) + bytes_[start + 1:])
    assert "99" in refused(data)


@pytest.mark.parametrize("name", ["gguf_tq1_0", "gguf_i2_s"])
def test_gguf_truncated_anywhere(tmp_path, name):
    golden = Golden(name, tmp_path)
    data   = golden.path.read_bytes()
    for end in [4, 8, 20, 24, 100, 500, 1000, 1500, 2000, len(data)//2, len(data) - 200]:
        golden.path.write_bytes(data[:end])
        refused(golden.path)

# llama2.c -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama2c_0", "llama2c_1"])
def test_llama2c_damaged(tmp_path, name):
    golden = Golden(name, tmp_path)
    data   = golden.path.read_bytes()
    for end in (0, 5, 27, 200, 256, 1000, len(data) - 4):
        golden.path.write_bytes(data[:end])
        refused(golden.path)
    golden.path.write_bytes(data + bytes(4))
    assert f"{len(data) + 4:,} bytes long, the shape in its header needs {len(data):,}" in refused(golden.path)


def test_llama2c_version_2(tmp_path):
    golden = Golden("llama2c_1", tmp_path)
    data   = golden.path.read_bytes()
    golden.path.write_bytes(data[:4] + b"\x02" + data[5:])
    assert "version 2 of llama2.c's format" in refused(golden.path)


def test_llama2c_tokenizer(tmp_path):
    golden = Golden("llama2c_0", tmp_path)
    (golden.folder/"tokenizer.bin").write_bytes(b"\x05\x00\x00\x00" + 20*b"\x00")
    assert "tokenizer.bin: damaged, or not of 100 tokens" in refused(golden.path)

# Other files --------------------------------------------------------------------------------------


def test_other_paths(tmp_path, trilm):
    assert "no such file or folder" in refused(tmp_path/"none")
    (tmp_path/"text.txt").write_text("Once upon a time")
    assert "not a checkpoint that is known" in refused(tmp_path/"text.txt")
    assert "name its folder" in refused(trilm.folder/"model.safetensors")


def test_empty_folder(tmp_path):
    assert "config.json" in refused(tmp_path)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_bytes(tmp_path, name):
    """Random bytes of the parts that steer an import: it works, or it is refused."""
    golden, drawn = Golden(name, tmp_path), random.Random(name)
    files         = [path for path in golden.folder.iterdir()]
    for _ in range(40):
        path = drawn.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(drawn.choice([1, 2, 8])):
            data[drawn.randrange(min(len(data), 1500))] = drawn.randrange(256)
        before = path.read_bytes()
        path.write_bytes(data)
        try:
            load_checkpoint(golden.path)
        except ValueError as error:
            assert "\n" not in str(error)
        path.write_bytes(before)


def test_names_of_tensors_are_shown_in_one_line(tmp_path):
    """Whatever a file calls its tensors, the line that refuses it has no other one and no control character."""
    (tmp_path/"m.gguf").write_bytes(with_tensor(name="a\n\x1b[2Jb", sizes=()))
    line = refused(tmp_path/"m.gguf")
    assert "a\\n\\x1b[2Jb" in line and line.isprintable()
