"""Small models of transformers with odd shapes and random weights, and the program here run on the folders they save."""
import logging
import os
import pathlib
import subprocess
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors.torch import load_file, save_file

PROGRAM = os.environ["HYPERION_PROGRAM"]
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)


def gpt2(**changes):
    settings = dict(vocab_size=97, n_positions=41, n_embd=36, n_layer=3, n_head=3, initializer_range=0.15,
                    bos_token_id=None, eos_token_id=None)
    return transformers.GPT2Config(**{**settings, **changes})


def decoder(kind, **changes):
    settings = dict(vocab_size=89, max_position_embeddings=64, hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=6,
                    num_key_value_heads=2, initializer_range=0.15, bos_token_id=None, eos_token_id=None)
    return kind(**{**settings, **changes})


def llama(**changes):
    return decoder(transformers.LlamaConfig, **changes)


def qwen2(**changes):
    return decoder(transformers.Qwen2Config, **changes)


LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}
# With heads 16 wide, waves of 6, 32 and 167 tokens and more: one kept, one blended, the others slowed.
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 100}

# name -> a config; each has something the others have not.
CONFIGS = {
    "gpt2": {
        "plain": lambda: gpt2(),
        "inner_and_epsilon": lambda: gpt2(vocab_size=301, n_inner=50, layer_norm_epsilon=1e-3, n_layer=1),
        "untied": lambda: gpt2(tie_word_embeddings=False, n_head=1, n_embd=20, n_layer=5),
    },
    "llama": {
        "grouped": lambda: llama(),
        "every_head_its_own_keys_and_biases": lambda: llama(num_key_value_heads=6, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3),
        "one_key_head_and_tied": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True, vocab_size=301),
        "llama3_scaling_and_wide_heads": lambda: llama(rope_parameters=LLAMA3, head_dim=16, max_position_embeddings=200),
        "linear_scaling": lambda: llama(rope_parameters=LINEAR, num_hidden_layers=1),
    },
    "qwen2": {
        "grouped": lambda: qwen2(),
        "tied_and_far_theta": lambda: qwen2(tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
        "one_key_head": lambda: qwen2(num_key_value_heads=1, num_attention_heads=3, vocab_size=301, num_hidden_layers=2),
    },
}


def bytes_config(family):
    """A config of this family whose tokens can be bytes, with room for 240 of them."""
    size = dict(vocab_size=256, max_position_embeddings=240, initializer_range=0.3)
    return {
        "gpt2": lambda: gpt2(vocab_size=256, n_positions=240, initializer_range=0.3),
        "llama": lambda: llama(**size, rope_parameters=LLAMA3),
        "qwen2": lambda: qwen2(**size, tie_word_embeddings=True),
    }[family]()


def make(config, seed):
    """Every parameter random: transformers starts biases at 0 and norms at 1, which would hide a mistake in them."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def load(folder, **options):
    """As transformers loads it: a model cast in place would have its rotary frequencies rounded too."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options)


class Folder:
    """A folder of the test's own that lives as long as the object."""

    def __init__(self):
        self._holder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._holder.name)

    def __del__(self):
        self._holder.cleanup()


def run(*arguments, stdin=b""):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"hyperion {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def probe(model_folder, tensors, *flags):
    """`hyperion probe` on these tensors; gives what it wrote."""
    scratch = Folder()
    save_file(tensors, scratch.path / "in.safetensors")
    run("probe", model_folder, "--input", scratch.path / "in.safetensors", "--output", scratch.path / "out.safetensors", *flags)
    return load_file(scratch.path / "out.safetensors")


def relative(value, reference):
    return ((value - reference).norm() / reference.norm().clamp_min(1e-30)).item()


def batch(config, rows, length, seed, padding=None):
    """Random ids and labels; with padding "left", "middle" or "right" also a mask that leaves each row another number of tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (rows, length), generator=generator)
    labels = ids.clone()
    labels[torch.rand(labels.shape, generator=generator) < 0.1] = -100
    tensors = {"input_ids": ids, "labels": labels}
    if padding:
        mask = torch.ones_like(ids)
        for row in range(rows):
            empty = (3 * row + 1) % (length // 2)
            first = {"left": 0, "middle": 2, "right": length - empty}[padding]
            mask[row, first:first + empty] = 0
        labels[mask == 0] = -100
        tensors["attention_mask"] = mask
    return tensors


class Recorder(logging.Handler):
    """Keeps what transformers logs."""

    def __init__(self, records):
        super().__init__(logging.WARNING)
        self.records = records

    def emit(self, record):
        self.records.append(record.getMessage())
