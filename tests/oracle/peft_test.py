"""Adapters of the real peft here, and ours there: the same logits and gradients; merged or not."""
import json
import os
import random
import sys
import unittest
import warnings

import peft
import torch

from models import Folder, batch, bytes_config, gpt2, llama, load, make, mistral, probe, qwen2, qwen2_moe, qwen3, relative, run

FAMILY = sys.argv.pop(1)
CONFIG = {"gpt2": gpt2, "llama": llama, "qwen2": qwen2, "mistral": mistral, "qwen2_moe": qwen2_moe, "qwen3": qwen3}[FAMILY]
NAMES = {"gpt2": ["c_attn", "c_fc"]}.get(FAMILY, ["q_proj", "down_proj"])
TRAINED = {"qwen2_moe": ["q_proj", "shared_expert.down_proj"]}.get(FAMILY, NAMES)  # here, names are those of routed experts too
NORMS = {"gpt2": "_1"}.get(FAMILY, "norm")  # PEFT asks only how a name ends: input_layernorm, q_norm
REGEX = {"gpt2": r".*h\.[02]\.(attn|mlp)\.c_proj"}.get(FAMILY, r".*layers\.[02]\.(self_attn\.[vo]_proj|mlp\.up_proj)")
# PEFT sorts patterns when it writes them, and takes the first that fits: a "." comes before letters.
DOWN = {"gpt2": "mlp.c_fc", "qwen2_moe": "mlp.shared_expert.down_proj"}.get(FAMILY, "mlp.down_proj")
INNER = f".*{'h' if FAMILY == 'gpt2' else 'layers'}.1.{DOWN}"
LAST = f"{'h' if FAMILY == 'gpt2' else 'layers'}.2.{DOWN}"
ADAPTERS = {
    "names": dict(r=4, lora_alpha=7, target_modules=NAMES),
    "rank_stabilised_of_all": dict(r=16, lora_alpha=3, use_rslora=True, target_modules="all-linear", lora_dropout=0.3),
    "expression": dict(r=1, lora_alpha=2, target_modules=REGEX),
    "patterns": dict(r=4, lora_alpha=8, target_modules=NAMES, exclude_modules=[LAST],
                     rank_pattern={INNER: 2, NAMES[1]: 6}, alpha_pattern={"^.*" + NAMES[0]: 3}),
    "norms_beside_it": dict(r=2, lora_alpha=5, target_modules=NAMES, modules_to_save=[NORMS, "no_such_module"]),
    "tokens_in_a_list": dict(r=2, lora_alpha=5, target_modules=NAMES, trainable_token_indices=[3, 7]),
}
if FAMILY != "gpt2":
    ADAPTERS["with_the_output"] = dict(r=3, lora_alpha=6, target_modules=["lm_head", "k_proj"])
RECIPE = """
[train]
device = "cpu"
batch = {rows}
accumulate = 2
length = {length}
[model]
from = "{folder}/base"
[lora]
rank = 4
alpha = 12
targets = "{targets}"
[data]
source = "text"
path = "{folder}/text"
[optim]
lr = 0.01
schedule = "linear"
warmup = 3
weight_decay = 0.5
[eval]
every = 10
batches = 1
"""


def adapted(settings, seed):
    """A model of transformers with an adapter that does something, and the folders of both."""
    folder = Folder()
    make(CONFIG(), seed).save_pretrained(folder.path / "base")
    base = load(folder.path / "base").eval()
    torch.manual_seed(seed)
    fan = FAMILY == "gpt2"
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", fan_in_fan_out=fan, **settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_" in name:
                parameter.copy_(0.3 * torch.randn_like(parameter))
            elif parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder.path / "adapter")
    return folder, model


def each_adapter(test):
    """Runs a test on every adapter, each a subtest."""
    def run_all(self):
        for seed, (name, settings) in enumerate(ADAPTERS.items()):
            with self.subTest(adapter=name):
                test(self, *adapted(settings, seed), seed)
    return run_all


class Peft(unittest.TestCase):
    @each_adapter
    def test_gives_the_same_logits_and_gradients(self, folder, model, seed):
        tensors = batch(model.config, 2, 11, seed, "left")
        expected = model(**tensors)
        expected.loss.backward()
        got = probe(folder.path / "base", tensors, "--adapter", folder.path / "adapter", "--grads")
        seen = tensors["attention_mask"] == 1
        self.assertLess((got.pop("logits") - expected.logits)[seen].abs().max().item(), 1e-4)
        self.assertAlmostEqual(got.pop("loss").item(), expected.loss.item(), delta=1e-4)
        names = {name.replace(".modules_to_save.default", "").replace(".default", ""): p for name, p in model.named_parameters() if p.requires_grad}
        self.assertEqual(set(got), set(names))
        for name, parameter in names.items():
            self.assertLess(relative(got[name], parameter.grad), 1e-4, name)

    @each_adapter
    def test_reads_an_adapter_written_here_without_a_warning(self, folder, model, seed):
        run("export", folder.path / "base", "--adapter", folder.path / "adapter", "--as-adapter", "--to", folder.path / "ours")
        self.assertEqual(json.loads((folder.path / "ours/adapter_config.json").read_text())["base_model_name_or_path"],
                         str(folder.path / "base"))
        ids = batch(model.config, 2, 9, seed)["input_ids"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = peft.PeftModel.from_pretrained(load(folder.path / "base").eval(), folder.path / "ours").eval()
        with torch.no_grad():
            self.assertTrue(torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits))

    @each_adapter
    def test_merged_equals_unmerged(self, folder, model, seed):
        run("export", folder.path / "base", "--adapter", folder.path / "adapter", "--to", folder.path / "merged")
        tensors = {"input_ids": batch(model.config, 2, 9, seed)["input_ids"]}
        unmerged = probe(folder.path / "base", tensors, "--adapter", folder.path / "adapter")["logits"]
        merged = probe(folder.path / "merged", tensors)["logits"]
        self.assertLess(relative(merged, unmerged), 1e-5)
        with torch.no_grad():
            there = load(folder.path / "merged").eval()(**tensors).logits
        self.assertLess((there - model.merge_and_unload()(**tensors).logits).abs().max().item(), 1e-4)

    def test_norms_trained_whole_go_both_ways(self):
        folder, model = adapted(ADAPTERS["norms_beside_it"], 5)
        self.assertGreater(sum(".modules_to_save." in name for name, _ in model.named_parameters()), 2)
        tensors = {"input_ids": batch(model.config, 2, 9, 5)["input_ids"]}
        with torch.no_grad():
            theirs = model(**tensors).logits
        ours = probe(folder.path / "base", tensors, "--adapter", folder.path / "adapter")["logits"]
        self.assertLess((ours - theirs).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))

        os.environ["HYPERION_RUNS"] = str(folder.path / "runs")
        make(bytes_config(FAMILY), 6).save_pretrained(folder.path / "base")
        (folder.path / "text").write_bytes(bytes(random.Random(4).choices(range(32, 127), k=3000)))
        recipe = folder.path / "recipe.toml"
        recipe.write_text(RECIPE.format(folder=folder.path, length=12, rows=4, targets=",".join(TRAINED)))
        run("train", recipe, "--run", "norms", "--steps", 5, f"--lora.modules_to_save={NORMS}", "--optim.lr=0.05", "--optim.warmup=0")
        run("export", "norms", "--as-adapter", "--to", folder.path / "ours")
        base = load(folder.path / "base").eval()
        with torch.no_grad():
            before = base(**tensors).logits
            theirs = peft.PeftModel.from_pretrained(base, folder.path / "ours").eval()(**tensors).logits
        ours = probe("norms", tensors)["logits"]
        self.assertLess((ours - theirs).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))
        self.assertGreater((before - theirs).abs().max().item(), 0.1)

    def test_ten_steps_lose_the_same(self):
        """From a start written here; the text repeats every `length` bytes, so that all samples are the same."""
        folder, length, rows = Folder(), 24, 6
        os.environ["HYPERION_RUNS"] = str(folder.path / "runs")
        config = bytes_config(FAMILY)
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):  # GPT-2's, whose random numbers are not ours
            if hasattr(config, name):
                setattr(config, name, 0.0)
        make(config, 3).save_pretrained(folder.path / "base")
        text = bytes(random.Random(4).choices(range(32, 127), k=length))
        (folder.path / "text").write_bytes(text * 200)
        recipe = folder.path / "recipe.toml"
        recipe.write_text(RECIPE.format(folder=folder.path, length=length, rows=rows, targets=",".join(TRAINED)))
        run("train", recipe, "--run", "start", "--steps", 1, "--optim.lr=0", "--optim.warmup=0")
        run("export", "start", "--as-adapter", "--to", folder.path / "start")
        run("train", recipe, "--run", "ten", "--steps", 10)
        lines = (folder.path / "runs/ten/metrics.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if "split" not in record]
        self.assertEqual(len(records), 10)
        model = peft.PeftModel.from_pretrained(load(folder.path / "base"), folder.path / "start", is_trainable=True).train()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.5)
        ids = torch.tensor(list(text + text[:1])).expand(rows, -1)
        for record in records:
            logits = model(input_ids=ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            self.assertAlmostEqual(record["loss"], loss.item(), delta=1e-4, msg=f"step {record['step']}")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.param_groups[0]["lr"] = record["lr"]
            optimizer.step()
        self.assertLess(records[-1]["loss"], records[0]["loss"] - 0.1)


if __name__ == "__main__":
    unittest.main()
