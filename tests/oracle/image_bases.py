"""ViT-Base and ResNet-50 of 1,000 classes, saved by transformers, become 100 classes of CIFAR-100's files and 101 of Food-101's. Takes minutes."""
import json
import os
import unittest

import numpy
import peft
import torch
import transformers
from PIL import Image

from models import Folder, load, make, probe, run

torch.set_num_threads(2)
LORA = '[lora]\nrank = 4\nalpha = 8\n'
RECIPE = """
[train]
device = "cpu"
steps = 2
batch = 2
[model]
from = "{base}"
[data]
source = "{source}"
path = "{path}"
[optim]
lr = 1e-4
warmup = 0
[eval]
every = 0
batches = 1
"""


def cifar100(folder):
    """Its binary files: coarse label, fine label, 32 x 32 pixels channel by channel; lists of names."""
    numbers = numpy.random.default_rng(1)
    folder.mkdir()
    (folder / "fine_label_names.txt").write_text("".join(f"fine {i}\n" for i in range(100)))
    (folder / "coarse_label_names.txt").write_text("".join(f"coarse {i}\n" for i in range(20)))
    for name, count in [("train.bin", 200), ("test.bin", 100)]:
        records = numbers.integers(0, 256, (count, 3074)).astype("uint8")
        records[:, 0], records[:, 1] = numpy.arange(count) % 20, numpy.arange(count) % 100
        (folder / name).write_bytes(records.tobytes())
    return "cifar", folder, [f"fine {i}" for i in range(100)]


def food101(folder):
    """images/CLASS/*.jpg, and lists in meta/."""
    numbers = numpy.random.default_rng(2)
    names = sorted(f"dish_{i}" for i in range(101))
    for name in names:
        (folder / "images" / name).mkdir(parents=True)
        for i in range(2):
            smooth = numbers.integers(0, 255, (6, 8, 3)).astype("uint8")
            Image.fromarray(smooth).resize((512, 384) if i else (384, 512), 3).save(folder / "images" / name / f"{i}.jpg")
    (folder / "meta").mkdir()
    (folder / "meta" / "classes.txt").write_text("\n".join(names))
    return "images", folder / "images", names


class ImageBase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.path = cls.folder.path
        cls.sets = [cifar100(cls.path / "cifar-100-binary"), food101(cls.path / "food-101")]
        os.environ["HYPERION_RUNS"] = str(cls.path / "runs")

    def base(self, name, model):
        model.save_pretrained(self.path / name)
        transformers.ViTImageProcessor().save_pretrained(self.path / name)
        return self.path / name

    def train(self, base, of, extra="", ranks=1, flags=()):
        source, path, _ = of
        held_out = "\n[data]\nvalidation = 0.5\n" if source == "images" else ""
        recipe = RECIPE.format(base=base, source=source, path=path).replace("\n[data]\n", held_out or "\n[data]\n")
        (self.path / "recipe.toml").write_text(recipe + extra)
        name = f"{base.name}-{source}-{'lora' if extra else 'full'}-{ranks}"
        launch = ("launch", "-n", ranks, "--logs", self.path / "logs", "--") if ranks > 1 else ()
        run(*launch, "train", self.path / "recipe.toml", "--run", name, *flags)
        lines = (self.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return name, [line["loss"] for line in map(json.loads, lines) if "loss" in line]

    def same_there(self, name, model, classes):
        pixels = {"pixel_values": torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(3))}
        with torch.no_grad():
            theirs = model.eval()(**pixels).logits
        ours = probe(name, pixels)["logits"]
        self.assertEqual(tuple(ours.shape), (2, len(classes)))
        self.assertLess((theirs - ours).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))

    def names_there(self, name, folder, classes):
        pipeline = transformers.pipeline("image-classification", str(folder))
        images = sorted((self.path / "food-101/images").glob("*/*.jpg"))[:10]
        ours = json.loads(run("classify", name, *images, "--json", "--top", 3))
        for path, one in zip(images, ours, strict=True):
            theirs = {guess["label"]: guess["score"] for guess in pipeline(str(path), top_k=len(classes))}
            self.assertEqual(set(theirs), set(classes))
            for guess in one["classes"]:
                self.assertLess(abs(guess["score"] - theirs[guess["label"]]), 0.01)

    def walk(self, base, each, slow=(), ranks_flags=()):
        for of in self.sets:
            for extra in each:
                name, one = self.train(base, of, extra, flags=slow)
                folder = self.path / "exported" / name
                run("export", name, "--to", folder)
                self.same_there(name, load(folder), of[2])
                self.names_there(name, folder, of[2])
                if extra:
                    run("export", name, "--to", self.path / "adapter" / name, "--as-adapter")
                    grown = load(base, num_labels=len(of[2]), ignore_mismatched_sizes=True)
                    self.same_there(name, peft.PeftModel.from_pretrained(grown, self.path / "adapter" / name), of[2])
                _, two = self.train(base, of, extra, ranks=2, flags=(*slow, *ranks_flags))
                self.assertEqual(len(one), len(two))
                for a, b in zip(one, two):
                    self.assertLess(abs(a - b), 1e-5 * a, name)

    def test_vit_base_to_other_classes(self):
        self.walk(self.base("vit-base", make(transformers.ViTConfig(num_labels=1000), 1)), ["", LORA])

    def test_vit_base_without_a_head_and_with_a_pooler(self):
        for name, pooler in [("headless", False), ("pooled", True)]:
            torch.manual_seed(1)
            base = self.base(name, transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=pooler))
            for extra in ["", LORA]:
                trained, _ = self.train(base, self.sets[0], extra)
                folder = self.path / "exported" / trained
                run("export", trained, "--to", folder)
                self.same_there(trained, load(folder), self.sets[0][2])

    def test_resnet_50_to_other_classes(self):
        self.walk(self.base("resnet-50", make(transformers.ResNetConfig(num_labels=1000), 1)), [""],
                  ("--optim.lr=1e-6",),  # batch norms of random weights make much of a rounding
                  ("--parallel.sync_batch_norm=true",))


if __name__ == "__main__":
    unittest.main()
