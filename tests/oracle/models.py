"""Small models of transformers with odd shapes and random weights, and the program here run on the folders they save."""
import logging
import os
import pathlib
import subprocess
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

PROGRAM = os.environ["HYPERION_PROGRAM"]
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
PLAIN = {"experts_implementation": "eager"}  # its grouped product takes only widths that are multiples of 16 bytes


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


def mistral(**changes):
    return decoder(transformers.MistralConfig, **{**dict(sliding_window=None), **changes})


def qwen3(**changes):
    return decoder(transformers.Qwen3Config, **{**dict(head_dim=10), **changes})


def mixtral(**changes):
    return decoder(transformers.MixtralConfig, **{**dict(num_local_experts=5, router_aux_loss_coef=0.3), **changes})


def qwen2_moe(**changes):
    settings = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=22, shared_expert_intermediate_size=30, router_aux_loss_coef=0.3)
    return decoder(transformers.Qwen2MoeConfig, **{**settings, **changes})


def vit(**changes):
    settings = dict(hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50, image_size=32, patch_size=8, num_labels=11,
                    initializer_range=0.15)
    return transformers.ViTConfig(**{**settings, **changes})


def resnet(**changes):
    """Narrow, with the layers of ResNet-18."""
    settings = dict(embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[2, 2, 2, 2], layer_type="basic", num_labels=11)
    return transformers.ResNetConfig(**{**settings, **changes})


def resnet50(**changes):
    return resnet(**{**dict(layer_type="bottleneck", depths=[3, 4, 6, 3], hidden_sizes=[16, 24, 32, 40]), **changes})


LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}
# With heads 16 wide, waves of 6, 32 and 167 tokens and more: one kept, one blended, the others slowed.
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 100}
# Of heads 10 or more wide: pairs that turn often enough over 64 tokens are kept, the slow ones slowed, one or more blended.
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0, "beta_slow": 0.5}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.3}

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
        "yarn": lambda: llama(rope_parameters=YARN, head_dim=16, max_position_embeddings=256),
        "yarn_of_whole_context_and_own_scale": lambda: llama(rope_parameters={**YARN, "attention_factor": 0.7, "truncate": False}, head_dim=16,
                                                             max_position_embeddings=64),
        "yarn_by_defaults": lambda: llama(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0}, max_position_embeddings=41),
        "dynamic_scaling": lambda: llama(rope_parameters=DYNAMIC, max_position_embeddings=18),
    },
    "qwen2": {
        "grouped": lambda: qwen2(),
        "tied_and_far_theta": lambda: qwen2(tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
        "one_key_head": lambda: qwen2(num_key_value_heads=1, num_attention_heads=3, vocab_size=301, num_hidden_layers=2),
        "yarn_of_two_scales": lambda: qwen2(rope_parameters={**YARN, "mscale": 1.3, "mscale_all_dim": 0.4}, max_position_embeddings=256),
        "windows_from_a_layer_on": lambda: qwen2(use_sliding_window=True, sliding_window=4, max_window_layers=2),
        "windows_everywhere": lambda: qwen2(use_sliding_window=True, sliding_window=7, max_window_layers=0, num_hidden_layers=2),
        "windows_by_layer_types": lambda: qwen2(use_sliding_window=True, sliding_window=6, layer_types=MIXED),
    },
    "mistral": {
        "grouped": lambda: mistral(),
        "one_key_head_and_tied": lambda: mistral(num_key_value_heads=1, tie_word_embeddings=True, vocab_size=301),
        "wide_heads_and_linear_scaling": lambda: mistral(head_dim=10, rope_parameters=LINEAR, num_hidden_layers=1, rms_norm_eps=1e-3),
        "yarn": lambda: mistral(rope_parameters=YARN, max_position_embeddings=256),
        "window": lambda: mistral(sliding_window=5),
        "window_of_two_and_dynamic_scaling": lambda: mistral(sliding_window=2, num_hidden_layers=1, rope_parameters=DYNAMIC,
                                                             max_position_embeddings=18),
    },
    "qwen3": {
        "grouped": lambda: qwen3(),
        "tied_and_far_theta": lambda: qwen3(tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, rms_norm_eps=1e-3),
        "one_key_head_and_biases": lambda: qwen3(num_key_value_heads=1, num_attention_heads=5, attention_bias=True, vocab_size=301, num_hidden_layers=2),
        "yarn": lambda: qwen3(rope_parameters=YARN, max_position_embeddings=256),
        "dynamic_scaling": lambda: qwen3(rope_parameters=DYNAMIC, max_position_embeddings=17),
        "windows_from_a_layer_on": lambda: qwen3(use_sliding_window=True, sliding_window=4, max_window_layers=1),
        "windows_by_layer_types": lambda: qwen3(use_sliding_window=True, sliding_window=6, tie_word_embeddings=True, layer_types=MIXED),
    },
    "mixtral": {
        "balanced": lambda: mixtral(output_router_logits=True),
        "no_balance_loss_and_wide_heads": lambda: mixtral(head_dim=10, num_key_value_heads=6, vocab_size=301),
        "one_choice_of_many": lambda: mixtral(num_local_experts=17, num_experts_per_tok=1, num_hidden_layers=2, output_router_logits=True),
        "every_expert_and_tied": lambda: mixtral(num_local_experts=3, num_experts_per_tok=3, tie_word_embeddings=True, num_key_value_heads=1,
                                                 rope_parameters=LINEAR, rms_norm_eps=1e-3),
        "window": lambda: mixtral(sliding_window=5),
    },
    "qwen2_moe": {
        "balanced": lambda: qwen2_moe(output_router_logits=True),
        "normalised_and_tied": lambda: qwen2_moe(norm_topk_prob=True, tie_word_embeddings=True, num_experts_per_tok=3, vocab_size=301),
        "every_second_layer_sparse": lambda: qwen2_moe(decoder_sparse_step=2, num_hidden_layers=4, output_router_logits=True, num_key_value_heads=1),
        "some_layers_dense_and_no_biases": lambda: qwen2_moe(mlp_only_layers=[0, 2], num_hidden_layers=4, norm_topk_prob=True, qkv_bias=False,
                                                             output_router_logits=True, num_experts=9, num_experts_per_tok=4),
        "windows": lambda: qwen2_moe(use_sliding_window=True, sliding_window=6, max_window_layers=2, num_hidden_layers=3),
    },
    "vit": {
        "plain": lambda: vit(),
        "no_biases_and_wide_epsilon": lambda: vit(qkv_bias=False, layer_norm_eps=1e-3, num_channels=1, num_labels=2, patch_size=7),
        "neither_square": lambda: vit(image_size=[24, 40], num_hidden_layers=1, num_attention_heads=1, num_labels=3,
                                      id2label={0: "cat", 1: "dog", 2: "cat"}),
    },
    "resnet": {
        "layers_of_18": lambda: resnet(),
        "layers_of_50": lambda: resnet50(),
        "every_downsampling": lambda: resnet50(downsample_in_first_stage=True, downsample_in_bottleneck=True, depths=[1, 2], hidden_sizes=[16, 32],
                                               num_channels=1, num_labels=2),
    },
}


def bytes_config(family):
    """A config of this family whose tokens can be bytes, with room for 240 of them."""
    size = dict(vocab_size=256, max_position_embeddings=240, initializer_range=0.3)
    config = {
        "gpt2": lambda: gpt2(vocab_size=256, n_positions=240, initializer_range=0.3),
        "llama": lambda: llama(**size, rope_parameters=LLAMA3),
        "qwen2": lambda: qwen2(**size, tie_word_embeddings=True),
        "mistral": lambda: mistral(**size),
        "qwen3": lambda: qwen3(**size),
        "mixtral": lambda: mixtral(**size, output_router_logits=False),
        "qwen2_moe": lambda: qwen2_moe(**size, mlp_only_layers=[1]),
    }[family]()
    config.eos_token_id = None  # else some families end a text at byte 2
    return config


def long_config(family):
    """The same with a window, or a context of 64 that is stretched: 200 tokens go beyond either. Nothing where the family has neither."""
    size = dict(vocab_size=256, max_position_embeddings=240, initializer_range=0.3)
    make_config = {
        "llama": lambda: llama(**{**size, "max_position_embeddings": 64}, rope_parameters={**DYNAMIC, "factor": 4.0}),
        "mistral": lambda: mistral(**size, sliding_window=23),
        "qwen2": lambda: qwen2(**size, use_sliding_window=True, sliding_window=9, layer_types=MIXED),
        "qwen3": lambda: qwen3(**size, use_sliding_window=True, sliding_window=17, max_window_layers=1, rope_parameters={**YARN, "factor": 3.75}),
        "mixtral": lambda: mixtral(**size, output_router_logits=False, sliding_window=23),
    }.get(family)
    if make_config is None:
        return None
    config = make_config()
    config.eos_token_id = None
    return config


def sees(config):
    return isinstance(config, (transformers.ViTConfig, transformers.ResNetConfig))


def make(config, seed):
    """Every parameter and statistic random: transformers starts biases at 0 and norms at 1, which would hide a mistake in them."""
    torch.manual_seed(seed)
    kind = transformers.AutoModelForImageClassification if sees(config) else transformers.AutoModelForCausalLM
    model = kind.from_config(config, **({} if sees(config) else PLAIN)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers() if sees(config) else []:
            buffer.copy_(torch.tensor(17) if not buffer.is_floating_point() else
                         torch.rand_like(buffer) + 0.5 if name.endswith("var") else 0.1 * torch.randn_like(buffer))
    return model


def gradients(model):
    """By the names folders have: transformers holds the experts of a layer in two tensors, and writes each expert's matrices."""
    gate, up, down, mixtral = "gate_proj", "up_proj", "down_proj", model.config.model_type == "mixtral"
    if mixtral:
        gate, up, down = "w1", "w3", "w2"
    found = {}
    for name, parameter in model.named_parameters():
        name = name.replace(".mlp.", ".block_sparse_moe.") if mixtral else name
        layer, packed, part = name.partition(".experts.")
        if not packed:
            found[name] = parameter.grad
            continue
        for expert, gradient in enumerate(parameter.grad):
            parts = zip([gate, up], gradient.chunk(2)) if part == "gate_up_proj" else [(down, gradient)]
            found.update({f"{layer}.experts.{expert}.{matrix}.weight": value for matrix, value in parts})
    return found


def load(folder, **options):
    """As transformers loads it: a model cast in place would have its rotary frequencies rounded too."""
    sighted = sees(transformers.AutoConfig.from_pretrained(folder))
    kind = transformers.AutoModelForImageClassification if sighted else transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder, **({} if sighted else PLAIN), **options)


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


def stored_names(folder):
    """Of the tensors in a folder's files."""
    return {name for path in folder.glob("*.safetensors") for name in safe_open(path, "pt").keys()}


def relative(value, reference):
    return ((value - reference).norm() / reference.norm().clamp_min(1e-30)).item()


def batch(config, rows, length, seed, padding=None):
    """Random ids and labels; with padding "left", "middle" or "right" also a mask that leaves each row another number of tokens.
    For models that see, images: `length` is then (height, width), or else they have the config's size."""
    generator = torch.Generator().manual_seed(seed)
    if sees(config):
        size = getattr(config, "image_size", 45)
        height, width = length if isinstance(length, tuple) else size if isinstance(size, list) else (size, size)
        return {"pixel_values": torch.randn(rows, config.num_channels, height, width, generator=generator),
                "labels": torch.randint(0, config.num_labels, (rows,), generator=generator)}
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


def answer(model, tensors):
    """What transformers gives; a ViT is told where the places of its patches must be resampled, as we see for ourselves."""
    if sees(model.config):
        tensors = {**tensors, "pixel_values": tensors["pixel_values"].to(model.dtype)}
    size = getattr(model.config, "image_size", None)
    if size is None or tuple(tensors["pixel_values"].shape[2:]) == (tuple(size) if isinstance(size, list) else (size, size)):
        return model(**tensors)
    return model(**tensors, interpolate_pos_encoding=True)


class Recorder(logging.Handler):
    """Keeps what transformers logs."""

    def __init__(self, records):
        super().__init__(logging.WARNING)
        self.records = records

    def emit(self, record):
        self.records.append(record.getMessage())
