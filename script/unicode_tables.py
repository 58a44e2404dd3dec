"""Writes hyperion/text/unicode_tables.cc and hyperion/tokenizers/normal_form_tables.cc, the tables behind unicode.h and normal_forms.h.
Needs `unicodedata2==16.0.0` and `tokenizers` from PyPI: script/oracles makes .deps/tokenizer-oracles with both.
    .deps/tokenizer-oracles/bin/python script/unicode_tables.py
Categories are Unicode 16's, as in the regular expressions of tiktoken and tokenizers; lower case is that of `tokenizers`. Normal forms are those of
`tokenizers`, which stayed at Unicode 9: a character that came later has no decomposition there, and none here."""
import pathlib

import tokenizers
import unicodedata2 as unicode

HOUSE = pathlib.Path(__file__).resolve().parent.parent / "hyperion"
# The order of CharClass in unicode.h. \s is more than Z*: some control characters too.
CLASSES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Nd", "Nl", "No", "Pc", "P", "S", "space", "C"]
SPACES = set(range(9, 14)) | {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000} | set(range(0x2000, 0x200B))
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def class_of(point):
    if point in SPACES:
        return CLASSES.index("space")
    category = unicode.category(chr(point))
    return CLASSES.index(category if category in CLASSES else category[0])


def packed(numbers):
    """Each number in digits of five bits, lowest first; a digit that another follows has the sixth bit set. Digits are the 64
    characters from '#', of which none is a quotation mark."""
    out = []
    for number in numbers:
        assert number >= 0
        while True:
            digit, number = number & 31, number >> 5
            out.append(chr(35 + digit + (32 if number else 0)))
            if not number:
                break
    return "".join(out)


def zigzag(number):
    return 2 * number if number >= 0 else -2 * number - 1


def class_table():
    """(length of the run, class) until the end of Unicode."""
    numbers, start = [], 0
    classes = [class_of(point) for point in range(0x110000)]
    for point in range(1, 0x110001):
        if point == 0x110000 or classes[point] != classes[start]:
            numbers += [point - start, classes[start]]
            start = point
    return numbers


def lower_table():
    """(gap since the run before, stride, count, zigzag of lower minus upper) for runs of one difference; the dotted capital I, whose
    lower case is two characters, is left to the source."""
    upper = {}
    for point in POINTS:
        low = tokenizers.normalizers.Lowercase().normalize_str(chr(point))
        if low != chr(point) and len(low) == 1:
            upper[point] = ord(low) - point
    numbers, last, points = [], 0, sorted(upper)
    while points:
        first = points[0]
        runs = []
        for stride in (1, 2):
            run = [first]
            while upper.get(run[-1] + stride) == upper[first]:
                run.append(run[-1] + stride)
            runs.append((len(run), -stride, run))
        count, stride, run = max(runs)
        numbers += [first - last, -stride, count, zigzag(upper[first])]
        last = first
        points = [point for point in points if point not in set(run)]
    return numbers


def known_there(form, text):
    return getattr(tokenizers.normalizers, form)().normalize_str(text) == unicode.normalize(form, text)


def combining_there(point):
    """Whether `tokenizers` moves the mark across one of another class as Unicode says."""
    for other in (0x334, 0x321, 0x315, 0x345, 0x93C):
        for text in ("a" + chr(point) + chr(other), "a" + chr(other) + chr(point)):
            if unicode.normalize("NFD", text) != text:
                return known_there("NFD", text)
    raise ValueError(hex(point))


def normal_table():
    """Combining classes as (gap, class, count); then decompositions, not carried on into their parts, as (gap, 2 * count + compatible,
    zigzag steps between the characters, the first from the one decomposed); then the points that are never composed, as gaps."""
    marks = [(point, unicode.combining(chr(point))) for point in POINTS
             if unicode.combining(chr(point)) and combining_there(point)]
    runs = []
    for point, kind in marks:
        if runs and runs[-1][0] + runs[-1][2] == point and runs[-1][1] == kind:
            runs[-1][2] += 1
        else:
            runs.append([point, kind, 1])
    classes, last = [], 0
    for point, kind, count in runs:
        classes += [point - last, kind, count]
        last = point
    parts, excluded, last, last_excluded, count = [], [], 0, 0, 0
    for point in POINTS:
        field = unicode.decomposition(chr(point)).split()
        if not field or 0xAC00 <= point < 0xD7A4 or not known_there("NFKD", chr(point)):
            continue
        compatible = field[0].startswith("<")
        targets = [int(word, 16) for word in field[compatible:]]
        parts += [point - last, 2 * len(targets) + compatible]
        before = point
        for target in targets:
            parts.append(zigzag(target - before))
            before = target
        last = point
        count += 1
        if not compatible and unicode.normalize("NFC", chr(point)) != chr(point):
            excluded += [point - last_excluded]
            last_excluded = point
    return [len(runs)] + classes + [count] + parts + [len(excluded)] + excluded


def removed_by(normalizer):
    """The characters a normalizer of `tokenizers` takes away, as (gap since the run before, count)."""
    numbers, last, start = [], 0, None
    for point in range(0x110001):
        gone = point < 0x110000 and not 0xD800 <= point < 0xE000 and normalizer.normalize_str("a" + chr(point)) == "a"
        if gone and start is None:
            start = point
        elif not gone and start is not None:
            numbers += [start - last, point - start]
            last, start = point, None
    return numbers


def literal(numbers):
    text = packed(numbers)
    return "\n".join(f'    R"({text[at:at + 110]})"' for at in range(0, len(text), 110))


def write(room, name, header, tables):
    out = [f'// Made by script/unicode_tables.py from Unicode {unicode.unidata_version}; not to be edited by hand.',
           f'#include "hyperion/{room}/{header}"', "", f"namespace hyperion::{room} {{", "", "// clang-format off"]
    for symbol, numbers in tables:
        out.append(f"const char* const {symbol} =\n{literal(numbers)};")
    out += ["// clang-format on", "", f"}}  // namespace hyperion::{room}", ""]
    (HOUSE / room / name).write_text("\n".join(out))


write("text", "unicode_tables.cc", "unicode.h", [("kClassTable", class_table()), ("kLowerTable", lower_table())])
write("tokenizers", "normal_form_tables.cc", "normal_forms.h", [
    ("kNormalFormTable", normal_table()),
    ("kMarkTable", removed_by(tokenizers.normalizers.StripAccents())),
    ("kAccentTable", removed_by(tokenizers.normalizers.BertNormalizer(False, False, True, False)))])
