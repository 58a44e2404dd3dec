"""A tokenizer that tokenizers or transformers saved again is the same; one that makes other ids of a text is another."""
import json
import os
import unittest

import transformers
from tokenizers import Regex, Tokenizer, decoders, models as token_models, normalizers, pre_tokenizers, trainers

from models import Folder, gpt2, make, qwen2, run

TEXT = ["the cat sat on the mat, wasn't IT'S? 1234 \u00dcber U\u0308ber the other \ufb01sh", "hello world\n\n  and   more of   it"]
EXPRESSION = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDS = ["<|endoftext|>", "<|im_end|>"]
RECIPE = """
[train]
device = "cpu"
steps = 1
batch = 2
length = 8
[model]
from = "{folder}/base"
[data]
source = "prepared"
"""


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(expression=EXPRESSION, last=None):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), last or byte_level()])


def trained(kind):
    made = Tokenizer(token_models.BPE())
    made.normalizer = normalizers.NFC() if kind == "qwen2" else None
    made.pre_tokenizer = split() if kind == "qwen2" else byte_level(regex=True)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXT * 20, trainers.BpeTrainer(vocab_size=330, special_tokens=ENDS, show_progress=False,
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def as_of_old(made):
    """As files of some years ago: merges are texts, and what is as usual is left out."""
    told = json.loads(made.to_str())
    model = told["model"]
    told["model"] = {"vocab": model["vocab"], "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]}
    told["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    steps = told["pre_tokenizer"].get("pretokenizers", [told["pre_tokenizer"]])
    steps[-1]["trim_offsets"] = False
    if steps[-1]["use_regex"]:
        del steps[-1]["use_regex"]
    return json.dumps(told)


def others(kind, made):
    """Each makes something else of a text: name -> a tokenizer."""
    def changed(**parts):
        other = Tokenizer.from_str(made.to_str())
        for part, value in parts.items():
            setattr(other, part, value)
        return other

    told = json.loads(made.to_str())
    told["model"]["merges"] = told["model"]["merges"][:9]
    yield "merges", Tokenizer.from_str(json.dumps(told))
    yield "normalizer", changed(normalizer=normalizers.NFKC())
    yield "normalizers", changed(normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]))
    if kind == "qwen2":
        yield "expression", changed(pre_tokenizer=split(EXPRESSION.replace(r"[^\r\n\p{L}\p{N}]?", "")))
        yield "prefix", changed(pre_tokenizer=split(last=byte_level(prefix=True)))
        yield "regex", changed(pre_tokenizer=split(last=byte_level(regex=True)))
    else:
        yield "prefix", changed(pre_tokenizer=byte_level(prefix=True, regex=True))
        yield "regex", changed(pre_tokenizer=byte_level())


class Resaved(unittest.TestCase):
    def prepare(self, name):
        run("data", "prepare", self.path / "recipe.toml", f"--prepare.files={self.path}/text.txt", "--prepare.format=lines",
            f"--prepare.tokenizer={self.path / name}", "--prepare.validation=0.2", f"--prepare.output={self.path}/set-{name}")

    def train(self, run_name, *sets):
        paths = ",".join(f"{self.path}/set-{name}" for name in sets)
        run("train", self.path / "recipe.toml", "--run", run_name, f"--data.path={paths}")

    def begin(self, kind):
        self.folder = Folder()
        self.path = self.folder.path
        os.environ["HYPERION_RUNS"] = str(self.path / "runs")
        (self.path / "recipe.toml").write_text(RECIPE.format(folder=self.path))
        (self.path / "text.txt").write_text("\n".join(line.replace("\n", " ") for line in TEXT * 20) + "\n")
        made = trained(kind)
        config = {"gpt2": gpt2, "qwen2": qwen2}[kind](vocab_size=made.get_vocab_size())
        make(config, 3).save_pretrained(self.path / "base")
        (self.path / "base/tokenizer.json").write_text(as_of_old(made))
        kinds = {"tokenizer_class": {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer"}[kind], "eos_token": ENDS[0]}
        (self.path / "base/tokenizer_config.json").write_text(json.dumps(kinds))
        return made

    def test_by_tokenizers_and_by_transformers_it_is_the_same(self):
        for kind in ["gpt2", "qwen2"]:
            self.begin(kind)
            before = Tokenizer.from_file(str(self.path / "base/tokenizer.json"))
            for name in ["here", "there"]:
                (self.path / name).mkdir()
            before.save(str(self.path / "here/tokenizer.json"))
            transformers.AutoTokenizer.from_pretrained(self.path / "base").save_pretrained(self.path / "there")
            for name in ["base", "here", "there"]:
                read = Tokenizer.from_file(str(self.path / name / "tokenizer.json"))
                self.assertEqual([read.encode(text).ids for text in TEXT], [before.encode(text).ids for text in TEXT])
                self.prepare(name)
            texts = {(self.path / name / "tokenizer.json").read_text() for name in ["base", "here", "there"]}
            self.assertEqual(len(texts), 3, "the files do not differ")
            for name in ["base", "here", "there"]:
                self.train(name, name)
                for measured in ["base", "here", "there"]:
                    run("eval", name, "--set", f"{self.path}/set-{measured}")
            self.train("all", "base", "here", "there")

    def test_what_makes_other_ids_is_refused(self):
        for kind in ["gpt2", "qwen2"]:
            made = self.begin(kind)
            self.prepare("base")
            self.train("run", "base")
            for name, other in others(kind, made):
                self.assertNotEqual([other.encode(text).ids for text in TEXT], [made.encode(text).ids for text in TEXT], name)
                (self.path / name).mkdir()
                other.save(str(self.path / name / "tokenizer.json"))
                (self.path / name / "tokenizer_config.json").write_text((self.path / "base/tokenizer_config.json").read_text())
                self.prepare(name)
                with self.assertRaisesRegex(RuntimeError, "was not prepared with the tokenizer of model.from"):
                    self.train(name, name)
                with self.assertRaisesRegex(RuntimeError, "with another tokenizer, which is not the tokenizer of run"):
                    run("eval", "run", "--set", f"{self.path}/set-{name}")
                with self.assertRaisesRegex(RuntimeError, "different tokenizers"):
                    self.train(f"{name}-mixed", "base", name)


if __name__ == "__main__":
    unittest.main()
