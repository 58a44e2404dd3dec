"""What `hyperion runs export` writes, read back by the tools that own the formats: TensorBoard's event accumulator, W&B's `wandb leet inspect`,
MLflow's client and prometheus_client's parser find every value of metrics.jsonl.
Usage: metric_export_test.py [STEPS] [SEED]"""
import csv
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict

warnings.filterwarnings("ignore")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

from mlflow.tracking import MlflowClient  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, TENSORS  # noqa: E402

PROGRAM = os.environ["HYPERION_PROGRAM"]
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 700
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
BEGUN = 1763523600
WHOLE = {"tokens", "memory_allocated", "memory_reserved", "memory_peak", "comm_bytes", "samples"}
STEP_KEYS = """loss grad_norm lr step_ms tokens tokens_per_s tflops mfu memory_allocated memory_reserved memory_peak data_wait_ms forward_ms
backward_ms optimizer_ms comm_ms comm_total_ms comm_bytes samples accuracy expert_busiest expert_idle expert_dropped stopped_ms gpu_clock_mhz
gpu_power_w gpu_celsius gpu_busy_percent energy_j checkpoint_blocked_s checkpoint_write_s""".split()
OPTIONAL = {key for key in STEP_KEYS if key.startswith(("memory", "comm", "expert", "gpu", "checkpoint"))} | {"tflops", "mfu", "accuracy", "stopped_ms", "energy_j"}
EVAL_KEYS = ["loss", "perplexity", "token_accuracy", "answers_right", "top_1", "top_5", "best_step", "documents_cut", "documents_dropped"]


def name_of(key):
    for group in ("memory", "gpu", "expert", "comm", "checkpoint"):
        if key.startswith(group + "_"):
            return f"{group}/{key[len(group) + 1:]}"
    if key == "energy_j":
        return "gpu/energy_j"
    if key in ("tokens_per_s", "tflops", "mfu"):
        return f"speed/{key}"
    return ("time/" if key.endswith("_ms") else "train/") + key


def make_run(folder, name, rng):
    """Writes a run's files, and returns {name: {step: value}} of all it says."""
    run = folder / name
    run.mkdir(parents=True)
    settings = {"train": {"batch": 12, "precision": "bf16"}, "optim": {"lr": 0.00125}, "eval": {"prompts": ["a \"quoted\"\nline", "ü"]}}
    (run / "config.resolved.toml").write_text("".join(
        f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()) for section, values in settings.items()))
    (run / "run.json").write_text(json.dumps({
        "name": name, "recipe": "r.toml", "created": "2025-11-19T03:40:00Z", "updated": "2025-11-19T03:50:00Z", "status": "complete", "failure": "",
        "step": STEPS, "steps": STEPS, "parameters": 1, "trained": 1, "seconds": 10, "data": "", "ended": "", "loss": 1.5, "validation_loss": None,
        "perplexity": None, "environment": []}))
    expected, lines = defaultdict(dict), []
    present = {key for key in OPTIONAL if rng.random() < 0.8}
    with_times = rng.random() < 0.5
    for step in range(1, STEPS + 1):
        record = {"step": step}
        for key in STEP_KEYS:
            if key in OPTIONAL and key not in present:
                record[key] = None
                continue
            value = rng.randrange(1 << 40) if key in WHOLE else rng.choice([rng.random(), rng.random() * 10 ** rng.randrange(-30, 30)])
            if key in ("loss", "grad_norm") and rng.random() < 0.05:
                value = math.nan
            record[key] = None if isinstance(value, float) and math.isnan(value) else value
            expected[name_of(key)][step] = value
        record |= {"sample_hash": "0123456789abcdef", "held_up": rng.choice([None, "compute of rank 3, \"slow\""]), "gpu_slowed": None}
        if with_times:
            record["unix_s"] = BEGUN + 3 * step + 0.25
        lines.append(json.dumps(record))
        for split in ("validation", "training"):
            if rng.random() < 0.03:
                evaluation = {"step": step, "split": split}
                for key in EVAL_KEYS:
                    value = step if key == "best_step" else rng.randrange(1000) if key.startswith("documents") else rng.random()
                    evaluation[key] = None if key != "loss" and rng.random() < 0.3 else value
                    if evaluation[key] is not None:
                        expected[f"{'epoch' if split == 'training' else split}/{key}"][step] = value
                evaluation |= {"early_stop": None, "samples": [{"prompt": "Once ", "text": "upon | a\ntime"}]}
                lines.append(json.dumps(evaluation))
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return expected, settings, with_times


def same(found, expected, what, exact=True):
    assert set(found) == set(expected), (what, set(found) ^ set(expected))
    for name, steps in expected.items():
        assert set(found[name]) == set(steps), (what, name, set(found[name]) ^ set(steps))
        for step, value in steps.items():
            wanted = value if exact else struct.unpack("f", struct.pack("f", value))[0]
            got = found[name][step]
            assert got == wanted or (math.isnan(got) and math.isnan(wanted)), (what, name, step, got, wanted)
    return sum(map(len, expected.values()))


def of_tensorboard(folder, expected, settings, with_times):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, TENSORS: 0})
    events.Reload()
    found = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    if with_times:
        assert all(event.wall_time == BEGUN + 3 * event.step + 0.25 for event in events.Scalars("train/lr"))
    texts = events.Tags()["tensors"]
    assert "settings" in texts, texts
    table = events.Tensors("settings")[0].tensor_proto.string_val[0].decode()
    assert f"| optim.lr | `{settings['optim']['lr']}` |" in table, table
    for split in ("validation", "epoch"):
        if split == "validation" and f"{split}/loss" in expected:
            text = events.Tensors("validation/answers")[0].tensor_proto.string_val[0].decode()
            assert text.startswith("    Once upon | a\n    time"), text
    return same(found, expected, "TensorBoard", exact=False)


def of_wandb(folder, name, expected, settings):
    [file] = [path for path in folder.glob("offline-run-*/run-*.wandb") if name.encode() in path.read_bytes()[:65536]]
    wandb = pathlib.Path(sys.executable).parent / "wandb"
    lines = subprocess.run([wandb, "leet", "inspect", "--json", file], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found, ended, run = defaultdict(dict), False, None
    for record in map(json.loads, lines):
        if record["type"] == "history":
            row = record["history"]["item"]
            step = row.pop("_step")
            assert int(record["history"]["step"]["num"]) == step
            assert row.pop("_timestamp") >= BEGUN and row.pop("_runtime") >= 0
            for key, value in row.items():
                found[key][step] = float(value)
        ended |= record["type"] == "exit"
        run = record.get("run", run)
    assert ended and run["display_name"] == name, run
    for section, values in settings.items():
        for key, value in values.items():
            assert run["config"]["update"][section][key] == value, (section, key, value, run)
    return same(found, expected, "W&B")


def of_mlflow(store, name, expected, settings):
    client = MlflowClient(tracking_uri=f"file://{store.resolve()}")
    [experiment] = [one for one in client.search_experiments() if one.name == "hyperion"]
    [run] = [one for one in client.search_runs([experiment.experiment_id]) if one.info.run_name == name]
    assert run.info.status == "FINISHED", run.info
    for section, values in settings.items():
        for key, value in values.items():
            assert isinstance(value, list) or run.data.params[f"{section}.{key}"] == str(value), (section, key, run.data.params)
    found = {key: {point.step: point.value for point in client.get_metric_history(run.info.run_id, key)} for key in run.data.metrics}
    return same(found, expected, "MLflow")


def of_prometheus(file, name, expected):
    families = list(text_string_to_metric_families(file.read_text()))
    assert len({family.name for family in families}) == len(families)
    found = {}
    for family in families:
        assert family.documentation and family.type in ("gauge", "counter"), family
        for sample in family.samples:
            assert sample.labels["run"] == name, sample
            found[sample.name, *(value for key, value in sorted(sample.labels.items()) if key != "run")] = sample.value
    last = {key: steps[STEPS] for key, steps in expected.items() if STEPS in steps}
    wanted = {("hyperion_train_loss",): "train/loss", ("hyperion_gradient_norm",): "train/grad_norm", ("hyperion_learning_rate",): "train/lr",
              ("hyperion_tokens_per_second",): "speed/tokens_per_s", ("hyperion_memory_bytes", "peak"): "memory/peak",
              ("hyperion_gpu_power_watts",): "gpu/power_w", ("hyperion_train_samples_total",): "train/samples"}
    compared = 0
    for key, ours in wanted.items():
        assert (key in found) == (ours in last), (key, ours)
        if ours in last:
            assert found[key] == last[ours] or math.isnan(found[key]) and math.isnan(last[ours]), (key, found[key], last[ours])
            compared += 1
    assert math.isclose(found["hyperion_step_duration_seconds",], last["time/step_ms"] / 1e3)
    assert found["hyperion_train_tokens_total",] == sum(expected["train/tokens"].values())
    assert found["hyperion_run_info", "complete"] == 1
    losses = expected.get("validation/loss", {})
    if losses:
        assert found["hyperion_evaluation_loss", "validation"] == losses[max(losses)]
    return compared + 4


def of_csv(folder, runs):
    compared = 0
    with open(folder / "steps.csv", newline="") as file:
        for row in csv.DictReader(file):
            for key in STEP_KEYS:
                value = runs[row["run"]].get(name_of(key), {}).get(int(row["step"]))
                assert (row[key] == "") == (value is None), (key, row[key], value)
                assert value is None or float(row[key]) == value or math.isnan(value) and row[key] == "nan", (key, row[key], value)
                compared += 1
            assert row["held_up"] in ("", "compute of rank 3, \"slow\"")
    return compared


def main():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        runs = {name: make_run(scratch / "runs", name, rng) for name in ("first", "second_ü")}
        for tool in ("tensorboard", "wandb", "mlflow", "prometheus", "csv"):
            named = [str(scratch / "runs" / name) for name in runs]
            subprocess.run([PROGRAM, "runs", "export", *named, "--to", tool, "--output", str(scratch / tool)], check=True, stdout=subprocess.PIPE)
        compared = {"csv": of_csv(scratch / "csv", {name: run[0] for name, run in runs.items()})}
        for name, (expected, settings, with_times) in runs.items():
            counts = {"tensorboard": of_tensorboard(scratch / "tensorboard" / name, expected, settings, with_times),
                      "wandb": of_wandb(scratch / "wandb", name, expected, settings),
                      "mlflow": of_mlflow(scratch / "mlflow", name, expected, settings),
                      "prometheus": of_prometheus(scratch / "prometheus" / f"{name}.prom", name, expected)}
            for tool, count in counts.items():
                compared[tool] = compared.get(tool, 0) + count
    print(f"seed {SEED}: " + ", ".join(f"{tool} {count:,} values" for tool, count in compared.items()) + " as in metrics.jsonl")


main()
