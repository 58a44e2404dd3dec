"""The real vocabularies that script/oracles fetched, in tiktoken, in tokenizers, and in the program here."""
import base64
import functools
import json
import os
import pathlib
import subprocess

import tiktoken
import tokenizers

PROGRAM = os.environ["HYPERION_PROGRAM"]
FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / ".deps" / "tokenizer-oracles"
# As published: tiktoken's own for gpt2 and cl100k; Meta's and Alibaba's tokenizer.json for the others.
PATTERNS = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "llama3": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


@functools.lru_cache(maxsize=None)
def ranks(name):
    lines = (FOLDER / f"{name}.tiktoken").read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


@functools.lru_cache(maxsize=None)
def in_tiktoken(name, pattern):
    return tiktoken.Encoding(name, pat_str=PATTERNS[pattern], mergeable_ranks=ranks(name), special_tokens={})


def alphabet():
    """The characters that byte-level vocabularies spell bytes with."""
    visible = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{byte: chr(byte) for byte in visible}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


def parts_of(token, known):
    """The two tokens that merge into this one: what all merges before it make of its bytes."""
    parts = [bytes([byte]) for byte in token]
    limit = known[token]
    while True:
        at = min(range(len(parts) - 1), key=lambda i: known.get(parts[i] + parts[i + 1], limit))
        if known.get(parts[at] + parts[at + 1], limit) >= limit:
            assert len(parts) == 2, token
            return parts
        parts[at:at + 2] = [parts[at] + parts[at + 1]]


def merges_and_vocabulary(name):
    known, letters = ranks(name), alphabet()
    spell = lambda token: "".join(letters[byte] for byte in token)
    order = sorted(known, key=known.get)
    merges = [tuple(spell(part) for part in parts_of(token, known)) for token in order if len(token) > 1]
    return {spell(token): rank for token, rank in known.items()}, merges


def tokenizer_json(name, pattern):
    """A tokenizer.json with the ranks of `name` and the cuts of `pattern`, made once and kept."""
    path = FOLDER / f"{name}-{pattern}.json"
    if path.exists():
        return path
    vocabulary, merges = merges_and_vocabulary(name)
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    if pattern == "gpt2":
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERNS[pattern]), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if pattern == "qwen2":
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    made.add_special_tokens([tokenizers.AddedToken("<|endoftext|>", special=True), tokenizers.AddedToken("<|im_start|>", special=True),
                             tokenizers.AddedToken("<|im_end|>", special=True)])
    partial = path.with_suffix(f".{os.getpid()}")
    made.save(str(partial))
    partial.rename(path)
    return path


def run(*words, stdin=b""):
    done = subprocess.run([PROGRAM, "data", *map(str, words)], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def tokenize(tokenizer, text, *words):
    data = text if isinstance(text, bytes) else text.encode()
    return [int(word) for word in run("tokenize", "--tokenizer", tokenizer, *words, stdin=data).split()]


def tokenize_lines(tokenizer, lines, *words):
    data = b"".join(line.encode() + b"\n" for line in lines)
    out = run("tokenize", "--tokenizer", tokenizer, "--lines", *words, stdin=data).decode().split("\n")
    assert out.pop() == ""
    return [[int(word) for word in line.split()] for line in out]


def offset_lines(tokenizer, lines, *words):
    """Of each line (id, begin, end) of each token, in bytes."""
    data = b"".join(line.encode() + b"\n" for line in lines)
    out = run("tokenize", "--tokenizer", tokenizer, "--lines", "--offsets", *words, stdin=data).decode().split("\n")
    assert out.pop() == ""
    return [[tuple(map(int, word.replace("-", ":").split(":"))) for word in line.split()] for line in out]


def detokenize(tokenizer, ids, *words):
    return run("detokenize", "--tokenizer", tokenizer, *words, stdin=" ".join(map(str, ids)).encode())


def difference(ours, theirs):
    """Where two lists of ids part, for a message that can be read."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return f"token {at} of {len(theirs)}: {ours[at:at + 8]} here, {theirs[at:at + 8]} there"


def saved_vocabulary(name):
    """A folder with vocab.json and merges.txt, made once and kept."""
    folder = FOLDER / f"{name}-vocabulary"
    if not (folder / "merges.txt").exists():
        model = json.loads(tokenizer_json(name, "gpt2").read_text())["model"]
        folder.mkdir(exist_ok=True)
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(merge) + "\n" for merge in model["merges"]))
    return folder
