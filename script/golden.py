"""The cases of script/golden: two programs train each, and what they computed is compared to the bit."""
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

TOKENS = {"data.source": "sums", "model.context": 48, "model.vocabulary": 256, "train.length": 32, "model.layers": 2, "model.heads": 4, "model.width": 32}
DECODER = TOKENS | {"model.key_value_heads": 2, "model.inner": 48}
IMAGES = {"data.source": "shapes"}
FAMILIES = {
    "gpt2": TOKENS | {"model.preset": "gpt2-tiny", "model.dropout": 0.1},
    "llama": DECODER | {"model.preset": "llama-tiny"},
    "mistral": DECODER | {"model.preset": "mistral-7b-v0.1"},
    "qwen2": DECODER | {"model.preset": "qwen2.5-0.5b"},
    "qwen3": DECODER | {"model.preset": "qwen3-0.6b"},
    "mixtral": DECODER | {"model.preset": "mixtral-tiny", "model.experts": 4},
    "qwen2_moe": DECODER | {"model.preset": "qwen-moe-tiny", "model.experts": 4},
    "vit": IMAGES | {"model.preset": "vit-tiny", "model.layers": 2, "model.heads": 2, "model.width": 32, "model.inner": 48, "model.dropout": 0.1},
    "resnet": IMAGES | {"model.preset": "resnet18-cifar", "train.steps": 6},
}
COMMON = {"train.steps": 30, "train.batch": 12, "train.device": "cpu", "train.threads": 1, "train.log_every": 30, "optim.lr": 1e-3, "optim.warmup": 3, "eval.every": 10, "eval.batches": 1,
          "checkpoint.every": 1000}
# Beside stages, ranks and modes: what meets them, each tried on the families that have it.
ALONE = [{"train.precision": "bf16"}, {"train.accumulate": 3}, {"memory.recompute": "full"}, {"optim.rule": "sgd"}]
TOGETHER = [(2, {"parallel.zero": 3, "train.accumulate": 3}), (2, {"parallel.zero": 1, "train.precision": "bf16"}), (4, {"parallel.layout": "dp=2x2", "parallel.zero": 3}),
            (4, {"parallel.zero": 3, "parallel.zeropp": "weights,grads"}), (2, {"parallel.same_bits": "true"})]
# Documents that share rows and do not see each other.
PACKED = {"train.length": 96, "model.context": 96, "model.vocabulary": 512, "data.packing": "whole", "data.reset": "true"}
PREPARED = {"data.source": "prepared"}


def cases(family):
    for mode in ["reference", "fused"]:
        yield 1, {"train.optimize": mode}
    for ranks in [2, 3, 4]:
        for zero in range(4):
            yield ranks, {"parallel.zero": zero}
    for zero in [0, 3]:
        yield 2, {"parallel.zero": zero, "train.optimize": "reference"}
    for extra in ALONE:
        yield 1, extra
    if family in ("gpt2", "llama", "mixtral"):
        yield from TOGETHER
        yield 1, PREPARED
        yield 1, PREPARED | {"train.optimize": "reference"}
        yield 2, PREPARED | {"parallel.zero": 3}


def name_of(family, ranks, extra):
    return "-".join([family, f"{ranks}ranks", *(f"{key.split('.')[1]}={value}" for key, value in extra.items())])


def trained(program, folder, settings, ranks):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HYPERION_")} | {"HYPERION_RUNS": str(folder), "OMP_NUM_THREADS": "1"}
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text("")
    words = [program, *(["launch", "-n", str(ranks), "--logs", str(folder / "logs"), "--"] if ranks > 1 else []), "train", str(folder / "recipe.toml"), "--run", "r",
             *(f"--{key}={value}" for key, value in settings.items())]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        return None, next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[-200:])
    values = []
    for line in (folder / "r/metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        values.append((record.get("step"), record.get("split", "step"), record.get("loss"), record.get("grad_norm"), record.get("sample_hash")))
    return values, weights_hash(max(folder.glob("r/checkpoints/step-*"), key=lambda path: int(path.name.split("-")[1])))


def weights_hash(checkpoint):
    """Of all that its shards hold, weights and the optimizer's state, in whatever order they lie there."""
    tensors = {}
    for shard in checkpoint.glob("*.safetensors"):
        data = shard.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:begin])
        slices = header.pop("__metadata__", {})
        for name, place in header.items():
            one, end = place["data_offsets"]
            tensors[slices.get(name, name)] = hashlib.sha256(data[begin + one:begin + end]).hexdigest()
    return hashlib.sha256(repr(sorted(tensors.items())).encode()).hexdigest()


def prepare_documents(program, folder):
    """A set of lines of 1 to 14 words, so that rows hold several and some go on."""
    folder.mkdir(parents=True)
    words = "the river ran over stones and under bridges while two birds sang of rain".split()
    draw = random.Random(3)
    (folder / "lines.txt").write_text("".join(" ".join(draw.choices(words, k=draw.randint(1, 14))) + "\n" for _ in range(900)))
    (folder / "set.toml").write_text(f'[prepare]\nfiles = ["{folder}/lines.txt"]\nformat = "lines"\ntokenizer = "bytes"\nvalidation = 0.1\noutput = "{folder}/set"\n')
    subprocess.run([program, "data", "prepare", str(folder / "set.toml")], check=True, capture_output=True)
    return PACKED | {"data.path": folder / "set"}


def difference(before, after):
    if before[0] is None or after[0] is None:
        if before[0] is None and after[0] is None:
            return None if before[1] == after[1] else f"both refuse: {before[1]} / {after[1]}"
        return f"refused by one alone: {before[1] if before[0] is None else after[1]}"
    for one, other in zip(before[0], after[0]):
        if one != other:
            return f"at {one[1]} {one[0]}: loss {one[2]!r} and {other[2]!r}, norm {one[3]!r} and {other[3]!r}"
    if len(before[0]) != len(after[0]):
        return f"{len(before[0])} and {len(after[0])} records"
    return None if before[1] == after[1] else "the same losses, and other weights"


def main():
    programs, work, wanted = sys.argv[1:3], pathlib.Path(sys.argv[3]), sys.argv[4:] or list(FAMILIES)
    unknown = [family for family in wanted if family not in FAMILIES]
    if unknown:
        sys.exit(f"error: {unknown[0]} is no family here\nhint: one of {', '.join(FAMILIES)}")
    packed = prepare_documents(programs[0], work / "documents")
    count, refused, differing = 0, [], []
    for family in wanted:
        for ranks, extra in cases(family):
            name = name_of(family, ranks, extra)
            settings = COMMON | FAMILIES[family] | ({"parallel.layout": f"dp={ranks}"} if ranks > 1 else {}) | extra | (packed if PREPARED.items() <= extra.items() else {})
            results = [trained(program, work / side / name, settings, ranks) for side, program in zip(("before", "after"), programs)]
            found = difference(*results)
            count += 1
            if results[1][0] is None and found is None:
                refused.append(name)
            if found is not None:
                differing.append(name)
            print(f"{name:60} {'same bits' if found is None and results[1][0] is not None else found or 'refused by both: ' + results[1][1]}", flush=True)
    print(f"{count} cases, {len(refused)} refused by both, {len(differing)} differ")
    sys.exit(1 if differing else 0)


main()
