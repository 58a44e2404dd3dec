"""The loss of a model on a prepared set, by `hyperion eval --set`, is that of transformers on the same documents or images."""
import json
import os
import sys
import unittest

import numpy
import peft
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models as token_models, pre_tokenizers

from models import Folder, gpt2, llama, load, make, resnet, run, vit

FAMILY = sys.argv.pop(1)
SEES = FAMILY in ("vit", "resnet")
CONFIG = {"gpt2": gpt2, "llama": llama, "vit": vit, "resnet": lambda **changes: resnet(image_size=32, **changes)}[FAMILY]
WORDS = [f"w{i}" for i in range(40)]
CLASSES = ["a cat", "dog", "Eule"]
LORA = """
[train]
device = "cpu"
steps = 6
batch = 4
length = 16
[model]
from = "{folder}/base"
[lora]
rank = 3
alpha = 12
[data]
source = "prepared"
path = "{folder}/set"
[optim]
lr = 0.02
warmup = 0
"""


def documents(seed, count):
    """Of 1 to 60 words: some shorter than a sample, some cut into several."""
    generator = numpy.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(1, 60))) for _ in range(count)]


def tokenizer():
    made = Tokenizer(token_models.WordLevel({word: i for i, word in enumerate(["<unk>", *WORDS])}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


def loss_of_documents(model, texts, length):
    """The mean over all tokens but the first of each document, `length` predicted at a time; and how many those are."""
    total = count = 0
    for text in texts:
        ids = torch.tensor(tokenizer()(text)["input_ids"])
        for first in range(0, len(ids) - 1, length):
            piece = ids[first:first + length + 1]
            with torch.no_grad():
                logits = model(input_ids=piece[None, :-1]).logits[0]
            total += torch.nn.functional.cross_entropy(logits.double(), piece[1:], reduction="sum").item()
            count += len(piece) - 1
    return total / count, count


def table(*arguments):
    return json.loads(run("eval", *arguments, "--json"))


@unittest.skipIf(SEES, "reads no text")
class Text(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.path = self.folder.path
        os.environ["HYPERION_RUNS"] = str(self.path / "runs")
        make(CONFIG(vocab_size=41), 3).save_pretrained(self.path / "base")
        tokenizer().save_pretrained(self.path / "base")
        self.held_out = documents(2, 50)
        (self.path / "train.txt").write_text("\n".join(documents(1, 60)) + "\n")
        (self.path / "held_out.txt").write_text("\n".join(self.held_out) + "\n")
        (self.path / "recipe.toml").write_text(LORA.format(folder=self.path))
        run("data", "prepare", self.path / "recipe.toml", f"--prepare.files={self.path}/train.txt", "--prepare.format=lines",
            f"--prepare.validation_files={self.path}/held_out.txt", f"--prepare.tokenizer={self.path}/base", "--output", self.path / "set")

    def expect_loss(self, row, model, length, tolerance=1e-5):
        loss, count = loss_of_documents(model.eval(), self.held_out, length)
        self.assertEqual(row["tokens"], count)
        self.assertLess(abs(row["loss"] - loss), tolerance)
        self.assertLess(abs(row["perplexity"] - numpy.exp(loss)), 10 * tolerance * numpy.exp(loss))

    def test_loss_of_a_folder_is_that_of_transformers(self):
        there = load(self.path / "base")
        for length in [16, 7, 41]:
            found = table(self.path / "base", "--set", self.path / "set", "--length", length)
            self.assertEqual((found["part"], found["length"], found["documents"]), ("validation", length, 50))
            self.expect_loss(found["rows"][0], there, length)

    def test_base_adapter_and_merged_are_those_of_peft(self):
        run("train", self.path / "recipe.toml", "--run", "lora")
        found = table("lora", "--set", self.path / "set")
        self.assertEqual([row["form"] for row in found["rows"]], ["base", "adapter", "merged"])
        self.assertEqual(found["length"], 16)
        base, adapter, merged = found["rows"]
        self.assertLess(abs(adapter["loss"] - merged["loss"]), 1e-5)
        self.assertLess(adapter["loss"], base["loss"])
        self.expect_loss(base, load(self.path / "base"), 16)
        run("export", "lora", "--as-adapter", "--to", self.path / "adapter")
        run("export", "lora", "--to", self.path / "merged")
        self.expect_loss(adapter, peft.PeftModel.from_pretrained(load(self.path / "base"), self.path / "adapter"), 16)
        self.expect_loss(merged, load(self.path / "merged"), 16)
        # The same three by hand, beside the run itself.
        by_hand = table(self.path / "base", self.path / "merged", "--adapter", self.path / "adapter", "--set", self.path / "set", "--length", 16)
        self.assertEqual([row["form"] for row in by_hand["rows"]], ["base", "adapter", "merged", None])
        for row, other in zip(by_hand["rows"], [base, adapter, merged, merged]):
            self.assertLess(abs(row["loss"] - other["loss"]), 1e-6)

    def test_bf16_is_near(self):
        found = table(self.path / "base", "--set", self.path / "set", "--length", 16, "--precision", "bf16")
        self.assertEqual(found["rows"][0]["precision"], "bf16")
        self.expect_loss(found["rows"][0], load(self.path / "base"), 16, tolerance=0.05)


def write_images(folder, seed):
    numbers = numpy.random.default_rng(seed)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for i in range(6):
            smooth = numbers.integers(0, 255, (5, 7, 3)).astype("uint8")
            Image.fromarray(smooth).resize((61 - 4 * i, 37 + 5 * i), 3).save(folder / name / f"{i}.png")
    return sorted(folder.glob("*/*.png"))


def loss_of_images(model, paths, pixels_of):
    classes = sorted(CLASSES)
    pixels = torch.tensor(numpy.stack([pixels_of(Image.open(path).convert("RGB")) for path in paths]), dtype=torch.float32)
    labels = torch.tensor([classes.index(path.parent.name) for path in paths])
    with torch.no_grad():
        logits = model(pixel_values=pixels).logits
    top_1 = (logits.argmax(-1) == labels).double().mean().item()
    return torch.nn.functional.cross_entropy(logits.double(), labels).item(), top_1


def squeezed(image):
    """As the processor says: all of the image, 32 by 32, about a half."""
    plain = numpy.asarray(image.resize((32, 32), Image.BICUBIC), dtype=numpy.float32)
    return (plain.transpose(2, 0, 1) / 255 - 0.5) / 0.25


@unittest.skipIf(not SEES, "sees no images")
class Images(unittest.TestCase):
    def test_loss_of_a_folder_is_that_of_transformers(self):
        folder = Folder()
        path = folder.path
        config = CONFIG(num_labels=3, id2label=dict(enumerate(sorted(CLASSES))))
        make(config, 3).save_pretrained(path / "base")
        processor = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 32, "width": 32}, "resample": 3,
                     "do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
        (path / "base/preprocessor_config.json").write_text(json.dumps(processor))
        write_images(path / "images/train", 4)
        paths = write_images(path / "images/val", 5)
        (path / "recipe.toml").write_text("[prepare]\n")
        run("data", "prepare", path / "recipe.toml", f"--prepare.files={path}/images", "--prepare.format=images", "--prepare.store=raw",
            "--output", path / "set")
        found = table(path / "base", "--set", path / "set")
        self.assertEqual((found["part"], found["rows"][0]["images"]), ("validation", len(paths)))
        loss, top_1 = loss_of_images(load(path / "base").eval(), paths, squeezed)
        self.assertLess(abs(found["rows"][0]["loss"] - loss), 1e-5)
        self.assertEqual(found["rows"][0]["top_1"], top_1)


if __name__ == "__main__":
    unittest.main()
