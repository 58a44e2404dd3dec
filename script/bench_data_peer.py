"""MB/s of `hyperion bench data`, tiktoken and tokenizers on one text, one thread each: see script/bench-data-peer."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import mixed_text
import tokenizers
import vocabularies as v

ROUNDS, SECONDS, MEGABYTES = (int(os.environ.get(name, value)) for name, value in (("ROUNDS", 3), ("SECONDS_A_CASE", 3), ("MEGABYTES", 8)))


def made_text():
    """Mostly prose in words as frequent as in books, some code and other scripts; no runs."""
    rng = mixed_text.generator(1)
    letters = "etaoinshrdlucmfwygpbvk"
    words = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 4 + i // 4000))) for i in range(30_000)]
    parts, size = [], 0
    while size < MEGABYTES * 1_000_000:
        kind = rng.randrange(20)
        part = rng.choice(mixed_text.CODE) if kind < 2 else mixed_text.script(rng) if kind == 2 else mixed_text.prose(rng) if kind < 5 else (
            " ".join(words[int(30_000 ** rng.random()) - 1] for _ in range(rng.randint(5, 25))).capitalize() + ".\n")
        parts.append(part)
        size += len(part.encode())
    return "".join(parts)


def rate(work, size):
    """The median over passes for so many seconds, after one that does not count."""
    work()
    passes = []
    while sum(passes) < SECONDS or len(passes) < 3:
        begun = time.perf_counter()
        work()
        passes.append(time.perf_counter() - begun)
    return size / 1e6 / statistics.median(passes)


def ours(path, text_path):
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run([v.PROGRAM, "bench", "data", "--tokenizer", path, "--text", text_path, "--seconds", str(SECONDS), "--folder", folder, "--json"],
                             capture_output=True, check=True)
    return {row["threads"]: row for row in json.loads(out.stdout)["rows"]}


def main():
    text = pathlib.Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else made_text()
    size = len(text.encode())
    # tokenizers takes a text of megabytes at once far slower than its documents one after the other: it gets those.
    documents = text.splitlines(keepends=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        print(f"{size / 1e6:.1f} MB, medians of {ROUNDS} rounds, MB/s on one thread")
        print(f"{'':<8}{'ours':>9}{'tiktoken':>10}{'ratio':>8}{'tokenizers':>12}{'ratio':>8}{'all cores':>11}{'scaling':>9}")
        for name, pattern in (("gpt2", "gpt2"), ("qwen", "qwen2")):
            tiktoken, fast = v.in_tiktoken(name, pattern), tokenizers.Tokenizer.from_file(str(v.tokenizer_json(name, pattern)))
            mine, many, scaling, first, second = [], [], [], [], []
            for _ in range(ROUNDS):
                rows = ours(v.FOLDER / f"{name}.tiktoken", file.name)
                last = max(rows)
                mine.append(rows[1]["mb_per_s"])
                many.append(rows[last]["mb_per_s"])
                scaling.append(rows[last]["efficiency"])
                first.append(rate(lambda: tiktoken.encode_ordinary(text), size))
                second.append(rate(lambda: [fast.encode(document, add_special_tokens=False).ids for document in documents], size))
            a, b, c = (statistics.median(values) for values in (mine, first, second))
            print(f"{name:<8}{a:>9.1f}{b:>10.1f}{a / b:>8.1f}{c:>12.1f}{a / c:>8.1f}{statistics.median(many):>11.1f}{statistics.median(scaling):>9.0%}")


if __name__ == "__main__":
    main()
