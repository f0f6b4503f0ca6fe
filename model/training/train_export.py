#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Export of a training run: safetensors, `config.json`, `tokenizer.json` and the card `README.md`.

Weights are stored as float16; every figure and sample of the card comes from the stored values.
"""

import json
import math
import pathlib
import shutil

import torch

from safetensors.torch import load_file, save_file

from litetern.model.training import train_text
from litetern.model.training.network import Network, Shape

SAMPLES     = 20
TEMPERATURE = 0.8
TOP_P       = 0.95

# Sampling -----------------------------------------------------------------------------------------

def draw(logits, generator, temperature=TEMPERATURE, top_p=TOP_P):
    """One token from float logits `[vocabulary]`: temperature, then the top-p share of the rest."""
    values, tokens = torch.softmax(logits.double()/temperature, dim=0).sort(descending=True)
    values[values.cumsum(0) - values >= top_p] = 0
    return tokens[torch.multinomial(values, 1, generator=generator)].item()

@torch.no_grad()
def sample(network, seeds):
    """A list of tokens per seed: from `<|endoftext|>` to the next or to the end of the context."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    stories    = [[0] for _ in seeds]
    open_rows  = list(range(len(stories)))
    while open_rows:
        logits = network(torch.tensor([stories[row] for row in open_rows]))[:, -1]
        for row, line in zip(open_rows, logits):
            stories[row].append(draw(line, generators[row]))
        open_rows = [row for row in open_rows if stories[row][-1] != 0
            and len(stories[row]) < network.shape.max_position_embeddings]
    return stories

# Figures ------------------------------------------------------------------------------------------

def figures(network, texts, tokenizer):
    """Validation figures of `texts` as a dictionary; nats are summed over all tokens."""
    ids        = train_text.encode(texts, tokenizer)
    context    = network.shape.max_position_embeddings
    nats       = train_text.loss(network, ids, context)
    tokens     = len(ids) - 1
    characters = sum(len(text) for text in texts)
    per_story  = [train_text.encode([text], tokenizer) for text in texts]
    aligned    = sum(train_text.loss(network, ids, context)*(len(ids) - 1) for ids in per_story)
    return {
        "stories"                  : len(texts),
        "tokens"                   : tokens,
        "characters"               : characters,
        "nats_per_token"           : nats,
        "perplexity_per_token"     : math.exp(nats),
        "perplexity_per_character" : math.exp(nats*tokens/characters),
        "characters_per_token"     : characters/tokens,
        "bits_per_character"       : nats*tokens/characters/math.log(2),
        "perplexity_story_aligned" : math.exp(aligned/sum(len(ids) - 1 for ids in per_story)),
    }

# Card ---------------------------------------------------------------------------------------------

CARD = """# A story model of {kind} weights

A {family} network that writes short children's stories, trained {in_kind} by `model/train.py`
of LiteTern: {weights:,} {kind} weights, {others:,} others (embedding and norms). Every projection
has {rule} and absmax int8 activations per token; names and layout of the weights are those of
1bitLLM/bitnet_b1_58-large. The file holds the latent weights as float16: quantise them by these
rules. The head is the embedding, {head}.

{table}

Validation: the whole validation file ({valid_stories:,} stories, {valid_tokens:,} tokens,
{valid_characters:,} characters), `<|endoftext|>` before each story and after the last, one stream,
windows of {max_position_embeddings} tokens that do not overlap, float32, {attention};
`<|endoftext|>` counts as a token, not as a character. Perplexities per token compare only between
equal tokenizers; those per character always do. The weights are those of the best validation loss
of the run (on the first {subset:,} tokens).{beside}

## Data

TinyStories: R. Eldan and Y. Li, "TinyStories: How Small Can Language Models Be and Still Speak
Coherent English?", arXiv:2305.07759. Licence of the data: Community Data License Agreement –
Sharing, Version 1.0 (CDLA-Sharing-1.0). Trained on {stories:,} of its stories ({train_tokens:,}
tokens); the text is not part of this project. The weights are results of a computation on that data
and come under the project's BSD-2-Clause licence.

## Settings

Muon for the matrices, AdamW (0.9, 0.95) for embedding and norms, {per_step:,} tokens a step,
{precision} matrix products (exact on the integers). The rate is constant, then falls linearly to 2 %
over the last share `decay` of the tokens; weight decay acts before the fall only. `swap_names` is
the share of stories whose children get other names in an epoch. Settings by tokens seen:

{history}

## Samples

Seeds 0 to {last_seed}, none left out: temperature {temperature}, top-p {top_p}, from
`<|endoftext|>` to the next or to the end of the context.
"""

TABLE = (
    ("width × layers",                 "{hidden_size} × {num_hidden_layers}"),
    ("heads, FFN",                     "{num_attention_heads} × {head_dim} ({num_key_value_heads} of K and V), {intermediate_size}"),
    ("block",                          "{block}"),
    ("vocabulary",                     "{vocab_size}, {tokenizer} ({characters_per_token:.2f} "
                                       "characters a token), token 0 is `<|endoftext|>`"),
    ("context",                        "{max_position_embeddings}"),
    ("training",                       "{step:,} steps, {tokens:,} tokens, {epochs:.1f} epochs, "
                                       "{hours:.1f} h on CPU cores shared with other work"),
    ("**validation, per token**",      "**perplexity {perplexity_per_token:.3f}** "
                                       "({nats_per_token:.4f} nats)"),
    ("validation, per character",      "perplexity {perplexity_per_character:.4f}, "
                                       "**{bits_per_character:.4f} bits**"),
    ("windows that begin with a story", "perplexity {perplexity_story_aligned:.3f} per token"),
)

KINDS     = {"ternary": ("ternary", "in ternary", "absmean ternary weights"),
    "int4": ("int4", "with int4 weights", "int4 weights, ±7, a scale per row"),
    "int8": ("int8", "with int8 weights", "int8 weights, a scale per row")}
TOKENIZER = {True: "ASCII characters", False: "byte-level BPE"}
BESIDE    = """

Trained for the resident path (`doc/resident.md`): q, K and V are int8 with the fixed steps that
`config.json` states. `python model/resident/price.py` measures what its integers cost."""

def words(shape, characters):
    """What the card says of a shape; `characters`: whether these are the tokens."""
    kind, in_kind, rule = KINDS[shape.weights]
    plural = f"{shape.embedding_planes} planes of trits, a step per row, for the input as well"
    names  = {"rms": "RMSNorm", "layer": "LayerNorm without a bias", "rope": "RoPE", "learned": "learned positions (int8)"}
    return {
        "kind"      : kind,
        "in_kind"   : in_kind,
        "rule"      : rule,
        "family"    : {"llama": "LLaMA-shaped", "gpt": "GPT-shaped"}[shape.family],
        "head"      : f"its rows {plural}" if shape.embedding_planes else "its rows quantised to int8",
        "attention" : "attention as the resident path's but for the softmax's table" if shape.path == "resident" else "float attention",
        "beside"    : BESIDE if shape.path == "resident" else "",
        "block"     : f"{names[shape.norm]}, {names[shape.positions]}, {shape.activation}{' gated' if shape.family == 'llama' else ''}"
            f"{', norms before o and down' if shape.sub_norms else ''}",
        "tokenizer" : TOKENIZER[characters],
    }

def card(shape, state, counts, data, result, stories):
    """The text of the card."""
    lines = [f"- from {tokens/1e6:.2f} M: " + ", ".join(f"`{k}` {v if isinstance(v, str) else f'{v:g}'}"
        for k, v in changes.items() if v is not None)
        for tokens, changes in state["history"]]
    values = {**vars(shape), **counts, **data, **result, **words(shape, result["characters_per_token"] <= 1),
        "step"        : state["step"],
        "tokens"      : state["tokens"],
        "hours"       : state["seconds"]/3600,
        "epochs"      : state["tokens"]/data["train_tokens"],
        "per_step"    : state["tokens"]//state["step"],
        "history"     : "\n".join(lines),
        "last_seed"   : SAMPLES - 1,
        "temperature" : TEMPERATURE,
        "top_p"       : TOP_P,
    }
    settings = {key: value for _, changes in state["history"] for key, value in changes.items()}
    values["precision"] = "float32" if settings.get("float32") else "bfloat16"
    rows = [f"| {name} | {value.format(**values)} |" for name, value in TABLE]
    text = CARD.format(**values, table="\n".join(["| | |", "|---|---|", *rows]))
    for seed, story in enumerate(stories):
        quoted = "\n".join(f"> {line}".rstrip() for line in story.splitlines())
        text  += f"\n**{seed}**\n\n{quoted}\n"
    return text

# Export -------------------------------------------------------------------------------------------

def export(run, out, valid):
    """Write the best weights of the run in folder `run` to folder `out`; returns the figures."""
    run, out = pathlib.Path(run), pathlib.Path(out)
    if not (run/"best.pt").exists():
        raise ValueError(f"No best.pt in {run}: train until the first validation before an export.")
    saved     = torch.load(run/"best.pt")
    shape     = Shape(**saved["shape"])
    tokenizer = train_text.tokenizer(None, shape.vocab_size, run/"tokenizer.json")
    texts     = train_text.read(valid)

    out.mkdir(parents=True, exist_ok=True)
    limits = {name: weight for name, weight in saved["weights"].items() if name.endswith("_limit")}
    save_file({name: weight.half() for name, weight in saved["weights"].items() if name not in limits},
        out/"model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(run/"tokenizer.json", out/"tokenizer.json")
    (out/"config.json").write_text(json.dumps(config(shape, limits), indent=1) + "\n")

    network = Network(shape).eval()
    network.load_state_dict({**load_file(out/"model.safetensors"), **limits})
    result  = figures(network, texts, tokenizer)
    stories = [tokenizer.decode(story) for story in sample(network, range(SAMPLES))]
    counts  = {
        "weights" : sum(p.numel() for p in network.model.layers.parameters() if p.dim() == 2),
        "others"  : sum(p.numel() for p in network.parameters()),
    }
    counts["others"] -= counts["weights"]
    valid   = {f"valid_{key}": result.pop(key) for key in ("stories", "tokens", "characters")}
    (out/"README.md").write_text(
        card(shape, saved["state"], counts, saved["data"], {**result, **valid}, stories))
    for key, value in result.items():
        print(f"{key:26} {value:.4f}", flush=True)
    return result

SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings",
    "rms_norm_eps", "rope_theta", "num_key_value_heads", "head_dim")

def config(shape, limits):
    """The content of `config.json`, keys as in the checkpoints of the same architecture.

    A shape of the resident path has a key "resident" besides; `limits` are its buffers of q, k and v.
    """
    content = {
        "architectures"       : ["BitnetForCausalLM" if shape.is_bitnet else "LiteTernForCausalLM"],
        "model_type"          : "bitnet" if shape.is_bitnet else "litetern",
        **{name: getattr(shape, name) for name in SIZES},
        "hidden_act"          : shape.activation,
        "tie_word_embeddings" : True,
        "bos_token_id"        : 0,
        "eos_token_id"        : 0,
        "torch_dtype"         : "float16",
    }
    if shape.path == "resident":
        content["resident"] = {
            "gated"            : shape.family == "llama",
            "weights"          : shape.weights,
            "norm"             : shape.norm,
            "positions"        : shape.positions,
            "sub_norms"        : shape.sub_norms,
            "embedding_planes" : shape.embedding_planes,
            "limits"           : {name: [[float(f"{value:.6g}") for value in limits[f"model.layers.{i}.self_attn.{name}_limit"].tolist()]
                for i in range(shape.num_hidden_layers)] for name in "qkv"},
        }
    return content
