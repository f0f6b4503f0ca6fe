#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Story text for training: records, tokenizer, endless shuffled stream, validation loss."""

import pathlib
import random
import re

import torch

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>" # Token 0; stands before each story, so it also ends the one before.

# Text ---------------------------------------------------------------------------------------------

def read(path):
    """The stories of a file, a list of strings: records separated by `<|endoftext|>`."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"No story text at {path}: get the public data set TinyStories "
            f"(roneneldan/TinyStories on Hugging Face) as text, stories separated by {END}.")
    texts = [text.strip() for text in path.read_text(encoding="utf-8").split(END)]
    texts = [text for text in texts if text]
    if not texts:
        raise ValueError(f"{path} holds no story: expected text, stories separated by {END}.")
    return texts

TOKENIZERS = ("bpe", "characters")
CHARACTERS = 128 # ASCII; a token's number is the character's code, and END stands for code 0.

def characters():
    """A tokenizer whose tokens are the ASCII characters; others become a question mark."""
    names      = byte_names()
    vocabulary = {END: 0, **{names[code]: code for code in range(1, CHARACTERS)}}
    result     = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="?"))
    result.add_special_tokens([END])
    return result

def byte_names():
    """The characters that byte-level tokenizers (GPT-2) write for bytes 0 … 255."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    names = {code: chr(code) for code in plain}
    return names | {code: chr(256 + i) for i, code in enumerate(c for c in range(256) if c not in names)}

def tokenizer(texts, vocabulary, path, kind="bpe"):
    """The tokenizer stored at `path`; if there is none yet, byte-level BPE trained on `texts` or the characters."""
    if not path.exists():
        result               = characters() if kind == "characters" else Tokenizer(models.BPE())
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder       = decoders.ByteLevel()
        if kind == "bpe":
            result.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary,
                special_tokens=[END], show_progress=False,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        result.save(str(path))
    result = Tokenizer.from_file(str(path))
    if result.get_vocab_size() != vocabulary or result.token_to_id(END) != 0:
        raise ValueError(f"{path} has {result.get_vocab_size()} tokens, {END} is "
            f"{result.token_to_id(END)}: expected {vocabulary} tokens with {END} as token 0.")
    return result

def encode(texts, tokenizer):
    """Token ids of all stories as one int64 tensor, `<|endoftext|>` before each and at the end."""
    ids = [0]
    for encoding in tokenizer.encode_batch(texts):
        ids += encoding.ids
        ids.append(0)
    return torch.tensor(ids)

# Names --------------------------------------------------------------------------------------------

GIRLS = ("Lily Sara Mia Sue Anna Lucy Amy Jane Emma Sarah Mary Lisa Ella Daisy Molly Kate Bella "
         "Jenny Sally Betty Emily Rose Ann Mandy Jill Susie Zoe Lola Nina Maya").split()
BOYS  = ("Tim Tom Ben Jack Max Timmy Sam Bob Joe John Billy Spot Mark Tommy Johnny Leo Jimmy Mike "
         "Bobby Andy Jake Fred Peter Dan James Danny Charlie Alex Josh Nick").split()

class Names:
    """Gives the children of a story other names of the same list, as often as the text has them."""
    def __init__(self, texts):
        self.groups  = []
        self.pattern = re.compile(r"\b(" + "|".join(GIRLS + BOYS) + r")\b")
        counts       = {}
        for text in texts:
            for name in set(self.pattern.findall(text)):
                counts[name] = counts.get(name, 0) + 1
        for group in (GIRLS, BOYS):
            self.groups.append((group, [counts.get(name, 0) for name in group]))

    def swap(self, text, rng):
        """`text` with each known name replaced, every name by one that the story has not."""
        found = sorted(set(self.pattern.findall(text)))
        new   = {}
        for name in found:
            group, weights = self.groups[name in BOYS]
            if sum(weights) == 0:
                continue
            other     = rng.choices(group, weights)[0]
            new[name] = name if other in new.values() or other in found else other
        return self.pattern.sub(lambda match: new.get(match[0], match[0]), text)

# Stream -------------------------------------------------------------------------------------------

class Corpus:
    """The training stream: the stories in a new order each epoch, cut into windows.

    What a step sees depends on its number and the seed only, so a resume needs no saved position.
    `swap` is the share of stories whose names are replaced, drawn anew each epoch.
    """
    def __init__(self, texts, tokenizer, seed, swap=0.0):
        self.texts     = texts
        self.tokenizer = tokenizer
        self.seed      = seed
        self.share     = swap
        self.names     = Names(texts) if swap else None
        self.plain     = [torch.tensor([0] + e.ids) for e in tokenizer.encode_batch(texts)]
        self.length    = sum(len(ids) for ids in self.plain) # Of an epoch, in tokens.
        self.cache     = (None, None)

    def epoch(self, number):
        """The `length` tokens of an epoch."""
        if self.cache[0] != number:
            rng   = random.Random(f"{self.seed} {number}")
            order = list(range(len(self.plain)))
            rng.shuffle(order)
            parts = dict(enumerate(self.plain))
            if self.share:
                chosen = [i for i in order if rng.random() < self.share]
                texts  = [self.names.swap(self.texts[i], rng) for i in chosen]
                for i, encoding in zip(chosen, self.tokenizer.encode_batch(texts)):
                    parts[i] = torch.tensor([0] + encoding.ids)
            stream = torch.cat([parts[i] for i in order])
            while len(stream) < self.length: # Swapped names may take fewer tokens.
                stream = torch.cat((stream, stream))
            self.cache = (number, stream[:self.length])
        return self.cache[1]

    def batch(self, step, rows, context):
        """Inputs and targets of a step, int64 `[rows, context]` each."""
        size         = rows*context
        epoch, start = divmod(step*size, self.length)
        stream       = self.epoch(epoch)[start:start + size + 1]
        while len(stream) < size + 1:
            epoch += 1
            stream = torch.cat((stream, self.epoch(epoch)[:size + 1 - len(stream)]))
        return stream[:-1].view(rows, context), stream[1:].view(rows, context)

# Validation ---------------------------------------------------------------------------------------

@torch.no_grad()
def loss(network, ids, context, rows=16):
    """Mean nats per token of a stream `[n]` cut into windows of `context` that do not overlap."""
    training = network.training
    network.eval()
    total, count = 0.0, len(ids) - 1
    whole        = count//context
    for first in range(0, whole, rows):
        n      = min(rows, whole - first)
        part   = ids[first*context:(first + n)*context + 1]
        total += n*context*network(part[:-1].view(n, context), part[1:].view(n, context)).item()
    if count % context:
        part   = ids[whole*context:]
        total += (len(part) - 1)*network(part[None, :-1], part[None, 1:]).item()
    network.train(training)
    return total/count
