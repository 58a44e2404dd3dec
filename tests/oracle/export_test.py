"""An exported folder loads in transformers without a warning and gives the same logits; sent there and back, the same bits.
Usage: export_test.py FAMILY"""
import sys
import unittest
import warnings

import models
import torch
import transformers
from safetensors.torch import load_file

FAMILY = sys.argv.pop(1)


def load_strictly(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, loading = models.load(folder, output_loading_info=True)
    return model, {kind: names for kind, names in loading.items() if names}


class Export(unittest.TestCase):
    def setUp(self):
        self.records = []
        transformers.logging.set_verbosity_warning()
        log = transformers.logging.get_logger()
        handler = models.Recorder(self.records)
        log.addHandler(handler)
        self.addCleanup(log.removeHandler, handler)

    def test_loads_there_with_the_same_logits_and_comes_back_with_the_same_bits(self):
        for name, config in models.CONFIGS[FAMILY].items():
            for dtype in [torch.float32, torch.bfloat16]:
                with self.subTest(config=name, dtype=dtype):
                    scratch = models.Folder()
                    models.make(config(), 3).to(dtype).save_pretrained(scratch.path / "theirs")
                    model = models.load(scratch.path / "theirs")
                    self.records.clear()
                    models.run("export", scratch.path / "theirs", "--to", scratch.path / "ours")
                    loaded, complaints = load_strictly(scratch.path / "ours")
                    self.assertEqual((complaints, self.records), ({}, []))
                    self.assertEqual((loaded.__class__, loaded.dtype), (model.__class__, dtype))
                    tensors = models.batch(model.config, 2, 21, 3)
                    self.assertTrue(torch.equal(models.answer(loaded, tensors).logits, models.answer(model, tensors).logits))
                    loaded.save_pretrained(scratch.path / "again")
                    models.run("export", scratch.path / "again", "--to", scratch.path / "back")
                    self.same_bits(scratch.path / "ours", scratch.path / "back")
                    self.same_bits(scratch.path / "theirs", scratch.path / "back")

    def same_bits(self, one, other):
        a, b = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
        self.assertEqual(set(a), set(b))
        for name in a:
            self.assertEqual(a[name].dtype, b[name].dtype)
            self.assertTrue(torch.equal(a[name], b[name]), name)


if __name__ == "__main__":
    unittest.main()
