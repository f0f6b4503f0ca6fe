#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Train a story model with integer weights, resume the training, export the result.

    python model/train.py --data train.txt --valid valid.txt --out model/zoo/stories --tokens 30e6
    python model/train.py --data train.txt --valid valid.txt --family gpt --weights int4 --no-sub-norms \\
        --path resident --planes 2 --hidden 256 --inner 1024 --layers 4 --heads 4 --context 128 --run build/gpt

A run lives in one folder (`--run`): `tokenizer.json`, `checkpoint.pt` (weights, optimizers, step,
random state: a resumed run repeats an unbroken one bit for bit), `best.pt`, `log.csv`.
The learning rate stays constant, then falls linearly over the last `--decay` of `--tokens`;
a resume with another `--tokens` plans the fall anew.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("torch", "safetensors", "tokenizers", extra="train")

import argparse
import csv
import math
import os
import pathlib
import signal
import sys
import time

import torch

from litetern.model.training import train_export, train_text
from litetern.model.training.muon import Muon32
from litetern.model.training.network import CHOICES, Network, Shape

# Plan ---------------------------------------------------------------------------------------------

def rate(done, total, decay, floor=0.02):
    """Factor on the learning rates after `done` of `total` tokens: 1, then linear to `floor`."""
    left = (total - done)/(decay*total) if decay else 1.0
    return floor + (1 - floor)*min(1.0, max(0.0, left))

# Arguments that do not change what is learnt; the others are kept as the run's history.
QUIET = ("data", "valid", "run", "out", "resume", "export", "threads", "log_every", "save_every",
         "valid_every", "valid_tokens", "no_compile")

def history(entries, tokens, args):
    """`entries` and, where settings change after `tokens`, an entry `[tokens, changes]`."""
    known = {}
    for _, changes in entries:
        known.update(changes)
    changes = {key: value for key, value in vars(args).items()
        if key not in QUIET and known.get(key) != value}
    return entries + [[tokens, changes]] if changes else entries

def optimizers(network, args):
    """Muon for the matrices of the blocks, AdamW for the embedding and the norms."""
    named    = list(network.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and "embed" not in name]
    others   = [p for name, p in named if p.dim() == 1 or  "embed"     in name]
    if args.float32:
        muon = Muon32(matrices, lr=args.muon_lr, weight_decay=args.weight_decay)
    else:
        muon = torch.optim.Muon(matrices, lr=args.muon_lr, weight_decay=args.weight_decay, adjust_lr_fn="original")
    return [
        muon,
        torch.optim.AdamW(others, lr=args.adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]

def schedule(optims, factor, args):
    """Set the rates of a step; weight decay acts only while the rate is constant."""
    for optim, lr in zip(optims, (args.muon_lr, args.adam_lr)):
        optim.param_groups[0]["lr"] = lr*factor
    optims[0].param_groups[0]["weight_decay"] = args.weight_decay if factor == 1 else 0.0

# Checkpoint ---------------------------------------------------------------------------------------

def save(path, content):
    """Write `content` so that `path` always holds a whole checkpoint."""
    temporary = path.with_suffix(".tmp")
    torch.save(content, temporary)
    os.replace(temporary, path)

class Log:
    """`log.csv` of a run; rows that a resume will repeat are dropped."""
    columns = ("step", "tokens", "rate", "train_loss", "valid_loss", "tokens_per_s", "seconds")

    def __init__(self, path, step):
        rows = []
        if path.exists() and step:
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        self.file   = path.open("w", newline="")
        self.writer = csv.DictWriter(self.file, self.columns)
        self.writer.writeheader()
        self.writer.writerows(rows)
        self.file.flush()

    def add(self, **row):
        self.writer.writerow({key: f"{v:.6g}" if isinstance(v, float) else v
            for key, v in row.items()})
        self.file.flush()

# Training -----------------------------------------------------------------------------------------

def shape_of(args):
    """The Shape that the arguments ask for."""
    return Shape(args.hidden, args.inner, args.layers, args.heads, args.vocabulary, args.context,
        num_key_value_heads=args.kv_heads, head_dim=args.head_dim, family=args.family, weights=args.weights,
        activation=args.activation, norm=args.norm, positions=args.positions, sub_norms=not args.no_sub_norms,
        path=args.path, embedding_planes=args.planes)

def train(args):
    """Run until `args.tokens` (True) or a SIGTERM or SIGINT (False); both leave a checkpoint."""
    stop = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.append(True))

    run = pathlib.Path(args.run)
    run.mkdir(parents=True, exist_ok=True)
    checkpoint = run/"checkpoint.pt"
    if args.resume and not checkpoint.exists():
        raise ValueError(f"No checkpoint in {run}: start the run without --resume.")
    if checkpoint.exists() and not args.resume:
        raise ValueError(f"{run} holds a run already: continue it with --resume or name another.")

    texts     = train_text.read(args.data)
    tokenizer = train_text.tokenizer(texts, args.vocabulary, run/"tokenizer.json", args.tokenizer)
    corpus    = train_text.Corpus(texts, tokenizer, args.seed, args.swap_names)
    valid     = train_text.encode(train_text.read(args.valid), tokenizer)

    data      = {"stories": len(texts), "train_tokens": corpus.length, "subset": args.valid_tokens}

    torch.manual_seed(args.seed)
    shape   = shape_of(args)
    network = Network(shape, torch.float32 if args.float32 else torch.bfloat16, args.dropout)
    optims  = optimizers(network, args)
    state   = {"step": 0, "tokens": 0, "seconds": 0.0, "best": math.inf}
    if args.resume:
        saved = torch.load(checkpoint)
        state = saved["state"]
        network.load_state_dict(saved["weights"])
        for optim, content in zip(optims, saved["optimizers"]):
            optim.load_state_dict(content)
        torch.set_rng_state(saved["random"])
    state["history"] = history(state.get("history", []), state["tokens"], args)
    if not args.no_compile:
        network.compile()

    def keep():
        save(checkpoint, {
            "state"      : state,
            "shape"      : vars(shape),
            "weights"    : network.state_dict(),
            "optimizers" : [optim.state_dict() for optim in optims],
            "random"     : torch.get_rng_state(),
        })

    def validate(part):
        loss = train_text.loss(network, part, args.context)
        if loss < state["best"]:
            state["best"] = loss
            save(run/"best.pt", {"state": dict(state), "shape": vars(shape), "data": data,
                "weights": network.state_dict()})
        return loss

    log      = Log(run/"log.csv", state["step"])
    per_step = args.batch*args.context
    total    = int(args.tokens)
    subset   = valid[:args.valid_tokens + 1]
    saved_at = time.monotonic()
    since, losses, before = time.monotonic(), [], state["seconds"]
    started  = time.monotonic()
    while state["tokens"] < total and not stop:
        factor = rate(state["tokens"], total, args.decay)
        schedule(optims, factor, args)
        loss = network(*corpus.batch(state["step"], args.batch, args.context))
        loss.backward()
        for optim in optims:
            optim.step()
            optim.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        state["step"]   += 1
        state["tokens"] += per_step
        now              = time.monotonic()
        state["seconds"] = before + now - started

        valid_due = state["step"] % max(1, round(args.valid_every/per_step)) == 0
        if state["step"] % args.log_every == 0 or valid_due:
            train_loss = torch.stack(losses).mean().item()
            speed      = len(losses)*per_step/(now - since)
            valid_loss = validate(subset) if valid_due else ""
            print(f"{state['tokens']/1e6:8.3f} M tokens  loss {train_loss:.4f}  "
                + (f"valid {valid_loss:.4f}  " if valid_due else "")
                + f"rate {factor:.3f}  {speed:7.0f} tok/s  "
                f"ETA {(total - state['tokens'])/speed/60:5.1f} min", flush=True)
            log.add(step=state["step"], tokens=state["tokens"], rate=factor, train_loss=train_loss,
                valid_loss=valid_loss, tokens_per_s=speed, seconds=state["seconds"])
            since, losses = time.monotonic(), []
        if now - saved_at > args.save_every:
            keep()
            saved_at = time.monotonic()

    if not stop:
        print(f"{state['tokens']/1e6:8.3f} M tokens  valid {validate(subset):.4f}", flush=True)
    keep()
    if stop:
        print(f"Stopped at {state['tokens']/1e6:.3f} M tokens; --resume continues.", flush=True)
        return False
    return True

# Command line -------------------------------------------------------------------------------------

def parser():
    p = argparse.ArgumentParser(description="Train a story model with integer weights on plain text.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = p.add_argument
    add("--data",         default="tinystories-train.txt", help="Training text.")
    add("--valid",        default="tinystories-valid.txt", help="Validation text.")
    add("--run",          default="build/stories",       help="Folder of the run.")
    add("--out",          default="model/zoo/stories",   help="Folder of the exported model.")
    add("--tokens",       default=30e6, type=float,      help="Tokens of the whole run.")
    add("--resume",       action="store_true",           help="Continue the run of the folder.")
    add("--export",       action="store_true",           help="Only export the run's best weights.")
    add("--decay",        default=0.4,  type=float,      help="Last share, with a falling rate.")
    add("--muon-lr",      default=0.02, type=float,      help="Rate of the matrices.")
    add("--adam-lr",      default=4e-3, type=float,      help="Rate of embedding and norms.")
    add("--weight-decay", default=0.1,  type=float,      help="Of the matrices, before the fall.")
    add("--dropout",      default=0.0,  type=float,      help="Dropout on the residual branches.")
    add("--swap-names",   default=0.0,  type=float,      help="Share of stories with new names.")
    add("--batch",        default=16,   type=int,        help="Windows of a step.")
    add("--seed",         default=1,    type=int,        help="Of weights, data order, dropout.")
    add("--threads",      default=2,    type=int,        help="PyTorch's threads.")
    add("--log-every",    default=25,   type=int,        help="Steps between progress lines.")
    add("--save-every",   default=150,  type=float,      help="Seconds between checkpoints.")
    add("--valid-every",  default=1e6,  type=float,      help="Tokens between validations.")
    add("--valid-tokens", default=32768, type=int,       help="Tokens of such a validation.")
    add("--float32",      action="store_true",           help="No bfloat16 in matrix products.")
    add("--no-compile",   action="store_true",           help="Do without torch.compile.")
    shape = Shape()
    add("--hidden",       default=shape.hidden_size,             type=int, help="Width.")
    add("--inner",        default=shape.intermediate_size,       type=int, help="FFN width.")
    add("--layers",       default=shape.num_hidden_layers,       type=int, help="Blocks.")
    add("--heads",        default=shape.num_attention_heads,     type=int, help="Heads.")
    add("--vocabulary",   default=shape.vocab_size,              type=int, help="Tokens.")
    add("--context",      default=shape.max_position_embeddings, type=int, help="Positions (the window).")
    add("--kv-heads",     default=None, type=int, help="KV heads (as many as heads).")
    add("--head-dim",     default=None, type=int, help="Width of a head (hidden/heads).")
    add("--tokenizer",    default="bpe", choices=train_text.TOKENIZERS, help="Byte-level BPE or the 128 ASCII characters.")
    add("--family",       default=shape.family,  choices=CHOICES["family"],  help="Gated FFN or a plain one.")
    add("--weights",      default=shape.weights, choices=CHOICES["weights"], help="Of the blocks.")
    add("--activation",   choices=CHOICES["activation"], help="llama: silu; gpt: gelu.")
    add("--norm",         choices=CHOICES["norm"],       help="llama: rms; gpt: layer (without a bias).")
    add("--positions",    choices=CHOICES["positions"],  help="llama: rope; gpt: learned.")
    add("--no-sub-norms", action="store_true",           help="No norms before o_proj and down_proj.")
    add("--path",         default=shape.path,    choices=CHOICES["path"],
        help="Whose numbers training sees: resident fixes q, K and V in int8.")
    add("--planes",       default=0, type=int,   help="Trits of an embedding weight, 1 to 3; 0: int8 head.")
    return p

def main():
    args = parser().parse_args()
    torch.set_num_threads(args.threads)
    try:
        if args.export or train(args):
            train_export.export(args.run, args.out, args.valid)
    except ValueError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 1
    return 0

if __name__ == "__main__":
    sys.exit(main())
