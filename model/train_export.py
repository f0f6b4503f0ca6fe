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

from model import train_text
from model.network import Network, Shape

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

CARD = """# A ternary story model

A LLaMA-shaped network that writes short children's stories, trained in ternary by `model/train.py`
of LiteTern: {weights:,} ternary weights, {others:,} others (embedding and norms). Every projection
is a BitLinear (absmean ternary weights, absmax int8 activations per token); names and layout of the
weights are those of 1bitLLM/bitnet_b1_58-large. The file holds the latent weights as float16:
quantise each projection by absmean. The head is the embedding with its rows quantised to int8.

{table}

Validation: the whole validation file ({valid_stories:,} stories, {valid_tokens:,} tokens,
{valid_characters:,} characters), `<|endoftext|>` before each story and after the last, one stream,
windows of {max_position_embeddings} tokens that do not overlap, float32, float attention;
`<|endoftext|>` counts as a token, not as a character. Perplexities per token compare only between
equal tokenizers; those per character always do. The weights are those of the best validation loss
of the run (on the first {subset:,} tokens).

## Data

TinyStories: R. Eldan and Y. Li, "TinyStories: How Small Can Language Models Be and Still Speak
Coherent English?", arXiv:2305.07759. Licence of the data: Community Data License Agreement –
Sharing, Version 1.0 (CDLA-Sharing-1.0). Trained on {stories:,} of its stories ({train_tokens:,}
tokens); the text is not part of this project. The weights are results of a computation on that data
and come under the project's BSD-2-Clause licence.

## Settings

Muon for the matrices, AdamW (0.9, 0.95) for embedding and norms, {per_step:,} tokens a step,
bfloat16 matrix products (exact on the integers). The rate is constant, then falls linearly to 2 %
over the last share `decay` of the tokens; weight decay acts before the fall only. `swap_names` is
the share of stories whose children get other names in an epoch. Settings by tokens seen:

{history}

## Samples

Seeds 0 to {last_seed}, none left out: temperature {temperature}, top-p {top_p}, from
`<|endoftext|>` to the next or to the end of the context.
"""

TABLE = (
    ("width × layers",                 "{hidden_size} × {num_hidden_layers}"),
    ("heads, FFN",                     "{num_attention_heads} × {head_dim}, {intermediate_size}"),
    ("vocabulary",                     "{vocab_size}, byte-level BPE ({characters_per_token:.2f} "
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

def card(shape, state, counts, data, result, stories):
    """The text of the card."""
    lines = [f"- from {tokens/1e6:.2f} M: " + ", ".join(f"`{k}` {v:g}" for k, v in changes.items())
        for tokens, changes in state["history"]]
    values = {**vars(shape), **counts, **data, **result, "head_dim": shape.head_dim,
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
    save_file({name: weight.half() for name, weight in saved["weights"].items()},
        out/"model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(run/"tokenizer.json", out/"tokenizer.json")
    (out/"config.json").write_text(json.dumps(config(shape), indent=1) + "\n")

    network = Network(shape).eval()
    network.load_state_dict(load_file(out/"model.safetensors"))
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

def config(shape):
    """The content of `config.json`, keys as in the checkpoints of the same architecture."""
    return {
        "architectures"       : ["BitnetForCausalLM"],
        "model_type"          : "bitnet",
        **vars(shape),
        "num_key_value_heads" : shape.num_attention_heads,
        "hidden_act"          : "silu",
        "tie_word_embeddings" : True,
        "bos_token_id"        : 0,
        "eos_token_id"        : 0,
        "torch_dtype"         : "float16",
    }
