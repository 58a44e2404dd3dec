"""What `hyperion fetch` leaves in the cache is opened by transformers with the network off, and counted by huggingface_hub as its own."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

import models
import tokenizers
import transformers

SERVER = pathlib.Path(__file__).parent.parent / "end_to_end" / "hub_server.py"
READER = """
import sys, transformers, huggingface_hub
config = transformers.AutoConfig.from_pretrained("tiny/model")
model = transformers.AutoModelForCausalLM.from_pretrained("tiny/model")
tokenizer = transformers.AutoTokenizer.from_pretrained("tiny/model")
found = huggingface_hub.scan_cache_dir()
assert not found.warnings, found.warnings
(repo,) = found.repos
(revision,) = repo.revisions
assert repo.repo_id == "tiny/model" and revision.refs == {"main"}, repo
assert sorted(file.file_name for file in revision.files) == sys.argv[1].split(","), revision.files
print(config.n_embd, model.num_parameters(), tokenizer("a b a")["input_ids"], model.lm_head.weight.sum().item())
"""


def make_tokenizer():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?")


class Fetch(unittest.TestCase):
    def setUp(self):
        self.scratch = models.Folder()
        self.hub = self.scratch.path / "hub"
        self.repo = self.hub / "models" / "tiny" / "model"
        self.repo.mkdir(parents=True)
        server = subprocess.Popen([sys.executable, SERVER, self.hub])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        while not (self.hub / "ports").exists():
            self.assertIsNone(server.poll())
            time.sleep(0.01)
        port = (self.hub / "ports").read_text().split()[0]
        cache = {"HF_HOME": str(self.scratch.path / "home"), "HF_TOKEN": ""}
        self.online = {**os.environ, **cache, "HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HUB_OFFLINE": "", "no_proxy": "*"}
        self.offline = {**os.environ, **cache, "HF_HUB_OFFLINE": "1"}

    def read_back(self, names):
        subprocess.run([models.PROGRAM, "fetch", "tiny/model"], env=self.online, check=True, capture_output=True)
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", READER, ",".join(sorted(names))], env=self.offline,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[-2]

    def test_model_and_tokenizer_open_from_the_cache(self):
        for shards in ["1GB", "60KB"]:
            with self.subTest(shards=shards):
                self.online["HF_HUB_CACHE"] = self.offline["HF_HUB_CACHE"] = str(self.scratch.path / shards)
                model = models.make(models.gpt2(), 3)
                for path in self.repo.iterdir():
                    path.unlink()
                model.save_pretrained(self.repo, max_shard_size=shards)
                make_tokenizer().save_pretrained(self.repo)
                names = [path.name for path in self.repo.iterdir()]
                self.assertEqual("model.safetensors" in names, shards == "1GB", names)
                expected = f"36 {model.num_parameters()} [0, 1, 0] {model.lm_head.weight.sum().item()}"
                self.assertEqual(self.read_back(names), expected)


if __name__ == "__main__":
    unittest.main()
