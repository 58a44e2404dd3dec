"""A pre-trained model of transformers is trained on to other classes here, and used there: the same classes, logits and pixels."""
import json
import os
import sys
import unittest

import numpy
import peft
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

from models import Folder, answer, load, make, probe, resnet, run, vit

FAMILY = sys.argv.pop(1)
CONFIG = {"vit": vit, "resnet": lambda **changes: resnet(image_size=32, **changes)}[FAMILY]
HEADLESS = {"vit": transformers.ViTModel, "resnet": transformers.ResNetModel}[FAMILY]
CLASSES = ["a cat", "dog", "Eule"]
RECIPE = """
[train]
device = "cpu"
steps = 3
batch = 6
[model]
from = "{folder}/base"
[data]
source = "images"
path = "{folder}/images"
validation = 0.25
[optim]
lr = 0.05
warmup = 0
"""
LORA = '[lora]\nrank = 3\nalpha = 12\n'
EACH = ["", LORA] if FAMILY == "vit" else [""]  # a ResNet has no linear layer but its head


def images(folder):
    """Six of each class, none of the size of the model."""
    numbers = numpy.random.default_rng(5)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(6):
            size = (37 + 5 * i, 61 - 4 * i, 3)
            smooth = numbers.integers(0, 255, (5, 7, 3)).astype("uint8")
            Image.fromarray(smooth).resize((size[1], size[0]), 3).save(folder / name / f"{i}.png")
    return sorted(folder.glob("*/*.png"))


class Trained:
    """A base with 11 classes, and a run from it to ours."""

    def __init__(self, extra="", headless=None, ranks=1, flags=(), seed=7, processor=None):
        self.folder = Folder()
        self.path = self.folder.path
        model = make(CONFIG(), seed)
        if headless is not None:
            torch.manual_seed(seed)
            model = HEADLESS(CONFIG(), **headless)
        model.save_pretrained(self.path / "base")
        if processor is not None:
            processor.save_pretrained(self.path / "base")
        self.images = images(self.path / "images")
        (self.path / "recipe.toml").write_text(RECIPE.format(folder=self.path) + extra)
        os.environ["HYPERION_RUNS"] = str(self.path / "runs")
        launch = ("launch", "-n", ranks, "--logs", self.path / "logs", "--") if ranks > 1 else ()
        run(*launch, "train", self.path / "recipe.toml", "--run", "run", *flags)

    def losses(self):
        lines = (self.path / "runs/run/metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss" in line]

    def export(self, name, *flags):
        run("export", "run", "--to", self.path / name, *flags)
        return self.path / name

    def pixels(self):
        generator = torch.Generator().manual_seed(3)
        return {"pixel_values": torch.randn(4, 3, 32, 32, generator=generator)}


def same(self, there, trained, tolerance=1e-5):
    """Logits of transformers and of the run here."""
    pixels = trained.pixels()
    with torch.no_grad():
        theirs = answer(there.eval(), pixels).logits
    ours = probe("run", pixels)["logits"]
    self.assertEqual(tuple(ours.shape), (4, len(CLASSES)))
    self.assertLess((theirs - ours).abs().max().item(), tolerance * max(1, theirs.abs().max().item()))


def near(self, model, folder, images):
    """Pixels of image files: those of the model here, and of the processor in the folder."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    deviation = torch.tensor(processor.image_std)[:, None, None]
    out = Folder()
    run("classify", model, *images, "--output", out.path / "near.safetensors")
    for path, pixels in zip(images, load_file(out.path / "near.safetensors")["pixel_values"], strict=True):
        theirs = processor(Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"][0]
        self.assertEqual(theirs.shape, pixels.shape)
        self.assertLess(((theirs - pixels) * deviation).abs().max().item(), 2 / 255 + 1e-6, path)


def differ(self, trained, folder, images):
    """Pixels and logits of image files: ours, and those of transformers' processor and model."""
    file = trained.path / "classified.safetensors"
    run("classify", "run", *images, "--output", file)
    ours = load_file(file)
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    deviation = torch.tensor(processor.image_std)[:, None, None]
    for path, pixels in zip(images, ours["pixel_values"], strict=True):
        theirs = processor(Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"][0]
        self.assertLess(((theirs - pixels) * deviation).abs().max().item(), 2 / 255 + 1e-6, path)
    with torch.no_grad():
        theirs = answer(load(folder).eval(), {"pixel_values": ours["pixel_values"]}).logits
    self.assertLess((theirs - ours["logits"]).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))


class FineTune(unittest.TestCase):
    def test_pipeline_gives_the_names_and_scores_that_classify_gives(self):
        trained = Trained()
        folder = trained.export("exported")
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["id2label"], {str(i): name for i, name in enumerate(sorted(CLASSES))})
        pipeline = transformers.pipeline("image-classification", str(folder))
        ours = json.loads(run("classify", "run", *trained.images[:10], "--json", "--top", 3))
        from_folder = json.loads(run("classify", folder, *trained.images[:10], "--json", "--top", 3))
        self.assertEqual([one["classes"] for one in ours], [one["classes"] for one in from_folder])
        for path, one in zip(trained.images, ours):
            theirs = {guess["label"]: guess["score"] for guess in pipeline(str(path), top_k=3)}
            self.assertEqual(set(theirs), {guess["label"] for guess in one["classes"]})
            for guess in one["classes"]:
                self.assertLess(abs(guess["score"] - theirs[guess["label"]]), 0.02, path)
        same(self, load(folder), trained)

    def test_pixels_are_those_of_the_processor(self):
        trained = Trained()
        folder = trained.export("exported")
        differ(self, trained, folder, trained.images[:10])

    def test_pixels_are_normalised_as_the_base_says(self):
        half = transformers.ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        trained = Trained(processor=half)
        again = ("train", trained.path / "recipe.toml", "--run", "run", "--or-resume", "--steps", "4")
        run(*again)
        (trained.path / "base" / "preprocessor_config.json").unlink()
        run(*again[:-1], "5")
        mean = lambda folder: list(transformers.AutoImageProcessor.from_pretrained(folder).image_mean)
        self.assertEqual(mean(trained.export("exported")), [0.5] * 3)
        told = Trained(processor=half, flags=("--augment.normalise=imagenet",))
        self.assertEqual(mean(told.export("exported")), [0.485, 0.456, 0.406])

    def test_pixels_are_those_of_a_convnext_processor(self):
        """As ResNets are published: the old form and the one saved today, small and large."""
        common = {"do_normalize": True, "do_resize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3}
        forms = [{**common, "feature_extractor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875, "size": 32},
                 {**common, "image_processor_type": "ConvNextImageProcessor", "crop_pct": 0.7, "size": {"shortest_edge": 32}}]
        for form in forms:
            folder = Folder()
            base = folder.path / "base"
            make(CONFIG(), 7).save_pretrained(base)
            (base / "preprocessor_config.json").write_text(json.dumps(form))
            near(self, base, base, images(folder.path / "images")[::2])
        trained = Trained(processor=transformers.ConvNextImageProcessor.from_dict(forms[1]))
        differ(self, trained, trained.export("exported"), trained.images[::2])
        near(self, "run", trained.path / "base", trained.images[::2])  # validated as the base was

    @unittest.skipIf(FAMILY == "resnet", "a ResNet has no linear layer but its head")
    def test_an_adapter_folder_merges_into_the_names_logits_and_pixels_that_peft_gives(self):
        half = transformers.ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        trained = Trained(LORA, processor=half, flags=("--augment.normalise=cifar", "--augment.centre=0.6"))
        adapter, merged = trained.export("adapter", "--as-adapter"), trained.path / "merged"
        run("export", trained.path / "base", "--adapter", adapter, "--to", merged)
        grown = load(trained.path / "base", num_labels=len(CLASSES), ignore_mismatched_sizes=True)
        there = peft.PeftModel.from_pretrained(grown, adapter)
        same(self, there, trained)
        same(self, load(merged), trained)
        self.assertEqual(load(merged).config.id2label, dict(enumerate(sorted(CLASSES))))
        near(self, "run", merged, trained.images[::2])
        near(self, "run", adapter, trained.images[::2])
        scores = [json.loads(run("classify", *model, trained.images[0], "--json"))[0]["classes"]
                  for model in [("run",), (trained.path / "base", "--adapter", adapter), (merged,)]]
        self.assertEqual(scores[0], scores[1])
        self.assertEqual([one["label"] for one in scores[0]], [one["label"] for one in scores[2]])

    def test_classify_writes_over_neither_images_nor_models(self):
        trained = Trained()
        folder = trained.export("exported")
        (trained.path / "image.safetensors").write_bytes(trained.images[0].read_bytes())
        for model, image, output in [("run", trained.path / "image.safetensors", trained.path / "image.safetensors"),
                                     ("run", trained.images[0], trained.images[0]), (folder, trained.images[0], folder / "model.safetensors")]:
            before = output.read_bytes()
            with self.assertRaises(RuntimeError):
                run("classify", model, image, "--output", output)
            self.assertEqual(output.read_bytes(), before)

    @unittest.skipIf(FAMILY == "resnet", "it has no linear layer but its head")
    def test_an_adapter_and_its_new_head_go_to_peft_and_come_back(self):
        trained = Trained(LORA)
        same(self, load(trained.export("merged")), trained)
        adapter = trained.export("adapter", "--as-adapter")
        settings = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual(settings["modules_to_save"], ["classifier"])
        base = load(trained.path / "base", num_labels=3, ignore_mismatched_sizes=True)
        there = peft.PeftModel.from_pretrained(base, adapter)
        same(self, there, trained)
        there.save_pretrained(trained.path / "theirs")
        pixels = trained.pixels()
        back = probe(trained.path / "base", pixels, "--adapter", trained.path / "theirs")["logits"]
        self.assertLess((back - probe("run", pixels)["logits"]).abs().max().item(), 1e-6)
        (trained.path / "base/preprocessor_config.json").write_bytes((trained.path / "merged/preprocessor_config.json").read_bytes())
        beside = json.loads(run("classify", trained.path / "base", trained.images[0], "--adapter", adapter, "--json", "--top", 3))
        ours = json.loads(run("classify", "run", trained.images[0], "--json", "--top", 3))
        for one, other in zip(beside[0]["classes"], ours[0]["classes"], strict=True):
            self.assertLess(abs(one["score"] - other["score"]), 1e-5)
        (trained.path / "theirs/config.json").write_bytes((trained.path / "merged/config.json").read_bytes())
        named = json.loads(run("classify", trained.path / "base", trained.images[0], "--adapter", trained.path / "theirs", "--json", "--top", 3))
        self.assertEqual([one["label"] for one in named[0]["classes"]], [one["label"] for one in ours[0]["classes"]])
        run("export", trained.path / "base", "--adapter", trained.path / "theirs", "--to", trained.path / "both")
        same(self, load(trained.path / "both"), trained)

    def test_a_model_without_a_head_gets_one_and_its_pooler_is_passed_over(self):
        for headless in [{}, {"add_pooling_layer": False}] if FAMILY == "vit" else [{}]:
            for extra in EACH:
                trained = Trained(extra, headless)
                same(self, load(trained.export("exported")), trained)

    def test_what_fits_is_kept_to_the_bit(self):
        trained = Trained(flags=("--steps", "1", "--optim.lr=0"))
        before = load(trained.path / "base").state_dict()
        for name, tensor in load(trained.export("exported")).state_dict().items():
            if not name.startswith("classifier") and "running_" not in name and "num_batches" not in name:
                self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_is_measured_as_it_was_trained_and_goes_on(self):
        for extra, flags in [(extra, ()) for extra in EACH] + ([(LORA, ("--model.quantize=nf4",))] if LORA in EACH else []):
            trained = Trained(extra, flags=flags)
            for steps in ["3", "5"]:
                run("resume", "run", "--steps", steps)
                self.assertEqual(json.loads(run("eval", "run", "--json"))["loss"], trained.losses()[-1])

    def test_two_ranks_train_as_one(self):
        same_norms = ("--parallel.sync_batch_norm=true",) if FAMILY == "resnet" else ()
        slow = ("--optim.lr=0.001",)  # batch norms of random weights make much of a rounding
        for extra in EACH:
            one = Trained(extra, flags=slow).losses()
            for flags in [(), ("--zero", "3")]:
                two = Trained(extra, ranks=2, flags=(*slow, *same_norms, *flags)).losses()
                self.assertEqual(len(one), len(two))
                for a, b in zip(one, two):
                    self.assertLess(abs(a - b), 1e-5 * a)


if __name__ == "__main__":
    unittest.main()
