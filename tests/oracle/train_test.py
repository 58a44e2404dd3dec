"""Ten AdamW steps from one start lose what transformers under torch's AdamW loses, to 1e-4. Usage: train_test.py FAMILY
Every step sees the same samples, whatever the order they come in: the text repeats every `length` bytes, and a batch holds all images."""
import json
import os
import random
import sys
import unittest

import models
import numpy
import torch

FAMILY = sys.argv.pop(1)
LENGTH, IMAGES, STEPS = 24, 10, 10
# AdamW turns the rounding of a gradient near 0 into a step of lr; on ten images under batch norms that grows fast.
RATE, LEARNT, NORM = (0.002, 0.15, 1e-2) if FAMILY in ("vit", "resnet") else (0.01, 1, 1e-3)
LANGUAGE = {
    "gpt2": "layers = 3\nheads = 2\nwidth = 32\ncontext = 40",
    "llama": 'preset = "llama-tiny"\nlayers = 3\nwidth = 64\ninner = 90',
    "qwen2": 'preset = "qwen2.5-0.5b"\nlayers = 2\nheads = 4\nwidth = 64\ninner = 90\ncontext = 40\nvocabulary = 260',
    "mistral": 'preset = "mistral-7b-v0.3"\nlayers = 2\nheads = 4\nkey_value_heads = 2\nwidth = 64\ninner = 90\ncontext = 40\nvocabulary = 260',
    "qwen3": 'preset = "qwen3-0.6b"\nlayers = 2\nheads = 4\nkey_value_heads = 2\nwidth = 64\ninner = 90\ncontext = 40\nvocabulary = 260',
    "mixtral": 'preset = "mixtral-tiny"\nlayers = 2\nwidth = 64\ninner = 44',
    "qwen2_moe": 'preset = "qwen-moe-tiny"\nlayers = 2\nwidth = 64\nexperts = 5\nbalance_loss = 0.1',
}
VISION = {
    "vit": 'preset = "vit-tiny"\nlayers = 2\nheads = 2\nwidth = 32\ninner = 48\npatch = 8',
    "resnet": 'config = "CONFIG"',
}
RESNET = {"model_type": "resnet", "layer_type": "bottleneck", "depths": [1, 2], "hidden_sizes": [16, 32], "embedding_size": 8, "num_labels": 10, "image_size": 32}
TABLES = ("wte.weight", "wpe.weight", "embed_tokens.weight", "cls_token", "position_embeddings")


def recipe(scratch):
    sees = FAMILY in VISION
    model = (VISION if sees else LANGUAGE)[FAMILY].replace("CONFIG", str(scratch / "resnet.json"))
    return f"""
[train]
device = "cpu"
batch = {IMAGES if sees else 6}
accumulate = {1 if sees else 2}
length = {LENGTH}
[model]
{model}
[data]
source = "{'cifar' if sees else 'text'}"
path = "{scratch / 'data'}"
[optim]
schedule = "linear"
warmup = 3
weight_decay = 0.5
[eval]
every = 10
batches = 1
"""


def write_text(path):
    text = bytes(random.Random(4).choices(range(32, 127), k=LENGTH))
    path.write_bytes(text * 200)
    return {"input_ids": torch.tensor(list(text + text[:1])).expand(6, -1)}


def write_images(folder):
    """CIFAR-10's binary files: five of training images, one of the others."""
    folder.mkdir()
    generator = numpy.random.default_rng(4)
    pixels = generator.integers(0, 256, (IMAGES, 3, 32, 32), dtype=numpy.uint8)
    labels = generator.integers(0, 10, IMAGES, dtype=numpy.uint8)
    records = [bytes([label]) + image.tobytes() for label, image in zip(labels, pixels)]
    for part in range(5):
        (folder / f"data_batch_{part + 1}.bin").write_bytes(b"".join(records[part::5]))
    (folder / "test_batch.bin").write_bytes(records[0])
    mean, deviation = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])
    values = (torch.from_numpy(pixels).float() / 255 - mean[:, None, None]) / deviation[:, None, None]
    return {"pixel_values": values, "labels": torch.from_numpy(labels).long()}


def loss_of(model, batch):
    """The last token is a target only: it passes no router."""
    if FAMILY in VISION:
        return model(**batch).loss
    ids = batch["input_ids"]
    out = model(input_ids=ids[:, :-1])
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), ids[:, 1:].flatten())
    return loss + model.config.router_aux_loss_coef * out.aux_loss if FAMILY in ("mixtral", "qwen2_moe") else loss


class Train(unittest.TestCase):
    def test_ten_steps_lose_the_same(self):
        holder = models.Folder()
        scratch = holder.path
        os.environ["HYPERION_RUNS"] = str(scratch / "runs")
        (scratch / "resnet.json").write_text(json.dumps(RESNET))
        batch = (write_images if FAMILY in VISION else write_text)(scratch / "data")
        (scratch / "recipe.toml").write_text(recipe(scratch))
        # Without a learning rate only running statistics change, and a model in training does not read those.
        models.run("train", scratch / "recipe.toml", "--run", "start", "--steps", 3, "--optim.lr=0")
        models.run("export", "start", "--to", scratch / "start")
        models.run("train", scratch / "recipe.toml", "--run", "ten", "--steps", STEPS, f"--optim.lr={RATE}")
        records = [json.loads(line) for line in (scratch / "runs/ten/metrics.jsonl").read_text().splitlines()]
        records = [record for record in records if "split" not in record]
        self.assertEqual(len(records), STEPS)

        model = models.load(scratch / "start").train()
        decays = lambda name, p: p.dim() >= 2 and not name.endswith(TABLES)
        decayed = [p for name, p in model.named_parameters() if decays(name, p)]
        rest = [p for name, p in model.named_parameters() if not decays(name, p)]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}],
                                      betas=(0.9, 0.95), eps=1e-8)
        for record in records:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = record["lr"]
            optimizer.step()
            self.assertAlmostEqual(record["loss"], loss.item(), delta=1e-4, msg=f"step {record['step']}")
            self.assertAlmostEqual(record["grad_norm"], norm.item(), delta=NORM * norm.item(), msg=f"step {record['step']}")
        self.assertLess(records[-1]["loss"], records[0]["loss"] - LEARNT, "it learns nothing")


if __name__ == "__main__":
    unittest.main()
