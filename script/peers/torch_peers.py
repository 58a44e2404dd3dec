#!/usr/bin/env python3
"""PyTorch's side of `hyperion bench train --peers`: one workload in one mode, timed as the bench times its own.

The model is built from the config.json that the bench hands over, so both sides read one description. A step is forward,
backward, clip of the global norm at 1, and fused AdamW; bf16 and fp16 run under autocast over fp32 weights. The first step is
timed alone, five more warm up, a GPU rests for two seconds, then blocks of ten run back to back and are synchronised once a block.

Prints one line of JSON: seconds a step of each block, the first step's, peak bytes, losses; or {"error": ...}.
"""
import argparse
import json
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(json.dumps({"error": f"python3 has no torch ({missing})"}))
    sys.exit(1)

WARM_UP, BLOCK, BATCHES, REST = 5, 10, 3, 2


class Attention(nn.Module):
    """Packed query, key and value projections; keys may have fewer heads; `turn` adds rotary positions."""

    def __init__(self, width, heads, kv_heads, causal, bias_in, bias_out):
        super().__init__()
        self.heads, self.kv_heads, self.head, self.causal = heads, kv_heads, width // heads, causal
        self.packed = nn.Linear(width, (heads + 2 * kv_heads) * self.head, bias=bias_in)
        self.out = nn.Linear(width, width, bias=bias_out)

    def forward(self, x, turn=None):
        rows, length, width = x.shape
        packed = self.packed(x).view(rows, length, -1, self.head).transpose(1, 2)
        q, k, v = packed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if turn is not None:
            q, k = turn(q).to(v.dtype), turn(k).to(v.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.heads != self.kv_heads)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class GeluBlock(nn.Module):
    """GPT-2's and ViT's block."""

    def __init__(self, width, heads, inner, causal, form):
        super().__init__()
        self.norm_1, self.norm_2, self.form = nn.LayerNorm(width), nn.LayerNorm(width), form
        self.attention = Attention(width, heads, heads, causal, True, True)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate=self.form))


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["n_embd"]
        self.tokens, self.places = nn.Embedding(c["vocab_size"], width), nn.Embedding(c["n_positions"], width)
        inner = c.get("n_inner") or 4 * width
        self.blocks = nn.ModuleList(GeluBlock(width, c["n_head"], inner, True, "tanh") for _ in range(c["n_layer"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
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
        self.gate_up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x, turn):
        x = x + self.attention(self.norm_1(x), turn)
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, length):
        super().__init__()
        width, head = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
        self.tokens = nn.Embedding(c["vocab_size"], width)
        self.blocks = nn.ModuleList(SwigluBlock(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(width, c.get("rms_norm_eps", 1e-6))
        self.head = nn.Linear(width, c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings", False):
            self.head.weight = self.tokens.weight
        theta = c.get("rope_theta") or c.get("rope_parameters", {}).get("rope_theta", 10000.0)
        angles = torch.outer(torch.arange(length), theta ** (-torch.arange(0, head, 2) / head))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turn(self, x):
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * self.cos - high * self.sin, high * self.cos + low * self.sin), dim=-1)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.turn)
        logits = self.head(self.norm(x))
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


def prepared(model, mode):
    if mode == "eager":
        return model
    if mode == "compile":
        return torch.compile(model)
    if mode == "compile+graphs":
        return torch.compile(model, mode="reduce-overhead")
    raise ValueError(f"no mode {mode}")


def measure(spec, mode, steps, device):
    torch.manual_seed(1)
    gpu, precision = device == "cuda", spec["precision"]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    model = build(spec).to(device)
    if spec["image"]:
        model = model.to(memory_format=torch.channels_last)
    scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data, call = list(batches(spec, device)), prepared(model, mode)
    wait = torch.cuda.synchronize if gpu else lambda: None

    def step(index):
        with torch.autocast(device, narrow, enabled=narrow is not None):
            loss = call(*data[index % BATCHES])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    wait()
    begun = time.perf_counter()
    first_loss = float(step(0))
    first = time.perf_counter() - begun
    for index in range(WARM_UP):
        step(index)
    wait()
    if gpu:
        time.sleep(REST)
    block, blocks = min(BLOCK, steps), []
    for _ in range(max(1, steps // BLOCK)):
        begun = time.perf_counter()
        for index in range(block):
            loss = step(index)
        wait()
        blocks.append((time.perf_counter() - begun) / block)
    return {"workload": spec["name"], "mode": mode, "blocks_s": blocks, "first_step_s": first, "first_loss": first_loss,
            "last_loss": float(loss), "parameters": sum(p.numel() for p in model.parameters()),
            "peak_bytes": torch.cuda.max_memory_allocated() if gpu else 0, "torch": torch.__version__}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--spec", required=True, help="one line of `hyperion bench workloads --json`")
    arguments.add_argument("--mode", default="eager", help="eager, compile or compile+graphs")
    arguments.add_argument("--steps", type=int, default=50)
    arguments.add_argument("--device", default="cuda")
    given = arguments.parse_args()
    try:
        print(json.dumps(measure(json.loads(given.spec), given.mode, given.steps, given.device)), flush=True)
    except Exception as error:  # the bench shows it in the row
        lines = str(error).strip().splitlines()
        print(json.dumps({"error": f"{type(error).__name__}: {lines[0][:300] if lines else ''}"}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
