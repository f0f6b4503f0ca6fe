#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The trainer on a tiny configuration: a resumed run repeats an unbroken one bit for bit."""

import csv
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

import torch

from safetensors.torch import load_file

from litetern.model import train
from litetern.model.resident.price import table
from litetern.model.resident.source import quantise_weights
from litetern.model.training import train_export, train_text
from litetern.model.training.muon import Muon32
from litetern.model.training.network import Network, Shape, attend, quantize_rows, quantize_weight
from litetern.model.training.network_quant import follow, quantize_heads, quantize_planes

TINY = ["--hidden", "16", "--inner", "24", "--layers", "2", "--heads", "2", "--context", "16",
        "--vocabulary", "300", "--batch", "2", "--no-compile", "--threads", "1", "--dropout", "0.1",
        "--swap-names", "0.5", "--log-every", "10", "--valid-every", "320", "--valid-tokens", "64"]
STEP = 2*16 # Tokens.

# Helpers ------------------------------------------------------------------------------------------

def write_stories(path, count, seed):
    rng   = random.Random(seed)
    names = ["Lily", "Mia", "Tom", "Ben"]
    verbs = ["saw", "found", "liked", "lost"]
    with path.open("w") as file:
        for _ in range(count):
            name = rng.choice(names)
            file.write(f"Once {name} {rng.choice(verbs)} a {rng.choice(['cat', 'dog', 'ball'])}. "
                f"{name} was {rng.choice(['sad', 'happy'])}.\n<|endoftext|>\n")

class TrainCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        write_stories(self.folder/"train.txt", 60, seed=1)
        write_stories(self.folder/"valid.txt", 10, seed=2)
        handlers = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}
        self.addCleanup(lambda: [signal.signal(s, handler) for s, handler in handlers.items()])

    def arguments(self, run, *more):
        return ["--data", str(self.folder/"train.txt"), "--valid", str(self.folder/"valid.txt"),
            "--run", str(self.folder/run), "--out", str(self.folder/run/"out"), *TINY, *more]

    def train(self, run, *more):
        return train.train(train.parser().parse_args(self.arguments(run, *more)))

    def command(self, *arguments):
        return [sys.executable, str(pathlib.Path(train.__file__)), *arguments]

    def checkpoint(self, run):
        return torch.load(self.folder/run/"checkpoint.pt")

# Quantisers and network ---------------------------------------------------------------------------

class TestNetwork(unittest.TestCase):
    def test_weight_quantiser(self):
        integers, scale = quantize_weight(torch.tensor([[0.1, -0.9], [0.6, -0.4]]))
        self.assertEqual(integers.tolist(), [[0, -1], [1, -1]])
        self.assertAlmostEqual(scale.item(), 0.5, places=6)

    def test_row_quantiser_ties_to_even(self):
        integers, scale = quantize_rows(torch.tensor([[127.0, 0.5, 1.5, -2.5], [0, 0, 0, 0]]))
        self.assertEqual(integers.tolist(), [[127, 0, 2, -2], [0, 0, 0, 0]])
        self.assertAlmostEqual(scale[0, 0].item(), 1.0, places=6)

    def test_straight_through_gradient(self):
        weight = torch.tensor([[0.3, -2.0], [0.7, 0.1]], requires_grad=True)
        integers, scale = quantize_weight(weight)
        (integers*scale*torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        torch.testing.assert_close(weight.grad, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

    def test_causal(self):
        torch.manual_seed(0)
        network = Network(Shape(16, 24, 2, 2, 50, 16)).eval()
        tokens  = torch.randint(50, (1, 16))
        changed = tokens.clone()
        changed[0, 10:] = (changed[0, 10:] + 1) % 50
        a, b = network(tokens), network(changed)
        self.assertTrue(torch.equal(a[0, :10], b[0, :10]))
        self.assertFalse(torch.equal(a[0, 10:], b[0, 10:]))

    def test_attention_in_parts(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 2, 3, 200, 8)
        whole   = attend(q, k, v, torch.float32)
        torch.testing.assert_close(attend(q.double(), k.double(), v.double(), torch.float64),
            whole, atol=1e-5, rtol=1e-5)

    def test_wrong_heads(self):
        with self.assertRaisesRegex(ValueError, "hidden_size 16"):
            Shape(hidden_size=16, num_attention_heads=3)

    def test_sizes_and_kinds_that_are_refused(self):
        for arguments, words in (({"family": "bert"}, "family 'bert': must be one of llama, gpt"),
            ({"num_key_value_heads": 2}, "3 heads: must be a multiple of 2"),
            ({"embedding_planes": 4}, "embedding_planes 4"),
            ({"family": "gpt"}, "--path resident"),
            ({"weights": "int4"}, "--path resident")):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                Shape(**arguments)

    def test_integers_are_those_of_the_resident_path(self):
        torch.manual_seed(3)
        weight = torch.randn(7, 40)
        for kind in ("ternary", "int4", "int8"):
            self.assert_equal_weights(quantize_weight(weight, kind), quantise_weights(weight.numpy(), kind))
        for planes, kind in ((1, "ternary"), (2, "trits2"), (3, "trits3")):
            integers, steps = quantize_planes(weight, planes)
            if planes > 1:
                self.assert_equal_weights((integers, steps), quantise_weights(weight.numpy(), kind))
            self.assertLessEqual(integers.abs().max(), (3**planes - 1)//2)

    def assert_equal_weights(self, one, two):
        self.assertTrue((one[0].detach().numpy() == two[0]).all())
        torch.testing.assert_close(one[1].detach().flatten().double(),
            torch.as_tensor(two[1]).flatten().double(), rtol=1e-6, atol=0)

    def test_fixed_steps_follow_the_data_while_training(self):
        limit = torch.zeros(2)
        x     = torch.tensor([[[[3.0]], [[-5.0]]]])
        follow(limit, x)
        self.assertEqual(limit.tolist(), [3, 5])
        follow(limit, 2*x)
        torch.testing.assert_close(limit, torch.tensor([3.03, 5.05]))
        self.assertAlmostEqual(quantize_heads(4*x, limit)[0, 1, 0, 0].item(), -5.05, places=5)

    def test_muon_in_float32_is_muon(self):
        torch.manual_seed(5)
        mine, theirs = ([torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
            for shape in ((8, 24), (24, 8), (8, 24))] for _ in range(2))
        optims = (Muon32(mine, 0.02, 0.1), torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="original"))
        for _ in range(4):
            for one, two in zip(mine, theirs):
                one.grad = torch.randn(one.shape)
                two.grad = one.grad.clone()
            for optim in optims:
                optim.step()
        for one, two in zip(mine, theirs):
            torch.testing.assert_close(one, two, atol=2e-3, rtol=0) # Theirs iterates in bfloat16.
        optims[0].load_state_dict(optims[1].state_dict())

# Schedule and text --------------------------------------------------------------------------------

class TestPlan(unittest.TestCase):
    def test_rate(self):
        self.assertEqual(train.rate(0,   100, 0.4), 1.0)
        self.assertEqual(train.rate(60,  100, 0.4), 1.0)
        self.assertAlmostEqual(train.rate(80,  100, 0.4), 0.51)
        self.assertAlmostEqual(train.rate(100, 100, 0.4), 0.02)

    def test_history_keeps_changes_only(self):
        args    = train.parser().parse_args(["--tokens", "100"])
        entries = train.history([], 0, args)
        self.assertEqual(train.history(entries, 50, args), entries)
        args.dropout = 0.1
        self.assertEqual(train.history(entries, 50, args)[1:], [[50, {"dropout": 0.1}]])

class TestText(TrainCase):
    def test_stream(self):
        texts     = train_text.read(self.folder/"train.txt")
        tokenizer = train_text.tokenizer(texts, 300, self.folder/"tokenizer.json")
        corpus    = train_text.Corpus(texts, tokenizer, seed=3)
        epochs    = [corpus.epoch(number) for number in (0, 1)]
        stories   = [sorted(tokenizer.decode(epoch.tolist(), skip_special_tokens=False)
            .split(train_text.END)) for epoch in epochs]
        self.assertEqual(stories[0], sorted([""] + texts))
        self.assertEqual(stories[0], stories[1])
        self.assertFalse(torch.equal(*epochs))
        steps = [corpus.batch(step, 2, 16) for step in range(2*corpus.length//STEP - 1)]
        seen  = torch.cat([inputs.flatten() for inputs, _ in steps])
        self.assertTrue(torch.equal(seen, torch.cat(epochs)[:len(seen)]))
        for inputs, targets in steps:
            self.assertTrue(torch.equal(inputs.flatten()[1:], targets.flatten()[:-1]))

    def test_characters(self):
        tokenizer = train_text.tokenizer(None, 128, self.folder/"characters.json", "characters")
        text      = 'Hi "Tom"!\n~'
        self.assertEqual(tokenizer.encode(text).ids, [ord(c) for c in text])
        self.assertEqual(tokenizer.decode([0, *map(ord, text), 0]), text)
        self.assertEqual(tokenizer.encode("é").ids, [ord("?")]*2)
        self.assertEqual(train_text.encode(["ab", "c"], tokenizer).tolist(), [0, 97, 98, 0, 99, 0])

    def test_names(self):
        names   = train_text.Names(["Lily met Tom.", "Mia met Ben.", "Mia ran."])
        swapped = {names.swap("Lily met Tom. Lily ran.", random.Random(seed)) for seed in range(20)}
        self.assertEqual(swapped, {f"{girl} met {boy}. {girl} ran."
            for girl in ("Lily", "Mia") for boy in ("Tom", "Ben")})

# Runs ---------------------------------------------------------------------------------------------

class TestRuns(TrainCase):
    def assert_same(self, a, b):
        self.assertEqual(a["state"]["step"], b["state"]["step"])
        self.assertEqual(a["state"]["best"], b["state"]["best"])
        self.assertTrue(torch.equal(a["random"], b["random"]))
        for name, weight in a["weights"].items():
            self.assertTrue(torch.equal(weight, b["weights"][name]), name)
        for one, two in zip(a["optimizers"], b["optimizers"]):
            for key, slots in one["state"].items():
                for slot, value in slots.items():
                    self.assertTrue(torch.equal(value, two["state"][key][slot]), (key, slot))

    def test_resume_is_exact(self):
        tokens = str(2000*STEP)
        more = ("--tokens", tokens, "--valid-every", "32000", "--layers", "1")
        self.assertTrue(self.train("whole", *more))
        # The first half is planned like the whole run; it ends by a stop after 1,000 steps.
        half = train.parser().parse_args(self.arguments("halves", *more))
        batch, corpus = train_text.Corpus.batch, train_text.Corpus
        def stopping(corpus, step, rows, context):
            if step == 999:
                os.kill(os.getpid(), signal.SIGTERM)
            return batch(corpus, step, rows, context)
        corpus.batch = stopping
        try:
            self.assertFalse(train.train(half))
        finally:
            corpus.batch = batch
        self.assertEqual(self.checkpoint("halves")["state"]["step"], 1000)
        torch.manual_seed(99)
        self.assertTrue(self.train("halves", *more, "--resume"))
        whole, halves = self.checkpoint("whole"), self.checkpoint("halves")
        self.assertEqual(whole["state"]["step"], 2000)
        self.assert_same(whole, halves)
        with (self.folder/"halves/log.csv").open(newline="") as file:
            steps = [int(row["step"]) for row in csv.DictReader(file)]
        self.assertEqual(steps, list(range(10, 2001, 10)))

    def test_families_train_resume_export_and_run(self):
        families = {
            "gpt"   : ("--family", "gpt", "--weights", "int4", "--no-sub-norms", "--tokenizer", "characters", "--vocabulary", "128"),
            "llama" : ("--kv-heads", "1", "--head-dim", "6", "--norm", "layer", "--activation", "gelu", "--positions", "learned"),
            "board" : ("--planes", "2", "--kv-heads", "1"),
        }
        for family, more in families.items():
            with self.subTest(family):
                more = ("--path", "resident", "--float32", *more)
                self.train(family, "--tokens", str(40*STEP), *more)
                self.train(f"{family} again", "--tokens", str(20*STEP), "--decay", "0", *more)
                self.train(f"{family} again", "--tokens", str(40*STEP), *more, "--resume")
                result = train_export.export(self.folder/family, self.folder/"out", self.folder/"valid.txt")
                rows, cut = table(self.folder/"out", self.folder/"valid.txt")
                by_path   = {row["path"]: row["perplexity"] for row in rows}
                self.assertEqual("streamed" in by_path, family == "board")
                # A network of 16 elements is rough, but it is the same network.
                self.assertLess(abs(by_path["float"]/result["perplexity_per_token"] - 1), 0.02)
                self.assertLess(abs(by_path["resident"]/by_path["float"] - 1), 0.03)
                card = (self.folder/"out/README.md").read_text()
                self.assertIn("model/resident/price.py", card)
                self.assertIn({"gpt": "GPT-shaped", "llama": "LayerNorm", "board": "2 planes"}[family], card)

    def test_replanned_decay(self):
        self.train("run", "--tokens", str(100*STEP))
        self.train("run", "--tokens", str(400*STEP), "--resume")
        with (self.folder/"run/log.csv").open(newline="") as file:
            rates = {int(row["step"]): float(row["rate"]) for row in csv.DictReader(file)}
        self.assertLess(rates[100], 0.1)
        self.assertEqual(rates[200], 1.0)
        self.assertLess(rates[400], 0.1)

    def test_command_trains_stops_and_exports(self):
        command = self.command(*self.arguments("run", "--tokens", "1e9"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                if "valid" in line:
                    break
            process.terminate()
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 0)
        self.assertIn("--resume continues", rest)
        done = subprocess.run(self.command(*self.arguments("run", "--export")), timeout=300,
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)

        out    = self.folder/"run/out"
        config = json.loads((out/"config.json").read_text())
        self.assertEqual((config["hidden_size"], config["vocab_size"]), (16, 300))
        weights = load_file(out/"model.safetensors")
        self.assertEqual({weight.dtype for weight in weights.values()}, {torch.float16})
        self.assertEqual(tuple(weights["model.layers.1.mlp.down_proj.weight"].shape), (16, 24))
        card = (out/"README.md").read_text()
        self.assertIn("CDLA-Sharing-1.0", card)
        self.assertEqual([line for line in card.splitlines() if line.startswith("**") and
            line.strip("*").isdigit()], [f"**{seed}**" for seed in range(20)])

    def test_training_learns(self):
        self.train("run", "--tokens", str(300*STEP))
        with (self.folder/"run/log.csv").open(newline="") as file:
            losses = [float(row["valid_loss"]) for row in csv.DictReader(file) if row["valid_loss"]]
        self.assertLess(losses[-1], 0.6*losses[0])

# Sampling -----------------------------------------------------------------------------------------

class TestSampling(unittest.TestCase):
    def test_top_p_keeps_the_smallest_set(self):
        logits = torch.log(torch.tensor([0.1, 0.6, 0.3]))
        drawn  = {train_export.draw(logits, torch.Generator().manual_seed(seed), 1.0, 0.85)
            for seed in range(50)}
        self.assertEqual(drawn, {1, 2})

# Errors -------------------------------------------------------------------------------------------

class TestErrors(TrainCase):
    def check(self, arguments, words):
        done = subprocess.run(self.command(*arguments), timeout=120, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_no_data(self):
        arguments = self.arguments("run")
        arguments[1] = str(self.folder/"absent.txt")
        self.check(arguments, "TinyStories")

    def test_nothing_to_resume(self):
        self.check(self.arguments("run", "--resume"), "without --resume")

    def test_nothing_to_export(self):
        self.check(self.arguments("run", "--export"), "best.pt")

    def test_wrong_shape(self):
        self.check(self.arguments("run", "--family", "gpt"), "--path resident")

    def test_run_exists(self):
        self.train("run", "--tokens", str(2*STEP))
        self.check(self.arguments("run"), "--resume")

if __name__ == "__main__":
    unittest.main()
