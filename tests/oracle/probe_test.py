"""Logits, loss and gradients of a folder probed here are those of transformers: logits within 1e-4, each gradient within 1e-4
of its norm; with padding, logits where the mask is 1. Models of images answer as in evaluation. Usage: probe_test.py FAMILY"""
import sys
import unittest

import models
import torch

FAMILY = sys.argv.pop(1)


class Probe(unittest.TestCase):
    def compare(self, model, folder, tensors):
        expected = models.answer(model, tensors)
        model.zero_grad()
        expected.loss.backward()
        got = models.probe(folder, tensors, "--grads")
        seen = tensors.get("attention_mask", torch.ones(expected.logits.shape[:-1])).bool()
        self.assertLess((got["logits"] - expected.logits).detach()[seen].abs().max().item(), 1e-4)
        self.assertLess(abs((got["loss"] - expected.loss).item()), 1e-4)
        gradients = models.gradients(model)
        stored = {name for name in models.stored_names(folder) if "running_" not in name and "num_batches_tracked" not in name}
        self.assertEqual(set(gradients) | stored, set(got) - {"logits", "loss"})
        for name, gradient in gradients.items():
            # Without rotary places a bias of the keys shifts all scores of a query alike: its gradient is 0 but for rounding.
            scale = gradients[name.replace("k_proj.bias", "q_proj.bias") if FAMILY == "vit" else name]
            self.assertLess(((got[name] - gradient).norm() / scale.norm().clamp_min(1e-30)).item(), 1e-4, name)

    def test_is_the_same_function(self):
        shapes = [(1, 41, None), (3, 7, None), (3, 23, "right"), (4, 17, "left"), (3, 19, "middle"), (2, 3, None)]
        if FAMILY == "vit":
            shapes = [(1, None, None), (3, None, None), (2, (40, 40), None), (3, (25, 47), None), (1, (64, 15), None)]
        elif FAMILY == "resnet":
            shapes = [(1, (45, 45), None), (3, (32, 57), None), (2, (64, 33), None)]
        for name, config in models.CONFIGS[FAMILY].items():
            if name == "neither_square":  # transformers can resample the places of square models only
                shapes = shapes[:2]
            for seed, (rows, length, padding) in enumerate(shapes):
                with self.subTest(config=name, seed=seed, padding=padding):
                    model, scratch = models.make(config(), seed), models.Folder()
                    model.save_pretrained(scratch.path)
                    self.compare(model, scratch.path, models.batch(model.config, rows, length, seed, padding))

    def test_opens_shards_and_narrow_types(self):
        for type in [torch.float32, torch.bfloat16, torch.float16]:
            config, scratch = next(iter(models.CONFIGS[FAMILY].values()))(), models.Folder()
            models.make(config, 11).to(type).save_pretrained(scratch.path, max_shard_size="20KB")
            self.assertTrue((scratch.path / "model.safetensors.index.json").exists())
            self.compare(models.load(scratch.path, dtype=torch.float32), scratch.path, models.batch(config, 2, 19, 11))

    def test_bf16_is_near(self):
        config = next(iter(models.CONFIGS[FAMILY].values()))()
        if hasattr(config, "num_experts"):
            config.num_experts_per_tok = config.num_experts  # else rounding sends a token elsewhere, a jump
        model, scratch = models.make(config, 5), models.Folder()
        model.save_pretrained(scratch.path)
        tensors = models.batch(model.config, 2, 31, 5)
        got = models.probe(scratch.path, tensors, "--precision", "bf16")
        self.assertLess(models.relative(got["logits"], models.answer(model, tensors).logits.detach()), 0.05)


if __name__ == "__main__":
    unittest.main()
