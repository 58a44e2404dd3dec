"""Greedy tokens are those of transformers.generate, 200 of them, through the key-value cache. Usage: generate_test.py FAMILY
The models have 256 token ids and no tokenizer, so that `hyperion generate` takes and gives ids as raw bytes."""
import sys
import unittest

import models
import torch

FAMILY = sys.argv.pop(1)


class Generate(unittest.TestCase):
    def test_greedy_tokens_are_identical(self):
        for seed in range(3):
            model, scratch = models.make(models.bytes_config(FAMILY), seed), models.Folder()
            model.save_pretrained(scratch.path)
            prompts = torch.randint(0, 256, (3, 9 + 7 * seed))
            whole = model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=200, do_sample=False,
                                   eos_token_id=None, pad_token_id=0)
            self.assertGreater(len(set(whole[:, -200:].flatten().tolist())), 10, "a constant answer would show little")
            for prompt, expected in zip(prompts, whole):
                out = models.run("generate", scratch.path, "--prompt", "-", "--tokens", 200, "--device", "cpu", stdin=bytes(prompt.tolist()))
                self.assertEqual(list(out), expected.tolist() + [ord("\n")])


if __name__ == "__main__":
    unittest.main()
