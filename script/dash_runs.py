"""Makes run folders as training writes them, for script/test-dash: numbers that look like a run's, and a run that grows."""
import json
import math
import pathlib
import random
import time

FIELDS = ["loss", "grad_norm", "lr", "step_ms", "tokens", "tokens_per_s", "tflops", "mfu", "memory_allocated", "memory_reserved", "memory_peak", "data_wait_ms", "forward_ms",
          "backward_ms", "optimizer_ms", "comm_ms", "comm_total_ms", "comm_bytes", "samples", "sample_hash", "accuracy", "expert_busiest", "expert_idle", "expert_dropped",
          "stopped_ms", "held_up", "gpu_clock_mhz", "gpu_power_w", "gpu_celsius", "gpu_busy_percent", "gpu_slowed", "energy_j", "unix_s"]


def step_record(step, steps, draw, begun):
    part = step / steps
    forward, backward, optimizer, wait = 31 + draw.gauss(0, 0.6), 62 + draw.gauss(0, 1), 9 + draw.gauss(0, 0.2), abs(draw.gauss(0.4, 0.3))
    comm = abs(draw.gauss(3, 1)) + (40 if draw.random() < 0.0005 else 0)
    total = forward + backward + optimizer + wait + comm
    values = {
        "loss": 2.2 + 8.5 * math.exp(-9 * part) + draw.gauss(0, 0.05), "grad_norm": 0.4 + 2 * math.exp(-6 * part) + abs(draw.gauss(0, 0.08)) + (6 if draw.random() < 0.0003 else 0),
        "lr": 6e-4 * min(1, step / (0.02 * steps)) * (0.55 + 0.45 * math.cos(math.pi * part)), "step_ms": total, "tokens": 524288, "tokens_per_s": 524288e3 / total,
        "tflops": 412 * 105 / total, "mfu": 0.417 * 105 / total, "memory_allocated": 51_200_000_000 + int(draw.gauss(0, 1e7)), "memory_reserved": 68_000_000_000,
        "memory_peak": 63_400_000_000 + int(draw.gauss(0, 1e7)), "data_wait_ms": wait, "forward_ms": forward, "backward_ms": backward, "optimizer_ms": optimizer, "comm_ms": comm,
        "comm_total_ms": comm + 21, "comm_bytes": 248_000_000, "samples": step * 512, "sample_hash": f"{draw.getrandbits(64):016x}", "accuracy": 0.18 + 0.32 * (1 - math.exp(-7 * part)),
        "expert_busiest": None, "expert_idle": None, "expert_dropped": None, "stopped_ms": 0.0, "held_up": "compute of rank 3" if draw.random() < 0.02 else None,
        "gpu_clock_mhz": 1755 + draw.gauss(0, 12), "gpu_power_w": 640 + draw.gauss(0, 14), "gpu_celsius": 58 + 3 * math.sin(part * 20), "gpu_busy_percent": 97 + draw.random() * 2,
        "gpu_slowed": None, "energy_j": 640 * total / 1e3, "unix_s": begun + step * 0.106,
    }
    return {"step": step, **{field: values[field] for field in FIELDS}}


def evaluation_record(step, steps, draw):
    loss = 2.25 + 8.4 * math.exp(-9 * step / steps) + draw.gauss(0, 0.01)
    texts = ["there was a lighthouse whose keeper counted ships.", "a small fox asked the river where it was going."]
    return {"step": step, "split": "validation", "loss": loss, "perplexity": math.exp(loss), "token_accuracy": 0.5 - 0.3 * math.exp(-7 * step / steps), "answers_right": None, "top_1": None,
            "top_5": None, "best_step": step, "documents_cut": None, "documents_dropped": None, "early_stop": None, "unix_s": None,
            "samples": [{"prompt": "Once upon a time", "text": draw.choice(texts)}, {"prompt": "The answer to 347+85 is", "text": f" {430 + draw.randrange(4)}."}]}


class Run:
    def __init__(self, folder, steps, planned=None, seed=1, ranks=4, status="running"):
        self.folder, self.planned, self.steps, self.ranks, self.status = pathlib.Path(folder), planned or steps, 0, ranks, status
        self.draw, self.begun = random.Random(seed), time.time() - steps * 0.106
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        (self.folder / "traces").mkdir(exist_ok=True)
        (self.folder / "traces" / "step-100-rank-0.json.gz").write_bytes(b"x" * 4000)
        (self.folder / "config.resolved.toml").write_text("[train]\n")
        for rank in range(ranks):
            (self.folder / f"metrics.rank-{rank}.csv").write_text("step," + ",".join(FIELDS) + "\n")
        self.describe()
        self.grow(steps)

    def describe(self):
        record = {"name": self.folder.name, "recipe": "recipes/gpt2-small.toml", "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.begun)),
                  "updated": "2026-11-19T12:00:00Z", "status": self.status, "failure": "", "step": self.steps, "steps": self.planned, "parameters": 124439808, "trained_parameters": 124439808,
                  "seconds": 0.0, "loss": None, "validation_loss": None, "perplexity": None, "token_accuracy": None, "answers_right": None, "top_1": None, "top_5": None, "best_step": None,
                  "best_validation_loss": None, "ended": "", "data": "9,035,582,198 tokens of OpenWebText", "environment": [["device", "NVIDIA H200, 4 of them"], ["program", "hyperion 0.1.0"], ["precision", "bf16"]]}
        part = self.folder / ".run.json.part"
        part.write_text(json.dumps(record))
        part.rename(self.folder / "run.json")

    def grow(self, steps=1):
        lines, every = [], max(1, self.planned // 40)
        first = self.steps + 1
        for step in range(first, first + steps):
            lines.append(json.dumps(step_record(step, self.planned, self.draw, self.begun), separators=(",", ":")))
            if step % every == 0:
                lines.append(json.dumps(evaluation_record(step, self.planned, self.draw), separators=(",", ":")))
        self.steps += steps
        for rank in range(self.ranks):
            with open(self.folder / f"metrics.rank-{rank}.csv", "a") as file:
                for step in range(max(first, self.steps - 50), self.steps + 1):
                    record = step_record(step, self.planned, self.draw, self.begun)
                    if rank == 3:
                        record["forward_ms"] += 14
                    file.write(",".join("" if value is None else str(value) for value in record.values()) + "\n")
        with open(self.folder / "logs" / "rank-0.log", "a") as file:
            for step in range(max(first, self.steps - 30), self.steps + 1):
                level = "warn" if step % 17 == 0 else "info"
                file.write(json.dumps({"time": "2026-11-19T12:00:00Z", "level": level, "rank": 0, "message": f"step {step}/{self.planned}: " + ("rank 3 computes 1.4 times as long as the others" if level == "warn" else "trained")}) + "\n")
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write("\n".join(lines) + "\n")
