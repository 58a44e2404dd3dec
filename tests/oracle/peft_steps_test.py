"""Ten updates of an adapter beside every linear layer, by the program here and by peft under torch's AdamW: the same losses, norms of
gradients and adapter, to 1e-4. Documents stand in rows of their own or share them; weights are whole or in 4 bits; blocks are plain, and
fused as on a GPU. Usage: peft_steps_test.py FAMILY
A batch holds every document, so that the order they come in is nothing to either."""
import json
import os
import random
import sys
import unittest

import peft
import torch
from safetensors.torch import load_file

from models import Folder, bytes_config, load, make, relative, run

FAMILY = sys.argv.pop(1)
LENGTH, STEPS, NEAR = 40, 10, 1e-4
WHOLE = ("wte.weight", "wpe.weight", "embed_tokens.weight", "lm_head.weight")  # also beside weights in 4 bits
RATE, WARMUP, CLIP, DECAY = 0.004, 3, 0.5, 0.3
EPSILON = 1e-4  # with 1e-8 AdamW makes a whole step of a gradient that is rounding alone, and clipping changes next to nothing
RECIPE = """
[prepare]
files = ["{folder}/documents"]
validation_files = ["{folder}/documents"]
format = "lines"
output = "{folder}/set"
[train]
device = "cpu"
steps = {steps}
batch = {rows}
accumulate = 2
length = {length}
[model]
from = "{folder}/base"
[lora]
rank = 4
alpha = 12
targets = "all-linear"
[data]
source = "prepared"
packing = "{packing}"
reset = true
[optim]
lr = {rate}
schedule = "linear"
warmup = {warmup}
weight_decay = {decay}
clip = {clip}
epsilon = {epsilon}
[eval]
every = 0
batches = 1
"""
NF4 = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])


def in_rows(flat, width):
    return torch.nn.functional.pad(flat, (0, -flat.numel() % width)).view(-1, width)


def through_4_bits(weight):
    """What is left of a weight after NF4 whose magnitudes are in 8 bits: the largest of 64, less their mean, as a signed square."""
    flat = weight.detach().flatten()
    blocks = in_rows(flat, 64)
    largest = blocks.abs().amax(dim=1)
    parts = in_rows(largest - largest.mean(), 256)
    most = parts.abs().amax(dim=1, keepdim=True).clamp_min(1e-38)
    part = (parts.abs() / most).sqrt().mul(127).round() / 127 * parts.sign()
    magnitudes = (largest.mean() + (most * part * part.abs()).flatten()[:largest.numel()]).clamp_min(0)[:, None]
    codes = torch.bucketize(blocks / magnitudes, (NF4[1:] + NF4[:-1]) / 2)
    return (NF4[codes] * magnitudes).flatten()[:flat.numel()].view_as(weight)


def documents():
    """Of 2 to LENGTH + 1 bytes, most so short that several share a row, and as many rows as two parts divide evenly."""
    numbers = random.Random(4)
    texts = []
    while len(texts) < 24 or rows_of(texts) % 2 or len(texts) % 2:
        texts.append(bytes(numbers.choices(range(33, 127), k=LENGTH + 1 if len(texts) == 5 else numbers.randint(2, 24))))
    return texts


def rows_of(texts):
    """That they are fitted into: longest first, each where it leaves the least room."""
    rooms = []
    for size in sorted(map(len, texts), reverse=True):
        room = min((room for room in rooms if room >= size), default=None)
        if room is None:
            rooms.append(LENGTH + 1 - size)
        else:
            rooms[rooms.index(room)] -= size
    return len(rooms)


def loss_of(model, texts):
    """Each document by itself; what follows it in its row is no target, and no token before it sees it."""
    ids = torch.zeros(len(texts), LENGTH + 1, dtype=torch.long)
    targets = torch.full((len(texts), LENGTH + 1), -100)
    for row, text in enumerate(texts):
        ids[row, :len(text)] = targets[row, :len(text)] = torch.tensor(list(text))
    logits = model(input_ids=ids[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[:, 1:].flatten())


class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.path = cls.folder.path
        os.environ["HYPERION_RUNS"] = str(cls.path / "runs")
        config = bytes_config(FAMILY)
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):  # GPT-2's, whose random numbers are not ours
            if hasattr(config, name):
                setattr(config, name, 0.0)
        if FAMILY != "gpt2":
            config.intermediate_size = 80  # so much wider than the model that the changes of its last linear lie beneath the weight
        make(config, 3).save_pretrained(cls.path / "base")
        cls.texts = documents()
        (cls.path / "documents").write_bytes(b"\n".join(cls.texts) + b"\n")
        cls.recipes = {}
        for packing, rows in (("single", len(cls.texts)), ("whole", rows_of(cls.texts))):
            cls.recipes[packing] = cls.path / f"{packing}.toml"
            cls.recipes[packing].write_text(RECIPE.format(folder=cls.path, packing=packing, rows=rows, length=LENGTH, steps=STEPS, rate=RATE,
                                                          warmup=WARMUP, decay=DECAY, clip=CLIP, epsilon=EPSILON))
        run("data", "prepare", cls.recipes["single"])
        run("train", cls.recipes["single"], "--run", "start", "--steps", 1, "--optim.lr=0", "--optim.warmup=0")
        run("export", "start", "--as-adapter", "--to", cls.path / "start")

    def trained(self, name, packing, *flags):
        """The run's steps, and its adapter afterwards."""
        run("train", self.recipes[packing], "--run", name, *flags)
        run("export", name, "--as-adapter", "--to", self.path / name)
        lines = (self.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if "split" not in record]
        self.assertEqual(len(records), STEPS)
        rates = [record["lr"] for record in records]
        self.assertEqual(max(rates), RATE)
        self.assertLess(max(rates[0], rates[-1]), 0.5 * RATE, "the schedule neither rises nor falls")
        return records, load_file(self.path / name / "adapter_model.safetensors")

    def hold(self, name, packing, *flags, quantized=False):
        records, ours = self.trained(name, packing, *flags)
        base = load(self.path / "base")
        if quantized:
            for path, parameter in base.named_parameters():
                if parameter.dim() == 2 and not path.endswith(WHOLE):
                    parameter.data = through_4_bits(parameter)
        model = peft.PeftModel.from_pretrained(base, self.path / "start", is_trainable=True).train()
        trained = {path.replace(".default", ""): p for path, p in model.named_parameters() if p.requires_grad}
        self.assertEqual(set(trained), set(ours))
        before = {path: parameter.detach().clone() for path, parameter in trained.items()}
        optimizer = torch.optim.AdamW(trained.values(), betas=(0.9, 0.95), eps=EPSILON, weight_decay=DECAY)
        norms, most = [], 0
        for record in records:
            loss = loss_of(model, self.texts)
            optimizer.zero_grad()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(trained.values(), CLIP).item())
            optimizer.param_groups[0]["lr"] = record["lr"]
            optimizer.step()
            for what, value, expected in (("loss", record["loss"], loss.item()), ("gradients", record["grad_norm"], norms[-1])):
                off = abs(value / expected - 1)
                self.assertLess(off, NEAR, f"{what} of step {record['step']}: {value}, and peft has {expected}")
                most = max(most, off)
        self.assertGreater(max(norms), 1.5 * CLIP, "nothing was clipped")
        self.assertLess(records[-1]["loss"], records[0]["loss"] - 0.02, "it learns nothing")
        apart = {path: relative(ours[path], parameter.detach()) for path, parameter in trained.items()}
        for path, parameter in trained.items():
            self.assertLess(apart[path], NEAR, path)
            self.assertGreater(relative(before[path], parameter.detach()), 100 * NEAR, f"{path} was not trained")
        print(f"{FAMILY} {name}: steps within {most:.1e}, adapter within {max(apart.values()):.1e}")

    def each_form(self, name, packing, *flags, **more):
        self.hold(name, packing, "--optimize", "fused", *flags, **more)
        os.environ["HYPERION_FUSED_BLOCKS"] = "1"
        try:
            self.hold(f"{name}-fused", packing, "--optimize", "fused", *flags, **more)
        finally:
            del os.environ["HYPERION_FUSED_BLOCKS"]

    def test_plain_operations(self):
        self.hold("reference", "whole", "--optimize", "reference")

    def test_documents_in_rows_of_their_own(self):
        self.each_form("single", "single")

    def test_documents_that_share_rows(self):
        self.each_form("packed", "whole")

    def test_weights_in_4_bits(self):
        self.each_form("nf4", "single", "--model.quantize=nf4", quantized=True)

    def test_documents_that_share_rows_and_weights_in_4_bits(self):
        self.each_form("packed-nf4", "whole", "--model.quantize=nf4", quantized=True)


if __name__ == "__main__":
    unittest.main()
