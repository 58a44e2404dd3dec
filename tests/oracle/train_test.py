"""Ten AdamW steps from one start lose what transformers under torch's AdamW loses, to 1e-4. Usage: train_test.py gpt2
The text repeats every `length` bytes, so that every sample is the same whatever the order they come in."""
import json
import os
import random
import sys
import unittest

import models
import torch

FAMILY = sys.argv.pop(1)
LENGTH, BATCH, STEPS = 24, 6, 10
RECIPE = f"""
[train]
device = "cpu"
batch = {BATCH}
accumulate = 2
length = {LENGTH}
[model]
layers = 3
heads = 2
width = 32
context = 40
[data]
source = "text"
path = "TEXT"
[optim]
schedule = "linear"
warmup = 3
weight_decay = 0.5
[eval]
every = 10
batches = 1
"""


class Train(unittest.TestCase):
    def test_ten_steps_lose_the_same(self):
        scratch = models.Folder()
        os.environ["HYPERION_RUNS"] = str(scratch.path / "runs")
        text = bytes(random.Random(4).choices(range(32, 127), k=LENGTH))
        (scratch.path / "text").write_bytes(text * 200)
        recipe = scratch.path / "recipe.toml"
        recipe.write_text(RECIPE.replace("TEXT", str(scratch.path / "text")))
        models.run("train", recipe, "--run", "start", "--steps", 3, "--optim.lr=0")
        models.run("export", "start", "--to", scratch.path / "start")
        models.run("train", recipe, "--run", "ten", "--steps", STEPS, "--optim.lr=0.01")
        records = [json.loads(line) for line in (scratch.path / "runs/ten/metrics.jsonl").read_text().splitlines()]
        records = [record for record in records if "split" not in record]
        self.assertEqual(len(records), STEPS)

        model = models.load(scratch.path / "start").train()
        tables = ("wte.weight", "wpe.weight")
        decayed = [p for name, p in model.named_parameters() if p.dim() >= 2 and not name.endswith(tables)]
        rest = [p for name, p in model.named_parameters() if p.dim() < 2 or name.endswith(tables)]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}],
                                      betas=(0.9, 0.95), eps=1e-8)
        ids = torch.tensor(list(text + text[:1])).expand(BATCH, -1)
        for record in records:
            loss = model(input_ids=ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = record["lr"]
            optimizer.step()
            self.assertLess(abs(loss.item() - record["loss"]), 1e-4, record)
            self.assertLess(abs(norm.item() - record["grad_norm"]), 1e-3, record)
        self.assertLess(records[-1]["loss"], records[0]["loss"] - 1, "it learns nothing")


if __name__ == "__main__":
    unittest.main()
