"""A model of transformers learns tokens that it does not have: whole and by an adapter, here and in peft."""
import json
import os
import sys
import unittest

import peft
import torch
import transformers
from tokenizers import Tokenizer, models as token_models, pre_tokenizers

from models import Folder, gpt2, llama, load, make, probe, qwen2, run

FAMILY = sys.argv.pop(1)
STILL = dict(embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)  # what is dropped depends on the parts of a batch
CONFIG = {"gpt2": lambda **changes: gpt2(**STILL, **changes), "llama": llama, "qwen2": qwen2}[FAMILY]
TABLE = {"gpt2": "wte"}.get(FAMILY, "embed_tokens")
NEW = ["<|user|>", "<|answer|>", "<|end|>"]
WORDS = [f"w{i}" for i in range(40)]
RECIPE = """
[train]
device = "cpu"
steps = {steps}
batch = 4
length = 16
[model]
from = "{folder}/base"
[data]
source = "prepared"
path = "{folder}/set"
[optim]
lr = 0.02
warmup = 0
"""
LORA = '[lora]\nrank = 3\nalpha = 12\n'


def tokenizer(extra=()):
    words = {word: i for i, word in enumerate(["<unk>", *WORDS])}
    made = Tokenizer(token_models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens([*extra])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


class Trained:
    def __init__(self, tied, extra="", steps=4, ranks=1, flags=(), end=None, generation=None, new=NEW, rows=41):
        self.folder = Folder()
        self.path = self.folder.path
        self.rows = max(44, rows)
        model = make(CONFIG(vocab_size=rows, tie_word_embeddings=tied, bos_token_id=3, eos_token_id=4), 3)
        model.generation_config.update(**(generation or {}))
        model.save_pretrained(self.path / "base")
        tokenizer().save_pretrained(self.path / "base")
        tokenizer(new).save_pretrained(self.path / "tokenizer")
        generator = torch.Generator().manual_seed(1)
        lines = []
        for _ in range(60):
            words = [WORDS[i] for i in torch.randint(0, 40, (6,), generator=generator)]
            lines.append(" ".join([NEW[0], *words[:3], NEW[1], *words[3:], NEW[2]] if new else words))
        (self.path / "text.txt").write_text("\n".join(lines) + "\n")
        (self.path / "recipe.toml").write_text(RECIPE.format(folder=self.path, steps=steps) + extra)
        os.environ["HYPERION_RUNS"] = str(self.path / "runs")
        run("data", "prepare", self.path / "recipe.toml", f"--prepare.files={self.path}/text.txt", "--prepare.format=lines",
            f"--prepare.tokenizer={self.path}/tokenizer", f"--prepare.end={'' if end is None else [*WORDS, *NEW][end - 1]}", "--prepare.validation=0.2", f"--prepare.output={self.path}/set")
        launch = ("launch", "-n", ranks, "--logs", self.path / "logs", "--") if ranks > 1 else ()
        run(*launch, "train", self.path / "recipe.toml", "--run", "run", *flags)

    def losses(self):
        lines = (self.path / "runs/run/metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss" in line]

    def ids(self):
        return {"input_ids": torch.randint(0, 44, (3, 9), generator=torch.Generator().manual_seed(2))}

    def export(self, name, *flags):
        said = run("export", "run", "--to", self.path / name, *flags).decode()
        assert said == f"{self.path / name}: {', '.join(sorted(os.listdir(self.path / name)))}\n", said
        return self.path / name


def same(self, there, trained):
    with torch.no_grad():
        theirs = there.eval()(**trained.ids()).logits
    ours = probe("run", trained.ids())["logits"]
    self.assertEqual(ours.shape[-1], trained.rows)
    self.assertLess((theirs - ours).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))


def tables(model):
    return [model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()]


SPARE = [42, 47]  # rows of a base that knows 41 tokens: of the three that are new, one or all lie in them


class NewTokens(unittest.TestCase):
    def test_all_of_the_model_learns_them(self):
        for tied in [True, False]:
            trained = Trained(tied)
            folder = trained.export("exported")
            same(self, load(folder), trained)
            config = json.loads((folder / "config.json").read_text())
            self.assertEqual((config["bos_token_id"], config["eos_token_id"]), (3, 4))

    def test_they_begin_near_the_mean_of_the_others(self):
        trained = Trained(False, steps=1, flags=("--optim.lr=0",))
        for before, after in zip(tables(load(trained.path / "base")), tables(load(trained.export("exported")))):
            self.assertTrue(torch.equal(before, after[:41]))
            self.assertLess((after[41:] - before.mean(0)).abs().max().item(), 0.01 * before.std().item())
            self.assertFalse(torch.equal(after[41], after[42]))

    def test_an_adapter_learns_them_and_nothing_else_of_the_tables(self):
        for tied in [True, False]:
            trained = Trained(tied, LORA)
            merged = load(trained.export("merged"))
            same(self, merged, trained)
            # AutoTokenizer would put a byte-level Qwen2Tokenizer in the place of words, in the base's folder too
            read = transformers.PreTrainedTokenizerFast.from_pretrained(trained.path / "merged")
            self.assertEqual(read.encode(" ".join([NEW[2], WORDS[0]])), [43, 1])
            for before, after in zip(tables(load(trained.path / "base")), tables(merged)):
                self.assertTrue(torch.equal(before, after[:41]))
                for row in after[41:]:
                    self.assertGreater((row - before.mean(0)).abs().max().item(), 0.01)
            adapter = trained.export("adapter", "--as-adapter")
            grown = load(trained.path / "base")
            grown.resize_token_embeddings(44, mean_resizing=False)
            there = peft.PeftModel.from_pretrained(grown, adapter)
            same(self, there, trained)
            there.save_pretrained(trained.path / "theirs")
            back = probe(trained.path / "base", trained.ids(), "--adapter", trained.path / "theirs")["logits"]
            self.assertLess((back - probe("run", trained.ids())["logits"]).abs().max().item(), 1e-6)
            asked = ("--prompt", " ".join([NEW[0], WORDS[0]]), "--tokens", "6", "--temperature", "0")
            self.assertEqual(run("generate", trained.path / "base", "--adapter", adapter, *asked), run("generate", "run", *asked))

    def test_they_begin_near_the_mean_in_rows_that_the_base_has_to_spare(self):
        for rows in SPARE:
            for extra in ["", LORA, LORA + f'modules_to_save = "{TABLE}"\n']:
                for flags in [(), ("--zero", "3")]:
                    trained = Trained(False, extra, steps=1, flags=("--optim.lr=0", *flags), rows=rows)
                    for before, after in zip(tables(load(trained.path / "base")), tables(load(trained.export("exported")))):
                        others = [i for i in range(rows) if i not in [41, 42, 43]]
                        self.assertTrue(torch.equal(before[others], after[others]))
                        self.assertLess((after[41:44] - before[others].mean(0)).abs().max().item(), 0.01 * before.std().item())
                        self.assertFalse(torch.equal(after[41], after[42]))

    def test_an_adapter_learns_them_in_rows_that_the_base_has_to_spare(self):
        for tied in [True, False]:
            for rows in SPARE:
                trained = Trained(tied, LORA, rows=rows)
                merged = load(trained.export("merged"))
                same(self, merged, trained)
                for before, after in zip(tables(load(trained.path / "base")), tables(merged)):
                    others = [i for i in range(rows) if i not in [41, 42, 43]]
                    self.assertTrue(torch.equal(before[others], after[others]))
                    for row in after[41:44]:
                        self.assertGreater((row - before[others].mean(0)).abs().max().item(), 0.01)
                adapter = trained.export("adapter", "--as-adapter")
                settings = json.loads((adapter / "adapter_config.json").read_text())
                self.assertEqual(settings["trainable_token_indices"], {name: [41, 42, 43] for name in [TABLE] + ["lm_head"] * (not tied)})
                base = load(trained.path / "base")
                if rows < 44:
                    base.resize_token_embeddings(44, mean_resizing=False)
                there = peft.PeftModel.from_pretrained(base, adapter)
                same(self, there, trained)
                there.save_pretrained(trained.path / "theirs")
                for folder in [adapter, trained.path / "theirs"]:
                    back = probe(trained.path / "base", trained.ids(), "--adapter", folder)["logits"]
                    self.assertLess((back - probe("run", trained.ids())["logits"]).abs().max().item(), 1e-6)
                asked = ("--prompt", " ".join([NEW[0], WORDS[0]]), "--tokens", "6", "--temperature", "0")
                self.assertEqual(run("generate", trained.path / "base", "--adapter", adapter, *asked), run("generate", "run", *asked))

    def test_spare_rows_of_no_token_stay_as_they_are(self):
        trained = Trained(True, LORA, steps=1, new=(), rows=64)
        adapter = trained.export("adapter", "--as-adapter")
        self.assertIsNone(json.loads((adapter / "adapter_config.json").read_text())["trainable_token_indices"])
        self.assertTrue(torch.equal(tables(load(trained.path / "base"))[0], tables(load(trained.export("merged")))[0]))

    def test_a_table_trained_whole_beside_an_adapter_holds_them(self):
        for tied, saved in [(True, [TABLE]), (True, [TABLE, "lm_head"]), (False, [TABLE]), (False, ["lm_head"]), (False, [TABLE, "lm_head"])]:
            trained = Trained(tied, LORA + f'modules_to_save = "{",".join(saved)}"\n')
            adapter = trained.export("adapter", "--as-adapter")
            settings = json.loads((adapter / "adapter_config.json").read_text())
            rows = {} if tied else {name: [41, 42, 43] for name in [TABLE, "lm_head"] if name not in saved}
            self.assertEqual(settings["trainable_token_indices"] or {}, rows)
            self.assertEqual(settings["modules_to_save"], [TABLE, "lm_head"] if tied else saved)
            base = load(trained.path / "base")
            base.resize_token_embeddings(44, mean_resizing=False)
            there = peft.PeftModel.from_pretrained(base, adapter)
            same(self, there, trained)
            there.save_pretrained(trained.path / "theirs")
            asked = ("--prompt", " ".join([NEW[0], WORDS[0]]), "--tokens", "6", "--temperature", "0")
            for folder in [adapter, trained.path / "theirs"]:
                back = probe(trained.path / "base", trained.ids(), "--adapter", folder)["logits"]
                self.assertLess((back - probe("run", trained.ids())["logits"]).abs().max().item(), 1e-6)
            self.assertEqual(run("generate", trained.path / "base", "--adapter", adapter, *asked), run("generate", "run", *asked))
            run("export", trained.path / "base", "--adapter", adapter, "--to", trained.path / "merged")
            same(self, load(trained.path / "merged"), trained)

    def test_an_export_keeps_how_the_base_makes_texts(self):
        for extra, end in [("", None), (LORA, None), ("", 4), (LORA, 4), ("", 43), (LORA, 43)]:
            trained = Trained(True, extra, steps=1, end=end, generation=dict(temperature=0.7, top_p=0.8, do_sample=True, eos_token_id=[4, 5]))
            before = json.loads((trained.path / "base/generation_config.json").read_text())
            if end == 43:
                before["eos_token_id"] = 43
            exported = trained.export("exported")
            if extra:
                run("export", trained.path / "base", "--adapter", trained.export("adapter", "--as-adapter"), "--to", trained.path / "merged")
                if end == 43:
                    self.assertEqual(json.loads((trained.path / "merged/generation_config.json").read_text()), before)
                else:
                    self.assertEqual((trained.path / "merged/generation_config.json").read_bytes(),
                                     (trained.path / "base/generation_config.json").read_bytes())
            self.assertEqual(json.loads((exported / "generation_config.json").read_text()), before)

    def test_another_end_of_texts_is_kept_with_the_tokens_that_are_there(self):
        for extra in ["", LORA]:
            trained = Trained(True, extra, steps=1, end=7, new=(), generation=dict(temperature=0.7, do_sample=True, eos_token_id=[4, 5]))
            folders = [trained.export("exported")]
            if extra:
                run("export", trained.path / "base", "--adapter", trained.export("adapter", "--as-adapter"), "--to", trained.path / "merged")
                folders.append(trained.path / "merged")
            for folder in folders:
                told = json.loads((folder / "generation_config.json").read_text())
                self.assertEqual((told["eos_token_id"], told["temperature"]), (7, 0.7), folder)

    def test_a_run_is_measured_as_it_was_trained_and_goes_on(self):
        whole = LORA + f'modules_to_save = "{TABLE}"\n'
        ways = [("", (), 41), (LORA, (), 41), (LORA, ("--model.quantize=nf4",), 41), (whole, (), 41),
                ("", (), 47), (LORA, (), 47), (LORA, ("--model.quantize=nf4", "--zero=3"), 47), (whole, (), 47)]
        for extra, flags, rows in ways:
            trained = Trained(False, extra, flags=flags, rows=rows)
            for steps in ["4", "6"]:
                run("resume", "run", "--steps", steps)
                self.assertEqual(json.loads(run("eval", "run", "--json"))["loss"], trained.losses()[-1])

    def test_two_ranks_train_as_one(self):
        for extra, rows in [("", 41), (LORA, 41), (LORA + f'modules_to_save = "{TABLE}"\n', 41), ("", 47), (LORA, 47)]:
            for flags in [(), ("--zero", "3")]:
                one, two = Trained(True, extra, rows=rows).losses(), Trained(True, extra, ranks=2, flags=flags, rows=rows).losses()
                self.assertEqual(len(one), len(two))
                for a, b in zip(one, two):
                    self.assertLess(abs(a - b), 1e-5 * a)


if __name__ == "__main__":
    unittest.main()
