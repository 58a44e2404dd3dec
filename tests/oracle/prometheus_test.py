"""A real Prometheus scrapes what `hyperion runs export --to prometheus` writes, and reads back the values of metrics.jsonl; `promtool check
metrics` finds nothing to mend. All on 127.0.0.1, and ended after a minute.
Usage: prometheus_test.py [SEED], where HYPERION_PROGRAM is the program"""
import functools
import http.server
import json
import math
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

PROGRAM = os.environ["HYPERION_PROGRAM"]
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0
DEADLINE = time.monotonic() + 60
# Of the newest step, and by what it is divided on the way to base units.
STEP = {"hyperion_train_loss": ("loss", 1), "hyperion_gradient_norm": ("grad_norm", 1), "hyperion_learning_rate": ("lr", 1),
        "hyperion_tokens_per_second": ("tokens_per_s", 1), "hyperion_step_duration_seconds": ("step_ms", 1e3),
        "hyperion_train_samples_total": ("samples", 1), "hyperion_gpu_power_watts": ("gpu_power_w", 1), "hyperion_train_steps_total": ("step", 1)}
EVALUATION = {"hyperion_evaluation_loss": "loss", "hyperion_evaluation_perplexity": "perplexity",
              "hyperion_evaluation_token_accuracy_ratio": "token_accuracy"}


def make_run(folder, rng):
    """Writes a run's files; returns its newest step, its newest validation and all its tokens."""
    folder.mkdir(parents=True)
    (folder / "config.resolved.toml").write_text("[train]\nbatch = 12\n")
    (folder / "run.json").write_text(json.dumps({
        "name": folder.name, "recipe": "r.toml", "created": "2025-11-19T03:40:00Z", "updated": "2025-11-19T03:50:00Z", "status": "complete",
        "failure": "", "step": 40, "steps": 40, "parameters": 1, "trained": 1, "seconds": 10, "data": "", "ended": "", "loss": 1.5,
        "validation_loss": None, "perplexity": None, "environment": []}))
    lines, tokens = [], 0
    for number in range(1, 41):
        step = {"step": number, "tokens": rng.randrange(1, 1 << 30), "samples": rng.randrange(1, 1 << 20), "sample_hash": "0123456789abcdef"}
        for key in """loss grad_norm lr step_ms tokens_per_s tflops mfu data_wait_ms forward_ms backward_ms optimizer_ms comm_ms comm_total_ms
                accuracy expert_busiest expert_idle expert_dropped stopped_ms gpu_clock_mhz gpu_power_w gpu_celsius gpu_busy_percent energy_j""".split():
            step[key] = rng.choice([rng.random(), rng.random() * 10 ** rng.randrange(-30, 30)])
        for key in ("memory_allocated", "memory_reserved", "memory_peak", "comm_bytes"):
            step[key] = rng.randrange(1 << 40)
        step |= {"held_up": None, "gpu_slowed": None}
        tokens += step["tokens"]
        lines.append(json.dumps(step))
    validation = {"step": 40, "split": "validation", "loss": rng.random(), "perplexity": rng.random(), "token_accuracy": rng.random(),
                  "answers_right": rng.random(), "top_1": rng.random(), "top_5": rng.random(), "best_step": 40, "documents_cut": 0,
                  "documents_dropped": 0, "early_stop": None, "samples": []}
    lines.append(json.dumps(validation))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return step, validation, tokens


class Exporter(http.server.SimpleHTTPRequestHandler):
    """Each file as a target would show it."""
    extensions_map = {".prom": "text/plain; version=0.0.4; charset=utf-8"}

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, path, **words):
    query = f"?{urllib.parse.urlencode(words)}" if words else ""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}{query}", timeout=10) as answer:
        return answer.read().decode()


def until(what, look):
    while time.monotonic() < DEADLINE:
        try:
            if found := look():
                return found
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within a minute")


def samples_of(port):
    result = json.loads(ask(port, "api/v1/query", query='{__name__=~"hyperion_.*"}'))["data"]["result"]
    return {(row["metric"]["__name__"], row["metric"]["run"], *(value for key, value in sorted(row["metric"].items())
                                                               if key not in ("__name__", "run", "job", "instance"))): float(row["value"][1]) for row in result}


def text_samples(text, run):
    """What our own text says: {(name, run, other labels' values): value}."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        head, value = line.rsplit(" ", 1)
        name, labels = head.split("{", 1)
        labels = dict(part.split("=", 1) for part in labels.rstrip("}").split(","))
        assert json.loads(labels.pop("run")) == run
        found[name, run, *(json.loads(value) for _, value in sorted(labels.items()))] = float(value)
    return found


def main():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        runs = {name: make_run(scratch / "runs" / name, rng) for name in ("first", "second")}
        subprocess.run([PROGRAM, "runs", "export", *(str(scratch / "runs" / name) for name in runs), "--to", "prometheus", "--output",
                        str(scratch / "out")], check=True, stdout=subprocess.PIPE)
        texts = {name: (scratch / "out" / f"{name}.prom").read_text() for name in runs}
        for name, text in texts.items():
            said = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
            assert said.returncode == 0 and not said.stdout and not said.stderr, f"promtool of {name}:\n{said.stdout}{said.stderr}"
        broken = subprocess.run(["promtool", "check", "metrics"], input="# TYPE loss counter\nloss 1\n", text=True, capture_output=True)
        assert broken.returncode != 0, "promtool mends nothing here"

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Exporter, directory=scratch / "out"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        jobs = "".join(f"  - job_name: {name}\n    metrics_path: /{name}.prom\n    static_configs:\n      - targets: ['127.0.0.1:{server.server_port}']\n"
                       for name in runs)
        (scratch / "prometheus.yml").write_text(f"global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n{jobs}")
        subprocess.run(["promtool", "check", "config", scratch / "prometheus.yml"], check=True, stdout=subprocess.PIPE)
        port = free_port()
        with open(scratch / "log", "w") as log:
            prometheus = subprocess.Popen(["prometheus", f"--config.file={scratch}/prometheus.yml", f"--storage.tsdb.path={scratch}/tsdb",
                                           f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            wanted = {key: value for name, text in texts.items() for key, value in text_samples(text, name).items()}
            try:
                until("Prometheus is ready", lambda: "Ready" in ask(port, "-/ready"))
                until("every value is scraped", lambda: set(samples_of(port)) == set(wanted))
            except AssertionError:
                print((scratch / "log").read_text()[-3000:])
                raise
            found = samples_of(port)
            targets = json.loads(ask(port, "api/v1/targets"))["data"]["activeTargets"]
            assert len(targets) == len(runs) and all(target["health"] == "up" for target in targets), targets
        finally:
            prometheus.terminate()
            try:
                prometheus.wait(10)
            except subprocess.TimeoutExpired:
                prometheus.kill()
            server.shutdown()
        for key, value in wanted.items():
            assert found[key] == value, (key, found[key], value)
        compared = 0
        for name, (step, validation, tokens) in runs.items():
            for metric, (key, scale) in STEP.items():
                if (metric, name) not in found:
                    continue
                assert math.isclose(found[metric, name], step[key] / scale, rel_tol=1e-15), (metric, found[metric, name], step[key])
                compared += 1
            for metric, key in EVALUATION.items():
                assert found[metric, name, "validation"] == validation[key], metric
                compared += 1
            assert found["hyperion_train_tokens_total", name] == tokens
        assert compared >= 20, compared
    print(f"seed {SEED}: promtool finds nothing to mend; Prometheus scraped {len(wanted)} values equal to ours, {compared} held against metrics.jsonl")


main()
