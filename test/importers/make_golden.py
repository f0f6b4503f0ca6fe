#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tiny checkpoints in every format that is imported, and their logits by the libraries that define the formats.

    python test/importers/make_golden.py          writes test/importers/golden/*.npz and test/importers/golden/rope.json

Weights are drawn, the models are transformers' own classes, the files are written by transformers, safetensors and gguf. Each .npz holds
the checkpoint's files ("file:NAME", uint8), "tokens" int64 [batch, positions] and "logits" float32 [batch, positions, vocab]. `make test`
compares our float reference with them and needs neither torch nor transformers; `make test-full` makes them anew first.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("torch", "transformers", "gguf", extra="golden")

import json
import os
import pathlib
import tempfile

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # The library compiles its packing; there is nothing to gain here.

import gguf
import numpy as np
import torch
import transformers
from huggingface_hub import save_torch_state_dict
from transformers.integrations.bitnet import AutoBitLinear, BitLinear, pack_weights

FOLDER = pathlib.Path(__file__).resolve().parent/"golden"
BODY   = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

# Models -------------------------------------------------------------------------------------------


def build(kind, seed, **settings):
    """A random model of transformers' class `kind` in evaluation, float32; gains differ from 1, so that each norm counts."""
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 32, "bos_token_id": 1,
        "eos_token_id": 2, "initializer_range": 0.2, **settings})
    model  = getattr(transformers, f"{kind}ForCausalLM")(config).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5)
            elif "proj" in name or name.startswith("lm_head"):
                parameter.normal_(0, 0.2)
            elif "embed" in name:
                parameter.normal_(0, 1)
    return model


def linears(model):
    """(name, parent, attribute, matrix) of the body."""
    for name, module in list(model.named_modules()):
        parent, _, attribute = name.rpartition(".")
        if attribute in BODY:
            yield name, model.get_submodule(parent), attribute, module


def ternary(weights):
    """(trits, scale) by the family's rule, in torch."""
    scale = weights.abs().mean().clamp(min=1e-5)
    return (weights/scale).round().clamp(-1, 1), scale


def latent(model):
    """Body of AutoBitLinear that quantises its floats on every pass."""
    for _, parent, attribute, module in linears(model):
        new = AutoBitLinear(module.in_features, module.out_features, bias=False, online_quant=True)
        new.weight = module.weight
        setattr(parent, attribute, new)
    return model


def packed(model, multiply):
    """Body of packed weights; returns the tensors that the checkpoint stores for them."""
    tensors = {}
    for name, parent, attribute, module in linears(model):
        trits, scale = ternary(module.weight.detach())
        codes  = pack_weights(trits.clone())
        factor = (scale if multiply else 1/scale).reshape(1)
        if multiply:
            new = AutoBitLinear(module.in_features, module.out_features, bias=False, online_quant=False)
            new.weight = torch.nn.Parameter(trits)
        else:
            new = BitLinear(module.in_features, module.out_features, bias=False, dtype=torch.float32)
            new.weight = codes
        new.weight_scale = factor
        setattr(parent, attribute, new)
        tensors |= {f"{name}.weight": codes, f"{name}.weight_scale": factor}
    return tensors


def scaled_trits(model, dtype=torch.float16):
    """Makes the body scale × trit, exactly in `dtype`."""
    with torch.no_grad():
        for *_, module in linears(model):
            trits, scale = ternary(module.weight)
            module.weight.copy_((trits*scale.to(dtype).float()))
    return model


def eight_bits(model):
    """Makes the rows of the body −127 … 127 times a power of two, so that int8 holds them exactly."""
    with torch.no_grad():
        for *_, module in linears(model):
            step = 2.0**-9
            rows = (module.weight/step).round().clamp(-126, 126)
            rows[:, 0] = 127
            module.weight.copy_(rows*step)
    return model


@torch.no_grad()
def stored(model, dtype):
    """Rounds the weights to what a file of `dtype` holds (the model's own cast would round its RoPE table, too)."""
    for parameter in model.parameters():
        parameter.copy_(parameter.to(dtype))
    return model


@torch.no_grad()
def logits(model, tokens):
    return model(torch.from_numpy(tokens)).logits.float().numpy()

# Folders ------------------------------------------------------------------------------------------


def renamed(state, names):
    for old, new in names.items():
        state = {name.replace(old, new): tensor for name, tensor in state.items()}
    return state


def write_folder(folder, model, state, architecture, tied, shard="1GB", **settings):
    """config.json of the model with `settings` over it, safetensors of `state`."""
    config = json.loads(model.config.to_json_string(use_diff=False)) | {"architectures": [architecture], **settings}
    (folder/"config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}, indent=1))
    state = {name: tensor.detach().contiguous().clone() for name, tensor in state.items() if not (tied and name == "lm_head.weight")}
    save_torch_state_dict(state, folder, max_shard_size=shard)


def bitnet_large(folder):
    """1bitLLM/bitnet_b1_58-large: latent floats, tied, its own names, shards."""
    model = latent(build("BitNet", 1, hidden_act="silu", num_key_value_heads=4, tie_word_embeddings=True))
    state = renamed(model.state_dict(), {"attn_sub_norm": "inner_attn_ln", "ffn_sub_norm": "ffn_layernorm"})
    write_folder(folder, model, state, "BitnetForCausalLM", True, "20KB", rope_scaling=None)
    return model


def bitnet_xl(folder):
    """As the 1.3 B model of 1bitLLM: an FFN that is no multiple of 8; an odd vocabulary."""
    model = latent(stored(build("BitNet", 2, hidden_act="silu", intermediate_size=44, vocab_size=99, tie_word_embeddings=True),
        torch.float16))
    state = renamed(model.state_dict(), {"attn_sub_norm": "inner_attn_ln", "ffn_sub_norm": "ffn_layernorm"})
    write_folder(folder, model, {name: tensor.half() for name, tensor in state.items()}, "BitnetForCausalLM", True)
    return model


def microsoft_packed(folder):
    """microsoft's 2B-4T: ReLU², GQA, its names of the sub-norms, packed, trit / weight_scale."""
    model  = build("BitNet", 3, hidden_act="relu2", tie_word_embeddings=True)
    stored = packed(model, multiply=False)
    write_folder(folder, model, model.state_dict() | stored, "BitNetForCausalLM", True,
        quantization_config={"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]})
    return model


def microsoft_latent(folder):
    """The bfloat16 master weights of the same shape, quantised on every pass."""
    model = stored(build("BitNet", 4, hidden_act="relu2", tie_word_embeddings=True), torch.bfloat16)
    state = {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}
    write_folder(folder, model, state, "BitNetForCausalLM", True, quantization_config={"quant_method": "bitnet",
        "linear_class": "autobitlinear", "quantization_mode": "online"})
    return latent(model)


def falcon_e(folder):
    """Falcon-E: LLaMA's class, no sub-norms, untied, packed, trit × weight_scale."""
    model  = build("Llama", 5, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    stored = packed(model, multiply=True)
    write_folder(folder, model, model.state_dict() | stored, "LlamaForCausalLM", False,
        quantization_config={"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"})
    return model


def trilm(folder):
    """SpectraSuite TriLM: LLaMA with scale × trit in float16, untied, no sub-norms."""
    model = scaled_trits(stored(build("Llama", 6, num_key_value_heads=4, tie_word_embeddings=False), torch.float16))
    write_folder(folder, model, {name: tensor.half() for name, tensor in model.state_dict().items()}, "LlamaForCausalLM", False)
    return model


def smollm(folder):
    """SmolLM2-135M: LLaMA floats in bfloat16, 9 query heads on 3, tied: int8."""
    model = eight_bits(stored(build("Llama", 7, hidden_size=72, num_attention_heads=9, num_key_value_heads=3, head_dim=8,
        tie_word_embeddings=True), torch.bfloat16))
    write_folder(folder, model, {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}, "LlamaForCausalLM", True)
    return model

# GGUF ---------------------------------------------------------------------------------------------


def write_gguf(path, model, arch, body, tied, table=np.float32):
    """A GGUF of a LLaMA or BitNet; `body` is the type of the matrices. q and k interleaved for arch "llama" as llama.cpp wants them."""
    config, state = model.config, {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BITNET if arch == "bitnet" else gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    other = {"attn_sub_norm": "inner_attn_ln", "ffn_sub_norm": "ffn_layernorm"}
    for name, tensor in state.items():
        if tied and name == "lm_head.weight":
            continue
        for old, new in other.items():
            name = name.replace(old, new)
        short = names.get_name(name, try_suffixes=(".weight",))
        if name.endswith(("q_proj.weight", "k_proj.weight")) and arch == "llama":
            heads  = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            tensor = tensor.reshape(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
        if "_proj" in name:
            if isinstance(body, gguf.GGMLQuantizationType):
                writer.add_tensor(short, gguf.quants.quantize(np.ascontiguousarray(tensor), body), raw_dtype=body)
            else:
                body(writer, short, tensor)
        else:
            writer.add_tensor(short, tensor.astype(np.float32 if tensor.ndim == 1 else table))
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def words(writer):
    """A byte-level vocabulary of 100 tokens, as llama.cpp stores one of the GPT-2 kind."""
    letters = [chr(code) for code in range(33, 127)]
    tokens  = ["<unk>", "<s>", "</s>", *letters, "\u0120", "th", "the"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1]*(len(tokens) - 3))
    writer.add_token_merges(["t h", "th e"])
    writer.add_chat_template("{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}")


def _tq(folder, kind, seed):
    model = scaled_trits(stored(build("Llama", seed, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False), torch.float16))
    writer = write_gguf(folder/"tiny.gguf", model, "llama", kind, False, np.float16)
    words(writer)
    finish(writer)
    return model


def gguf_tq1_0(folder):
    """TriLM through llama.cpp: TQ1_0, interleaved q and k."""
    return _tq(folder, gguf.GGMLQuantizationType.TQ1_0, 8)


def gguf_tq2_0(folder):
    """TriLM through llama.cpp: TQ2_0, interleaved q and k."""
    return _tq(folder, gguf.GGMLQuantizationType.TQ2_0, 9)


def gguf_i2_s(folder):
    """bitnet_b1_58-large through microsoft's fork: I2_S, a type (36) that the package does not know."""
    model = build("BitNet", 10, hidden_size=128, intermediate_size=128, num_hidden_layers=1, hidden_act="silu", num_key_value_heads=4,
        tie_word_embeddings=True)
    scaled_trits(model, torch.float32)

    def body(writer, name, tensor):
        # 128 weights in 32 bytes: w + 1 of elements j, j + 32, j + 64, j + 96 in the bit pairs of byte j, highest first.
        codes = (np.sign(tensor).astype(np.int8) + 1).astype(np.uint8).reshape(-1, 4, 32)
        data  = (codes << np.array([6, 4, 2, 0], np.uint8)[:, None]).sum(axis=1, dtype=np.uint8).tobytes()
        data += np.abs(tensor).max().astype("<f4").tobytes() + bytes(28)
        writer.add_tensor_info(name, tensor.shape, np.dtype(np.float32), len(data), raw_dtype=gguf.GGMLQuantizationType.TQ1_0)
        writer.tensors[-1][name].tensor = np.frombuffer(data, np.uint8)

    writer = write_gguf(folder/"tiny.gguf", model, "bitnet", body, True)
    for tensors in writer.tensors:
        for info in tensors.values():
            if info.dtype == gguf.GGMLQuantizationType.TQ1_0:
                info.dtype = 36
    finish(writer)
    for *_, parent, attribute, module in linears(model):
        # The stored matrices are trits: their family's activations are int8 and the weights stay as they are.
        new = AutoBitLinear(module.in_features, module.out_features, bias=False, online_quant=False)
        new.weight = module.weight
        setattr(parent, attribute, new)
    return model


def gguf_float(folder):
    """A LLaMA in float16: int8 matrices."""
    model  = eight_bits(stored(build("Llama", 11, num_key_value_heads=2, tie_word_embeddings=True), torch.float16))
    finish(write_gguf(folder/"tiny.gguf", model, "llama", lambda writer, name, tensor: writer.add_tensor(name, tensor.astype(np.float16)),
        True, np.float16))
    return model

# llama2.c -----------------------------------------------------------------------------------------


def _llama2c(folder, version, seed):
    model  = eight_bits(build("Llama", seed, intermediate_size=44, tie_word_embeddings=version == 0))
    config = model.config
    state  = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}

    def layers(name, heads=None):
        for index in range(config.num_hidden_layers):
            tensor = state[f"model.layers.{index}.{name}.weight"]
            if heads:
                tensor = tensor.reshape(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2)
            yield tensor

    embedding, final = state["model.embed_tokens.weight"], state["model.norm.weight"]
    matrices = [*layers("self_attn.q_proj", config.num_attention_heads), *layers("self_attn.k_proj", config.num_key_value_heads),
        *layers("self_attn.v_proj"), *layers("self_attn.o_proj")]
    ffn      = [*layers("mlp.gate_proj"), *layers("mlp.down_proj"), *layers("mlp.up_proj")]
    norms    = list(layers("input_layernorm")), list(layers("post_attention_layernorm"))
    numbers  = [config.hidden_size, config.intermediate_size, config.num_hidden_layers, config.num_attention_heads,
        config.num_key_value_heads, config.vocab_size, config.max_position_embeddings]
    if version == 0:
        # A negative vocabulary means a head of its own.
        angles  = np.zeros(2*config.max_position_embeddings*config.head_dim//2, np.float32)
        header  = np.array(numbers, "<i4").tobytes()
        tensors = [embedding, *norms[0], *matrices, *norms[1], *ffn, final, angles]
    else:
        header  = np.array([0x616b3432, 1, *numbers], "<i4").tobytes() + bytes([0])
        header += bytes(256 - len(header))
        tensors = [*norms[0], *norms[1], final, embedding, *matrices, *ffn, state["lm_head.weight"]]
    (folder/"tiny.bin").write_bytes(header + b"".join(np.ascontiguousarray(tensor, "<f4").tobytes() for tensor in tensors))
    return model


def llama2c_0(folder):
    """llama2.c's first format, tied."""
    return _llama2c(folder, 0, 12)


def llama2c_1(folder):
    """llama2.c's version 1, with a head of its own."""
    return _llama2c(folder, 1, 13)

# RoPE ---------------------------------------------------------------------------------------------

# Keys of config.json: RoPE as Llama 2 long, Llama 3.1, Llama 3.2, Qwen2.5, gpt-oss and DeepSeek state it, and corners of each.
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_YARN   = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
ROPES   = (
    {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 8.0}},
    {"head_dim": 128, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e6, "factor": 2.5}},
    {"head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 131072, "rope_scaling": _LLAMA3},
    {"head_dim": 64, "rope_theta": 5e5, "max_position_embeddings": 131072, "rope_scaling": _LLAMA3 | {"factor": 32.0}},
    {"head_dim": 32, "rope_theta": 1e4, "max_position_embeddings": 4096, "rope_scaling": {key: value for key, value in _LLAMA3.items()
        if key != "original_max_position_embeddings"}},
    {"head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 32768, "rope_scaling": _YARN},
    {"head_dim": 64, "rope_parameters": _YARN | {"rope_theta": 150000.0, "rope_type": "yarn", "factor": 32.0, "truncate": False,
        "original_max_position_embeddings": 4096}},
    {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": _YARN | {"attention_factor": 1.25, "beta_fast": 16, "beta_slow": 2}},
    {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": _YARN | {"factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 4096}},
    {"head_dim": 64, "rope_theta": 1e4, "max_position_embeddings": 8192, "original_max_position_embeddings": 2048,
        "rope_scaling": _YARN | {"factor": 4.0}},
    {"head_dim": 16, "rope_theta": 1e4, "max_position_embeddings": 256, "rope_scaling": _YARN | {"factor": None,
        "original_max_position_embeddings": 64}},
)

# RoPE of the golden "smollm", whose 32 positions are enough to see it.
TURNED = (
    {"type": "linear", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
)


def rope_angles(stated):
    """Inverse frequencies and attention factor that transformers computes of keys of config.json."""
    config    = transformers.LlamaConfig(**json.loads(json.dumps(stated)))
    compute   = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
    frequencies, factor = compute(config, "cpu")
    return {"config": stated, "frequencies": frequencies.tolist(), "factor": float(factor)}


def rope_logits(stated, tokens):
    """float [positions][vocab] of the golden "smollm" with another rope_scaling."""
    arrays = np.load(FOLDER/"smollm.npz")
    with tempfile.TemporaryDirectory() as folder:
        for key in arrays:
            if key.startswith("file:"):
                (pathlib.Path(folder)/key[5:]).write_bytes(arrays[key].tobytes())
        config = json.loads((pathlib.Path(folder)/"config.json").read_text())
        config.pop("rope_parameters", None)
        (pathlib.Path(folder)/"config.json").write_text(json.dumps(config | {"rope_scaling": stated}))
        model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return {"rope_scaling": stated, "logits": [[float(f"{value:.7g}") for value in row] for row in logits(model, tokens)[0]]}


def ropes():
    """Content of rope.json."""
    tokens = np.load(FOLDER/"smollm.npz")["tokens"][:1, :12]
    return {"tokens": tokens[0].tolist(), "angles": [rope_angles(stated) for stated in ROPES],
        "models": [rope_logits(stated, tokens) for stated in TURNED]}

# Make ---------------------------------------------------------------------------------------------


FORMATS = (bitnet_large, bitnet_xl, microsoft_packed, microsoft_latent, falcon_e, trilm, smollm, gguf_tq1_0, gguf_tq2_0, gguf_i2_s,
    gguf_float, llama2c_0, llama2c_1)


def make(function):
    """Arrays of the .npz of a format."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model  = function(folder)
        tokens = np.random.default_rng(0).integers(0, model.config.vocab_size, (2, 24))
        files  = {f"file:{path.name}": np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(folder.iterdir())}
        return {**files, "tokens": tokens, "logits": logits(model, tokens)}


def main():
    FOLDER.mkdir(exist_ok=True)
    for function in FORMATS:
        np.savez_compressed(FOLDER/f"{function.__name__}.npz", **make(function))
        print(f"{function.__name__}.npz: {(FOLDER/f'{function.__name__}.npz').stat().st_size/1000:.0f} kB")
    (FOLDER/"rope.json").write_text(json.dumps(ropes(), indent=None) + "\n")


if __name__ == "__main__":
    main()
