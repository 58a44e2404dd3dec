"""Runs what script/bench-gpu-traces says, each workload on random text in a scratch folder."""
import gzip
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

EVERY, WARM, TRACED = 60, 1, 3  # traces of 3 steps, 60 steps apart
STEPS = 4 * EVERY
SMALL = """
[train]
batch = 8
length = 128
precision = "bf16"

[model]
preset = "{}"
"""


def workloads(named, scratch):
    if named:
        return [pathlib.Path(name).resolve() for name in named]
    found = [pathlib.Path("recipes/workloads/gpt2-774m-b8.toml").resolve()]
    for preset in ("tinyllama-small", "mixtral-tiny"):
        made = scratch / f"{preset}.toml"
        made.write_text(SMALL.format(preset))
        found.append(made)
    return found


class Bench:
    def __init__(self, program, scratch):
        self.program, self.scratch = pathlib.Path(program).resolve(), scratch

    def call(self, *words):
        done = subprocess.run([self.program, *map(str, words)], cwd=self.scratch, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"hyperion {' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    def train(self, recipe, run, steps, *more):
        self.call("train", recipe, "--run", run, "--steps", steps, "--optimize", "graph", "--data.source=text",
                  "--data.path=text.txt", "--eval.every=0", "--checkpoint.every=0", *more)
        lines = (self.scratch / "runs" / run / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if "step_ms" in record]


def pauses(steps):
    """Milliseconds from each step's end to the next one's, by the later step."""
    return {b["step"]: 1e3 * (b["unix_s"] - a["unix_s"]) for a, b in zip(steps, steps[1:])}


def kernels(trace):
    return [event for event in trace["traceEvents"] if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def measure(bench, recipe):
    row = {"workload": recipe.stem}
    steps = bench.train(recipe, recipe.stem, STEPS, "--profile", f"{WARM}+{TRACED}@{EVERY},every={EVERY}")
    took = pauses(steps)
    # Of the first trace of a process what loads the profiler is left out, as it happens once.
    near = lambda step: step % EVERY <= WARM + TRACED + 2
    quiet = statistics.median(took[step] for step in took if step > EVERY + 10 and not near(step))
    later = [step for step in took if step >= 2 * EVERY and near(step)]
    traces = len({step // EVERY for step in later})
    extra = sum(took[step] - quiet for step in later) / max(traces, 1)
    row["step ms"] = quiet
    row["cost %"] = 100 * extra / (1000 * quiet)
    row["pause ms"] = max(took[step] for step in later) - quiet
    bench.call("trace", "export", recipe.stem, "--to", "chrome", "--output", f"{recipe.stem}-json")
    text = (bench.scratch / f"{recipe.stem}-json" / "rank-0.json").read_bytes()
    newest = max((bench.scratch / "runs" / recipe.stem / "traces").glob("*.htrace"), key=lambda path: path.stat().st_mtime)
    row["JSON / own"] = len(text) / newest.stat().st_size
    row["gzip / own"] = len(gzip.compress(text)) / newest.stat().st_size
    ran = kernels(json.loads(text))
    told = [event for event in ran if event.get("args", {}).get("phase") and event["args"].get("layer")]
    row["kernels"] = len(ran)
    row["told %"] = 100 * sum(event["dur"] for event in told) / max(sum(event["dur"] for event in ran), 1e-9)
    layers = json.loads(bench.call("trace", "analyze", recipe.stem, "--json"))["layers"]
    if layers:
        row["layers + idle, % of step"] = 100 * layers[0]["step_us"] / 1e3 / quiet
    remembered = bench.train(recipe, f"{recipe.stem}-memory", EVERY, "--profile", f"1+1@{EVERY - 3},memory")
    lines = json.loads(bench.call("trace", "memory", f"{recipe.stem}-memory", "--json"))[0]["devices"]
    gpu = [line for line in lines if line["device"] != "cpu"]
    allocator = max(record["memory_peak"] for record in remembered)
    row["memory, % of allocator's"] = 100 * gpu[0]["peak"] / allocator if gpu else float("nan")
    return row


def main():
    program, *named = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "text.txt").write_text("".join(random.Random(1).choices("abcdefghij klmnop\n", k=4_000_000)))
        rows = []
        for recipe in workloads(named, scratch):
            rows.append(measure(Bench(program, scratch), recipe))
            print(json.dumps(rows[-1]), flush=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    print("\n" + " | ".join(names))
    for row in rows:
        print(" | ".join(row[name] if isinstance(row.get(name), str) else f"{row.get(name, float('nan')):.2f}" for name in names))


main()
