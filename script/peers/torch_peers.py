#!/usr/bin/env python3
"""PyTorch's side of `hyperion bench train --peers`: one workload in one mode, timed as the bench times its own.

The model is built from the config.json that the bench hands over, so both sides read one description. A step is forward,
backward, clip of the global norm at 1, and fused AdamW; bf16 and fp16 run under autocast over fp32 weights. The first step is
timed alone, five more warm up, a GPU rests for two seconds, then blocks of ten run back to back and are synchronised once a block.
Of documents, a step with each batch warms up, and a block is as many.

With adapters (adapters.py) the weights are frozen in 16 bits. Documents (documents.py) are those of the bench's own batches,
packed into rows or padded; padded ones that do not fit in memory are cut into micro-batches. With either, `compile` compiles
the blocks, which share their code, and the loss: the first step of a deep model then takes seconds and not minutes. Padded
batches differ in rows and length: torch.compile makes code for any after the first, and may not give up and run eagerly.

Prints one line of JSON: seconds a step of each block, the first step's, peak bytes, losses; or {"error": ...}.
"""
import argparse
import gc
import json
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.attention.flex_attention import flex_attention
except ImportError as missing:
    print(json.dumps({"error": f"python3 has no torch ({missing})"}))
    sys.exit(1)

import adapters
import documents

WARM_UP, BLOCK, BATCHES, REST = 5, 10, 3, 2
HOWS = ("eager", "compile", "compile+graphs")
MODES = HOWS + tuple(f"{how}+{form}" for how in HOWS[:2] for form in documents.FORMS)


class Attention(nn.Module):
    """Packed query, key and value projections, three layers or one; keys may have fewer heads; `turns` are rotary positions'."""

    def __init__(self, width, heads, kv_heads, causal, bias_in, bias_out, layers=3):
        super().__init__()
        self.heads, self.kv_heads, self.head, self.causal = heads, kv_heads, width // heads, causal
        outs = [heads * self.head, kv_heads * self.head, kv_heads * self.head]
        self.packed = adapters.Joined(width, outs if layers == 3 else [sum(outs)], bias=bias_in)
        self.out = nn.Linear(width, width, bias=bias_out)

    def forward(self, x, turns=None, mask=None):
        rows, length, width = x.shape
        packed = self.packed(x).view(rows, length, -1, self.head).transpose(1, 2)
        q, k, v = packed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if turns is not None:
            q, k = turned(q, *turns).to(v.dtype), turned(k, *turns).to(v.dtype)
        shared = self.heads != self.kv_heads
        if mask is None or isinstance(mask, torch.Tensor):
            mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and mask is None, enable_gqa=shared)
        else:
            mixed = flex_attention(q, k, v, block_mask=mask, enable_gqa=shared)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))


def turned(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class GeluBlock(nn.Module):
    """GPT-2's and ViT's block."""

    def __init__(self, width, heads, inner, causal, form):
        super().__init__()
        self.norm_1, self.norm_2, self.form = nn.LayerNorm(width), nn.LayerNorm(width), form
        self.attention = Attention(width, heads, heads, causal, True, True, layers=1 if causal else 3)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), None, mask)
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate=self.form))


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["n_embd"]
        self.tokens, self.places = nn.Embedding(c["vocab_size"], width), nn.Embedding(c["n_positions"], width)
        inner = c.get("n_inner") or 4 * width
        self.blocks = nn.ModuleList(GeluBlock(width, c["n_head"], inner, True, "tanh") for _ in range(c["n_layer"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, targets, positions=None, mask=None):
        x = self.tokens(ids) + (self.places.weight[: ids.shape[1]] if positions is None else self.places(positions))
        for block in self.blocks:
            x = block(x, mask)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.epsilon)


class SwigluBlock(nn.Module):
    """Llama's and Qwen2's block, gate and up packed."""

    def __init__(self, c):
        super().__init__()
        width, inner, epsilon = c["hidden_size"], c["intermediate_size"], c.get("rms_norm_eps", 1e-6)
        self.norm_1, self.norm_2 = RmsNorm(width, epsilon), RmsNorm(width, epsilon)
        heads = c["num_attention_heads"]
        bias = c["model_type"] == "qwen2" or c.get("attention_bias", False)
        self.attention = Attention(width, heads, c.get("num_key_value_heads", heads), True, bias, False)
        self.gate_up, self.down = adapters.Joined(width, [inner, inner], bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x, turns, mask=None):
        x = x + self.attention(self.norm_1(x), turns, mask)
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, length):
        super().__init__()
        width, head = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
        self.tokens = nn.Embedding(c["vocab_size"], width)
        self.blocks = nn.ModuleList(SwigluBlock(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(width, c.get("rms_norm_eps", 1e-6))
        tied = c.get("tie_word_embeddings", False)
        self.output = self.tokens.weight if tied else nn.Parameter(torch.empty(c["vocab_size"], width))
        theta = c.get("rope_theta") or c.get("rope_parameters", {}).get("rope_theta", 10000.0)
        angles = torch.outer(torch.arange(length), theta ** (-torch.arange(0, head, 2) / head))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids, targets, positions=None, mask=None):
        x = self.tokens(ids)
        if positions is None:
            turns = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        else:
            turns = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        for block in self.blocks:
            x = block(x, turns, mask)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.output)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Vit(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, patch, classes = c.get("hidden_size", 768), c.get("patch_size", 16), classes_of(c)
        places = (c.get("image_size", 224) // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, places, width))
        self.blocks = nn.ModuleList(
            GeluBlock(width, c.get("num_attention_heads", 12), c.get("intermediate_size", 3072), False, "none")
            for _ in range(c.get("num_hidden_layers", 12)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), -1, -1).to(x.dtype), x), dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.loss(x, labels)

    def loss(self, x, labels):
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), labels)


def convolution(into, out, size, stride=1):
    return nn.Sequential(nn.Conv2d(into, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out))


class ResidualBlock(nn.Module):
    def __init__(self, into, out, stride, bottleneck):
        super().__init__()
        narrow = out // 4
        self.layers = nn.Sequential(convolution(into, narrow, 1), nn.ReLU(), convolution(narrow, narrow, 3, stride), nn.ReLU(),
                                    convolution(narrow, out, 1)) if bottleneck else \
            nn.Sequential(convolution(into, out, 3, stride), nn.ReLU(), convolution(out, out, 3))
        self.shortcut = convolution(into, out, 1, stride) if stride != 1 or into != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


class Resnet(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, small = c.get("embedding_size", 64), c.get("hyperion_stem") == "cifar"
        self.stem = nn.Sequential(convolution(3, width, 3), nn.ReLU()) if small else \
            nn.Sequential(convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks = []
        for stage, (depth, out) in enumerate(zip(c["depths"], c["hidden_sizes"])):
            for index in range(depth):
                blocks.append(ResidualBlock(width, out, 2 if stage > 0 and index == 0 else 1, c["layer_type"] == "bottleneck"))
                width = out
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(width, classes_of(c))

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.blocks(self.stem(images)).mean((2, 3))), labels)


def classes_of(c):
    return c["num_labels"] if "num_labels" in c else len(c.get("id2label", {"0": 0, "1": 1}))


def build(spec):
    config = spec["model"]
    kind = config["model_type"]
    if kind == "gpt2":
        model = Gpt2(config)
    elif kind in ("llama", "qwen2"):
        model = Llama(config, spec["length"])
    elif kind == "vit":
        model = Vit(config)
    elif kind == "resnet":
        model = Resnet(config)
    else:
        raise ValueError(f"no peer for a {kind}")
    for parameter in model.parameters():
        if parameter.dim() > 1 and kind != "resnet":
            nn.init.normal_(parameter, std=0.02)
    return model


def batches(spec, device):
    rows, drawn = spec["batch"], spec["drawn"]
    for _ in range(BATCHES):
        if spec["length"]:
            ids = torch.randint(drawn, (rows, spec["length"] + 1), device=device)
            yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        else:
            images = torch.randn(rows, 3, spec["image"], spec["image"], device=device)
            yield images.to(memory_format=torch.channels_last), torch.randint(drawn, (rows,), device=device)


def data_of(spec, how, form, parts, device):
    """Of each batch its micro-batches: what the model takes, and its share of the loss."""
    if "documents" not in spec:
        return [[(batch, 1.0)] for batch in batches(spec, device)]
    rows = documents.tokens_of(spec, device)
    if form == "padded":
        return [documents.micro_batches(*documents.padded(some, device), parts) for some in documents.dealt(rows)]
    blocks = how == "compile" and device == "cuda"
    return [[(documents.packed(some, spec["length"], device, blocks), 1.0)] for some in rows]


def compiled_graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def compiled(model, how, by_layer):
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    if how == "compile" and by_layer:
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
        return model
    if how == "compile":
        return torch.compile(model)
    return torch.compile(model, mode="reduce-overhead")


def adapted(spec, device, narrow):
    """The model, with adapters where the bench has them, and how many parameters are its own."""
    with torch.device(device):
        model = build(spec)
    count = sum(parameter.numel() for parameter in model.parameters())
    if "lora" in spec:
        adapters.adapt(model, spec["lora"], narrow or torch.float32)
    return model, count


def measure(spec, mode, steps, device, parts=1):
    if mode not in MODES or ("documents" in spec) != mode.endswith(documents.FORMS):
        raise ValueError(f"no mode {mode} for {spec['name']}")
    form = next((form for form in documents.FORMS if mode.endswith(form)), None)
    how = mode.removesuffix(f"+{form}")
    torch.manual_seed(1)
    gpu, precision = device == "cuda", spec["precision"]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    model, parameters = adapted(spec, device, narrow)
    if spec["image"]:
        model = model.to(memory_format=torch.channels_last)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    by_layer = how == "compile" and ("lora" in spec or form is not None)
    data, call = data_of(spec, how, form, parts, device), model if how == "eager" else compiled(model, how, by_layer)
    wait = torch.cuda.synchronize if gpu else lambda: None
    if gpu:
        torch.cuda.reset_peak_memory_stats()

    def step(index):
        whole = 0
        for batch, share in data[index % len(data)]:
            with torch.autocast(device, narrow, enabled=narrow is not None):
                loss = call(*batch) * share
            scaler.scale(loss).backward()
            whole = whole + loss.detach()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(trained, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return whole

    wait()
    begun = time.perf_counter()
    first_loss = float(step(0))
    first = time.perf_counter() - begun
    for index in range(max(WARM_UP, len(data))):
        step(index)
    wait()
    if gpu:
        time.sleep(REST)
    graphs, blocks = compiled_graphs(), []
    block = len(data) if form else min(BLOCK, steps)
    for _ in range(max(1, steps // block)):
        begun = time.perf_counter()
        for index in range(block):
            loss = step(index)
        wait()
        blocks.append((time.perf_counter() - begun) / block)
    notes = ["layer by layer"] * by_layer + [f"{parts} micro-batches"] * (parts > 1)
    notes += ["compiled while it was timed"] * (compiled_graphs() > graphs)
    return {"workload": spec["name"], "mode": mode, "ran_as": ", ".join(notes), "blocks_s": blocks, "first_step_s": first,
            "first_loss": first_loss, "last_loss": float(loss), "parameters": parameters,
            "trained": sum(parameter.numel() for parameter in trained), "peak_bytes": torch.cuda.max_memory_allocated() if gpu else 0, "torch": torch.__version__}


def measure_what_fits(spec, mode, steps, device):
    """Padded documents in as few micro-batches as fit in memory."""
    counts = [1, 2, 4, 8] if mode.endswith("padded") else [1]
    for parts in counts:
        try:
            return measure(spec, mode, steps, device, parts)
        except torch.OutOfMemoryError:
            if parts == counts[-1]:
                raise
        gc.collect()  # here the failed step's frames are gone
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--spec", required=True, help="one line of `hyperion bench workloads --json`")
    arguments.add_argument("--mode", default="eager", help=", ".join(MODES))
    arguments.add_argument("--steps", type=int, default=50)
    arguments.add_argument("--device", default="cuda")
    given = arguments.parse_args()
    try:
        print(json.dumps(measure_what_fits(json.loads(given.spec), given.mode, given.steps, given.device)), flush=True)
    except Exception as error:  # the bench shows it in the row
        lines = str(error).strip().splitlines()
        print(json.dumps({"error": f"{type(error).__name__}: {lines[0][:300] if lines else ''}"}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
