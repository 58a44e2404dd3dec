"""`checkpoint gather` of a run on two processes, read by PyPI's safetensors: every tensor is what the shards' slices make of it."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import load_file

PROGRAM = os.environ["HYPERION_PROGRAM"]
RECIPE = """[train]
steps = 4
batch = 4
length = 16
[model]
layers = 1
heads = 2
width = 16
context = 16
[data]
digits = 2
[eval]
every = 0
[parallel]
zero = 2
"""


def put_together(step):
    """Every tensor of the checkpoint, from all its shards, by the format's page alone."""
    flat, whole = {}, {}
    for shard in sorted(step.glob("shard-*.safetensors")):
        with safe_open(shard, "pt") as file:
            said = file.metadata() or {}
            for name in file.keys():
                if name not in said:
                    whole[name] = file.get_tensor(name)
                    continue
                slice_ = json.loads(said[name])
                part = file.get_tensor(name)
                full = flat.setdefault(slice_["of"], torch.zeros(torch.Size(slice_["shape"]).numel(), dtype=part.dtype))
                full[slice_["begin"]:slice_["begin"] + part.numel()] = part
                whole[slice_["of"]] = full.view(slice_["shape"])
    return whole


class Gather(unittest.TestCase):
    def test_one_file_holds_what_all_shards_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "tiny.toml").write_text(RECIPE)
            environment = os.environ | {"HYPERION_RUNS": str(folder / "runs"), "HYPERION_TRAIN__DEVICE": "cpu"}

            def run(*words):
                return subprocess.run([PROGRAM, *map(str, words)], env=environment, check=True, capture_output=True, text=True).stdout

            run("launch", "-n", 2, "--", "train", folder / "tiny.toml", "--run", "two")
            expected = put_together(folder / "runs/two/checkpoints/step-4")
            self.assertGreater(len(expected), 20)
            for optimizer in ([], ["--optimizer"]):
                file = folder / "one.safetensors"
                run("checkpoint", "gather", "two@4", "--output", file, *optimizer)
                found = load_file(file)
                wanted = {name.removeprefix("model."): tensor for name, tensor in expected.items() if optimizer or name.startswith("model.")}
                self.assertEqual(set(found), set(wanted))
                for name, tensor in wanted.items():
                    self.assertTrue(torch.equal(found[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
