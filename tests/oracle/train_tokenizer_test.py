"""A trained tokenizer.json loads in tokenizers, and is the one that tokenizers trains on the same text."""
import json
import pathlib
import tempfile
import unittest

import mixed_text
import tokenizers
import vocabularies as v
from tokenizers import pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|pad|>"]


def train_there(text, pattern, size, min_frequency):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pattern == "gpt2" else pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(v.PATTERNS[pattern]), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.train_from_iterator([text], trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, show_progress=False, special_tokens=SPECIAL,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


class TrainTokenizer(unittest.TestCase):
    def test_gives_the_vocabulary_and_merges_of_tokenizers(self):
        for seed, (pattern, size, min_frequency) in enumerate([("gpt2", 900, 0), ("gpt2", 5000, 2), ("llama3", 1500, 3), ("qwen2", 259, 2)]):
            with self.subTest(pattern=pattern, size=size), tempfile.TemporaryDirectory() as folder:
                text = mixed_text.text(mixed_text.generator(seed), 60_000, runs=50)
                path = pathlib.Path(folder) / "tokenizer.json"
                v.run("train-tokenizer", "-", "--to", path, "--vocab-size", size, "--min-frequency", min_frequency, "--pattern", pattern,
                      *[word for token in SPECIAL for word in ("--special", token)], stdin=text.encode())
                theirs = json.loads(train_there(text, pattern, size, min_frequency).to_str())["model"]
                ours = json.loads(path.read_text())["model"]
                self.assertEqual(ours["merges"], theirs["merges"])
                self.assertEqual(ours["vocab"], theirs["vocab"])
                loaded = tokenizers.Tokenizer.from_file(str(path))
                other = mixed_text.text(mixed_text.generator(50 + seed), 5000) + "<|pad|> <|endoftext|>"
                self.assertEqual(v.tokenize(path, other), loaded.encode(other).ids)


if __name__ == "__main__":
    unittest.main()
