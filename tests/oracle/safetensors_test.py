"""Our safetensors reader accepts and refuses mutated files as PyPI's does, but for what docs/format_checkpoint.md lists as refused on
purpose. Usage: safetensors_test.py COUNT [SEED]"""
import collections
import json
import math
import os
import random
import struct
import subprocess
import sys

from safetensors import deserialize

BATCH = 5000
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
        "U64": 64}
EDGES = [0, 1, 2, 7, 8, 255, 2**31, 2**32, 2**53, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -1, 1.0, 0.5, 1e300]
NAMES = ["a", "b", "", "h.0.weight", "é", "日本", "😀", 'q"uote', "back\\slash", "\n", "\x7f", "__metadata__", "__metadata", "dtype"]
VALUES = ["0", "-0", "1", "-1", "1.5", "1e5", "1E-400", "1e400", "null", "true", "false", '""', '"x"', "[]", "{}", "[1,[2,{}]]", '{"a":1,"a":2}',
          "18446744073709551616", "-9223372036854775809", "01", "1.", ".5", "+1", "NaN", "nul", "[1,]", '{"a"}', '"\\ud800"',
          '"\\ud83d\\ude00"', '"\\udc00"', '"\\x"', '"\\u12"', "[" * 125 + "]" * 125, "[" * 126 + "]" * 126, '{"a":' * 60 + "1" + "}" * 60]
TOKENS = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"0", b"1", b"-", b".", b"e", b"\\", b"\\u0041", b"\\u0000", b"\\ud800", b"\x00", b"\x01",
          b"\x1f", b"\x7f", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xef\xbb\xbf", b" ", b"\t", b"\n", b"\x0b",
          b"null", b"//", b"'", b"U8", b"F32", b"shape", b"__metadata__"]


class Raw(str):
    """Text that goes into the header as it is."""


def spelled(value, chance):
    """JSON, spelled in one of the ways there are."""
    space = chance.choice(["", "", "", " ", "\n\t"])
    if isinstance(value, Raw):
        return value
    if isinstance(value, Object):
        return "{" + ("," + space).join(spelled(k, chance) + ":" + space + spelled(v, chance) for k, v in value) + space + "}"
    if isinstance(value, list):
        return "[" + ("," + space).join(spelled(each, chance) for each in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=chance.random() < 0.3)
    return json.dumps(value)


class Object(list):
    """Pairs, so that a key can occur twice."""


def good_header(chance):
    """A header with all in order, and the size of its data."""
    header, reached = Object(), 0
    for name in chance.sample(NAMES[:11], chance.choice([0, 1, 1, 2, 2, 3, 5])):
        dtype = chance.choice(list(BITS))
        shape = [chance.choice([0, 1, 2, 3, 4, 8]) for _ in range(chance.choice([0, 1, 1, 2, 2, 3, 4]))]
        while math.prod(shape) * BITS[dtype] % 8:
            shape.append(chance.choice([4, 8]))
        size = math.prod(shape) * BITS[dtype] // 8
        fields = Object([("dtype", dtype), ("shape", shape), ("data_offsets", [reached, reached + size])])
        chance.shuffle(fields)
        header.append((name, fields))
        reached += size
    chance.shuffle(header)
    if chance.random() < 0.4:
        pairs = Object((chance.choice(NAMES) + str(i), chance.choice(NAMES)) for i in range(chance.choice([0, 1, 3])))
        header.insert(chance.randrange(len(header) + 1), ("__metadata__", pairs))
    return header, reached


def replaced(pairs, key, value):
    for i, (name, _) in enumerate(pairs):
        if name == key:
            pairs[i] = (key, value)


def break_entry(fields, chance):
    known = dict(fields)
    shape, offsets = known.get("shape"), known.get("data_offsets")
    kind = chance.randrange(12)
    if kind == 0:
        replaced(fields, "dtype", chance.choice([*BITS, "F33", "f32", "", 4, Raw('{"U8":null}'), Raw('["U8"]')]))
    elif kind == 1 and isinstance(shape, list) and shape:
        shape[chance.randrange(len(shape))] = chance.choice(EDGES)
    elif kind == 2 and isinstance(shape, list):
        shape.insert(chance.randrange(len(shape) + 1), chance.choice([0, 1, 1, *EDGES]))
    elif kind == 3 and isinstance(offsets, list) and offsets:
        offsets[chance.randrange(len(offsets))] = chance.choice(EDGES)
    elif kind == 4 and isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(each, int) for each in offsets):
        move = chance.choice([-8, -1, 1, 2, 8])
        replaced(fields, "data_offsets", [offsets[0] + move, offsets[1] + chance.choice([0, move])])
    elif kind == 5 and isinstance(offsets, list):
        offsets.append(0) if chance.random() < 0.5 else offsets.reverse()
    elif kind == 6 and fields:
        fields.pop(chance.randrange(len(fields)))
    elif kind == 7 and fields:
        fields.insert(chance.randrange(len(fields) + 1), chance.choice(fields))
    elif kind == 8:
        replaced(fields, chance.choice(["dtype", "shape", "data_offsets"]), Raw(chance.choice(VALUES)))
    elif kind == 9 and isinstance(shape, list):
        shape.extend([1] * chance.choice([1, 60, 64, 65]))
    else:
        fields.insert(chance.randrange(len(fields) + 1), (chance.choice(NAMES + ["Shape", "offset"]), Raw(chance.choice(VALUES))))


def break_header(header, chance):
    kind = chance.randrange(10)
    entries = [pair for pair in header if isinstance(pair[1], Object) and pair[0] != "__metadata__"]
    metadata = dict(header).get("__metadata__")
    if kind == 0 and header:
        header.insert(chance.randrange(len(header) + 1), chance.choice(header))
    elif kind == 1 and isinstance(metadata, Object):
        metadata.append(chance.choice(metadata) if metadata and chance.random() < 0.5 else (chance.choice(NAMES), Raw(chance.choice(VALUES))))
    elif kind == 2:
        header.append((chance.choice(NAMES), Raw(chance.choice(VALUES))))
    elif kind == 3 and entries:
        name, fields = chance.choice(entries)
        values = dict(fields)
        replaced(header, name, [values.get(key, 0) for key in ("dtype", "shape", "data_offsets")])
    elif entries:
        break_entry(chance.choice(entries)[1], chance)


def break_bytes(data, chance):
    data = bytearray(data)
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(5)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at:at] = chance.choice(TOKENS)
    elif kind == 2:
        del data[at:at + chance.choice([1, 1, 2, 5, 20])]
    elif kind == 3:
        token = chance.choice(TOKENS)
        data[at:at + len(token)] = token
    else:
        other = chance.randrange(len(data) + 1)
        data[at:at] = data[other:other + chance.randrange(40)]
    return bytes(data)


def candidate(chance):
    """A file that has up to three breaks, of any kind; one in five has none."""
    header, size = good_header(chance)
    breaks = chance.choice([0, 1, 1, 2, 3])
    inside = sum(chance.random() < 0.6 for _ in range(breaks))
    for _ in range(inside):
        break_header(header, chance)
    text = spelled(header, chance).encode("utf-8", "surrogatepass")
    text = chance.choice([b"", b"", b"", b" ", b"\n\t\r "]) + text + b" " * chance.choice([0, 0, 1, 7])
    length, data = None, bytes(size)
    for _ in range(breaks - inside):
        kind = chance.randrange(8)
        if kind == 0:
            data = data[:chance.randrange(len(data) + 1)] + bytes(chance.choice([0, 1, 8]))
        elif kind == 1:
            length = chance.choice([len(text) + chance.choice([-8, -1, 1, 8]), *EDGES[:14], 100_000_000, 100_000_001])
        else:
            text = break_bytes(text, chance)
    file = struct.pack("<Q", max(0, len(text) if length is None else length)) + text + data
    return file[:chance.randrange(len(file) + 1)] if breaks and chance.random() < 0.03 else file


def on_purpose(file):
    """Why we refuse a file that PyPI's reader accepted; None where there is no reason."""
    size, = struct.unpack("<Q", file[:8])
    header = json.loads(file[8:8 + size].decode(), object_pairs_hook=Object)
    names = [name for name, _ in header]
    metadata = [key for key, _ in dict(header).get("__metadata__") or []]
    if len(set(names)) < len(names) or len(set(metadata)) < len(metadata):
        return "a key that occurs twice"
    for name, entry in header:
        if name == "__metadata__":
            continue
        if not isinstance(entry, Object):
            return "a tensor written as an array"
        fields = dict(entry)
        if not isinstance(fields["dtype"], str):
            return "a dtype written as an object"
        dims = [dim for dim in fields["shape"] if dim != 0]
        if len(fields["shape"]) > 64 or math.prod(dims) >= 2**63 or math.prod(dims) * BITS[fields["dtype"]] >= 2**64:
            return "a shape no tensor can have"
    return None


def accepts(file):
    try:
        deserialize(file)
        return True
    except BaseException as error:  # a panic of theirs is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return False


def main(count, seed):
    ours = subprocess.Popen([os.environ["HYPERION_VERDICTS"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    chance = random.Random(seed)
    found, wrong = collections.Counter(), []
    for first in range(0, count, BATCH):
        files = [candidate(chance) for _ in range(min(BATCH, count - first))]
        # The empty file at the end makes the program answer the batch at once.
        ours.stdin.write(b"".join(struct.pack("<Q", len(file)) + file for file in files + [b""]))
        ours.stdin.flush()
        verdicts = ours.stdout.read(len(files) + 1).decode()
        for file, verdict in zip(files, verdicts, strict=False):
            theirs = accepts(file)
            if verdict == "ar"[not theirs]:
                found["accepted by both" if theirs else "refused by both"] += 1
            elif theirs and verdict == "r" and (reason := on_purpose(file)):
                found["refused on purpose: " + reason] += 1
            else:
                wrong.append((file, verdict, theirs))
        if len(verdicts) != len(files) + 1:
            sys.exit(f"the program ended early, with {ours.wait()}")
    ours.stdin.close()
    print(f"{count} files, seed {seed}: {len(wrong)} disagreements")
    for name, times in sorted(found.items()):
        print(f"{times:9}  {name}")
    for file, verdict, theirs in wrong[:10]:
        print(f"\nours: {verdict}, theirs: {'a' if theirs else 'r'}\n{file!r}")
    enough = {"accepted by both": count / 10, "refused by both": count / 10}
    poor = [name for name, least in enough.items() if found[name] < least]
    if poor:
        print("too few are", ", ".join(poor))
    return 1 if wrong or poor or ours.wait() != 0 else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
