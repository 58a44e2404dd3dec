"""Texts that tokenizers get wrong: prose, code, many scripts, emoji, right-to-left, control characters, white space, long runs."""
import random

WORDS = ("the of and to in was it's I'm we'll they've he'd YOU'RE DON'T Don'T it'S x'ſ 'tis o'clock rock'n'roll state-of-the-art e.g. naïve café "
         "Straße œuvre İstanbul ǅungla Ⅷ ½ x² H₂O supercalifragilisticexpialidocious antidisestablishmentarianism internationalization "
         "tokenizer gradient camelCase HTMLParser iOS XMLHttpRequest's WE'LLgo 中A日b 3.14159 1,234,567 2026-11-15 0x7fff 12:30 50% $9.99 #1 @home a/b C++ http://example.org/a?b=c&d=%20 "
         "résumé e\u0301le\u0300ve n\u0303 A\u030a ﬁn ２０２６ ｆｕｌｌ").split()
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "    if x == 'y':\n\n\n        pass  \n",
        "#include <vector>\r\n\r\nint main() { return 0; }\r\n", "SELECT * FROM t WHERE a <> \"b\";\n", "\t\t\t}\n\t\t}\n\t}\n}\n",
        "<div class=\"a\">&nbsp;</div>\n", "/* ---------- */\n//////////\n", "x=[[1,2],[3,4]];y={'k':None}\n", "$ ls -la | grep '^d' > /dev/null 2>&1\n"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇫🇷🇯🇵", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "⚡️", "1️⃣", "🫠", "👩🏿‍🚀"]
ODD = "\x00\x01\x07\x08\x0b\x0c\x1b\x1c\x1f\x7f\x80\x85\x9f\xa0\xad\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202e\u2060\ufeff\ufffd\ufffe\uffff\U000e0001\U0010ffff"
SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u2028\u202f\u3000"
RUNS = ["a", " ", "\n", "\t", "=", "-", "0", "'", "é", "好", "😀", "\u0301", "ab", " a", "\r\n", "\n ", "\u00a0", "¿", "1 ", "aA"]
SCRIPTS = [(0x4E00, 0x9FFF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0xAC00, 0xD7A3), (0x0621, 0x064A), (0x0610, 0x06FF), (0x05D0, 0x05EA), (0x0591, 0x05C7),
           (0x0900, 0x097F), (0x0E01, 0x0E5B), (0x0400, 0x04FF), (0x0370, 0x03FF), (0x00C0, 0x024F), (0x1100, 0x11FF), (0x20000, 0x2A6DF),
           (0xFF01, 0xFF5E), (0x2100, 0x2BFF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x0300, 0x036F), (0x0980, 0x0FFF), (0x1F00, 0x1FFF)]


def any_char(rng, limit=0x110000):
    while True:
        point = rng.randrange(limit)
        if not 0xD800 <= point < 0xE000:
            return chr(point)


def prose(rng):
    words = [rng.choice(WORDS) if rng.random() < 0.5 else "".join(rng.choice("etaoinshrdlu") for _ in range(rng.randint(1, 9)))
             for _ in range(rng.randint(3, 30))]
    return " ".join(words) + rng.choice([". ", "! ", "?\n", ";\n\n", "...", ", "])


def script(rng):
    low, high = rng.choice(SCRIPTS)
    marks = "，。！؟، ״“” \n"
    return "".join(rng.choice(marks) if rng.random() < 0.1 else chr(rng.randint(low, high)) for _ in range(rng.randint(1, 60)))


def part(rng, runs):
    """One stretch of some kind; `runs` is the longest run of one character."""
    kind = rng.randrange(12)
    if kind < 3:
        return prose(rng)
    if kind == 3:
        return rng.choice(CODE)
    if kind < 6:
        return script(rng)
    if kind == 6:
        return "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 5)))
    if kind == 7:
        return "".join(rng.choice(ODD) for _ in range(rng.randint(1, 6)))
    if kind == 8:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 8)))
    if kind == 9:
        return rng.choice(RUNS) * rng.randint(1, max(1, int(runs ** rng.random())))
    if kind == 10:
        return "".join(any_char(rng) for _ in range(rng.randint(1, 20)))
    return "".join(any_char(rng, 0x3000) for _ in range(rng.randint(1, 20)))


def text(rng, size, runs=300):
    parts, length = [], 0
    while length < size:
        parts.append(part(rng, runs))
        length += len(parts[-1])
    return "".join(parts)


def broken(rng, size):
    """Bytes that are nearly UTF-8."""
    data = bytearray(text(rng, size).encode())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        change = rng.randrange(4)
        if change == 0:
            data[at:at + 1] = bytes([rng.randrange(128, 256)])
        elif change == 1:
            del data[at:at + 1]
        elif change == 2:
            data[at:at] = rng.choice([b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x82", b"\xf0\x9f\x98"])
        else:
            data = data[:at + 1]
    return bytes(data) or b"\xff"


def generator(seed):
    return random.Random(seed)
