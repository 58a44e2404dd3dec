"""Compares ids on many megabytes of mixed text; script/tokenizer-oracle calls it. Usage: tokenizer_long.py MEGABYTES SEED"""
import pathlib
import sys
import time

import mixed_text
import tokenizers
import vocabularies as v

PART = 4 << 20
# Ranks against tiktoken, tokenizer.json against tokenizers; in turn.
CASES = [("gpt2", "gpt2", True), ("qwen", "qwen2", True), ("gpt2", "gpt2", False), ("qwen", "qwen2", False), ("qwen", "cl100k", True),
         ("gpt2", "llama3", True), ("qwen", "llama3", False)]


def source_code(rng, size):
    """Real code and its documentation: Python's own library."""
    files = sorted(pathlib.Path(tokenizers.__file__).parents[1].rglob("*.py")) + sorted(pathlib.Path(pathlib.__file__).parent.glob("*.py"))
    text = ""
    while len(text) < size:
        text += rng.choice(files).read_text(errors="replace")
    return text


def texts(seed):
    """Endless; each about PART bytes, every eighth with runs of a megabyte and bytes that are not UTF-8."""
    for number in range(1 << 30):
        rng = mixed_text.generator((seed << 20) + number)
        if number % 8 == 7:
            run = rng.choice(mixed_text.RUNS)
            yield number, (mixed_text.text(rng, 1000) + run * ((1 << 20) // len(run.encode())) + mixed_text.text(rng, PART // 4)).encode()
        elif number % 8 == 3:
            yield number, mixed_text.text(rng, PART // 4).encode() + mixed_text.broken(rng, 20_000)
        else:
            yield number, (source_code(rng, PART // 3) + mixed_text.text(rng, PART // 3, runs=100_000)).encode()


def expected(name, pattern, ranks, data):
    if ranks:
        encoding = v.in_tiktoken(name, pattern)
        try:
            return encoding.encode_ordinary(data.decode())
        except UnicodeDecodeError:
            return encoding._encode_bytes(data)
    return tokenizers.Tokenizer.from_file(str(v.tokenizer_json(name, pattern))).encode(data.decode()).ids


def main():
    wanted, seed = int(float(sys.argv[1]) * 1e6), int(sys.argv[2])
    done, tokens, started = 0, 0, time.time()
    for number, data in texts(seed):
        if done >= wanted:
            break
        name, pattern, ranks = CASES[number % len(CASES)]
        try:
            data.decode()
        except UnicodeDecodeError:
            ranks = True
        path = v.FOLDER / f"{name}.tiktoken" if ranks else v.tokenizer_json(name, pattern)
        words = ["--pattern", pattern] if ranks else []
        ours = v.tokenize(path, data, *words)
        try:
            theirs = expected(name, pattern, ranks, data)
        except BaseException as error:  # tiktoken's own matcher gives up on some megabyte runs
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"text {number} (seed {seed}): {'tiktoken' if ranks else 'tokenizers'} failed: {str(error)[:100]}; only decoded here")
            theirs = ours
        if ours != theirs:
            sys.exit(f"text {number} (seed {seed}), {name} {pattern}, {'tiktoken' if ranks else 'tokenizers'}: {v.difference(ours, theirs)}")
        if (ranks or pattern != "qwen2") and v.detokenize(path, ours, *words) != data:
            sys.exit(f"text {number} (seed {seed}), {name} {pattern}: decoding does not give the bytes back")
        done += len(data)
        tokens += len(ours)
        print(f"{done / 1e6:.0f} of {wanted / 1e6:.0f} MB, {tokens:,} tokens the same, {time.time() - started:.0f} s", flush=True)
    print(f"same ids over {done / 1e6:.1f} MB and {tokens:,} tokens")


main()
