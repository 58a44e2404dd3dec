"""Tokens are those of transformers.generate, 200 of them, through the key-value cache. Usage: generate_test.py FAMILY
The models have 256 token ids and no tokenizer, so that `hyperion generate` takes and gives ids as raw bytes."""
import sys
import unittest

import models
import torch

FAMILY = sys.argv.pop(1)
NEW = 200


def continued(model, prompt, **settings):
    """The prompt and what transformers continues it with."""
    ids = prompt.unsqueeze(0)
    settings = dict(max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0) | settings
    return model.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0].tolist()


def continued_together(model, prompts, **settings):
    """The same for prompts of unequal length, as one batch that is padded on the left."""
    longest = max(map(len, prompts))
    ids, mask = torch.zeros((2, len(prompts), longest), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt):] = prompt
        mask[row, longest - len(prompt):] = 1
    settings = dict(max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0) | settings
    whole = model.generate(ids, attention_mask=mask, **settings)
    return [row[longest - len(prompt):].tolist() for row, prompt in zip(whole, prompts)]


def texts(scratch, prompts, *flags):
    """What the program makes of the prompts in one call, prompts included."""
    file = scratch.path / "prompts"
    file.write_bytes(b"".join(bytes(prompt.tolist()) + b"\n" for prompt in prompts))
    out = models.run("generate", scratch.path, "--prompts", file, "--tokens", NEW, "--device", "cpu", *flags)
    found = []
    for number, prompt in enumerate(prompts, 1):
        mark = b"--- %d of %d ---\n" % (number, len(prompts)) if len(prompts) > 1 else b""
        assert out.startswith(mark)
        out = out[len(mark):]
        size = len(prompt) + NEW
        found.append(list(out[:size]))
        assert out[size:size + 1] == b"\n"
        out = out[size + 1:]
    assert out == b""
    return found


def random_prompts(lengths):
    return [torch.randint(11, 256, (length,)) for length in lengths]  # 10 would end a line


class Generate(unittest.TestCase):
    def make(self, seed, config=None):
        model, scratch = models.make(config or models.bytes_config(FAMILY), seed), models.Folder()
        model.save_pretrained(scratch.path)
        return model, scratch

    def test_greedy_tokens_are_identical(self):
        for seed in range(3):
            model, scratch = self.make(seed)
            prompts = torch.randint(0, 256, (3, 9 + 7 * seed))
            said = set()
            for prompt in prompts:
                expected = continued(model, prompt)
                said.update(expected[-NEW:])
                out = models.run("generate", scratch.path, "--prompt", "-", "--tokens", NEW, "--device", "cpu", stdin=bytes(prompt.tolist()))
                self.assertEqual(list(out), expected + [ord("\n")])
            self.assertGreater(len(said), 10, "a constant answer would show little")

    def test_greedy_tokens_of_a_batch_are_identical(self):
        for seed, lengths in enumerate([(5, 5, 5), (1, 33, 8, 20), (40, 2)]):
            model, scratch = self.make(seed)
            prompts = random_prompts(lengths)
            found = texts(scratch, prompts)
            self.assertEqual(found, continued_together(model, prompts))
            self.assertEqual(found, [continued(model, prompt) for prompt in prompts])

    def test_greedy_tokens_beyond_a_window_or_the_context_are_identical(self):
        config = models.long_config(FAMILY)
        if config is None:
            self.skipTest("it has neither windows nor a context that is stretched")
        for seed, lengths in enumerate([(33,), (1, 40, 8, 20)]):
            model, scratch = self.make(seed, config)
            prompts = random_prompts(lengths)
            self.assertEqual(texts(scratch, prompts), continued_together(model, prompts))

    def test_greedy_tokens_with_a_repetition_penalty_are_identical(self):
        model, scratch = self.make(7)
        prompts = random_prompts((4, 30, 17))
        found = texts(scratch, prompts, "--repetition-penalty", 1.3)
        # One by one: in a padded batch transformers takes the padding's id as said already.
        self.assertEqual(found, [continued(model, prompt, repetition_penalty=1.3) for prompt in prompts])
        self.assertNotEqual(found, texts(scratch, prompts))

    def test_every_sampled_token_is_one_transformers_would_allow(self):
        settings = dict(temperature=0.7, top_k=7, top_p=0.8, repetition_penalty=1.2)
        model, scratch = self.make(9)
        prompts = random_prompts((6, 21))
        flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
        processors = model._get_logits_processor(
            model._prepare_generation_config(None, do_sample=True, **settings)[0], input_ids_seq_length=1)
        for prompt, found in zip(prompts, texts(scratch, prompts, *flags)):
            ids = torch.tensor([found])
            with torch.no_grad():
                logits = model(ids).logits[0]
            surprises = 0
            for place in range(len(prompt), len(found)):
                scores = processors(ids[:, :place], logits[place - 1:place])[0]
                self.assertGreater(scores[found[place]].item(), float("-inf"), place)
                surprises += found[place] != scores.argmax().item()
            self.assertGreater(surprises, 10, "the likeliest alone would show little")


if __name__ == "__main__":
    unittest.main()
