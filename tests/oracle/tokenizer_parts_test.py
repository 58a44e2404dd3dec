"""Every component of a tokenizer.json gives the ids and the text of tokenizers, on small tokenizers trained there."""
import json
import pathlib
import tempfile
import unicodedata
import unittest

import mixed_text
import tokenizers
import vocabularies as v
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Marks, punctuation and the like are those of an older Unicode there: these components are shown only what both know.
KNOWN = [(0x20, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x621, 0x64A), (0x4E00, 0x9FA5), (0x3041, 0x3096), (0xAC00, 0xD7A3),
         (0x2010, 0x2027), (0x1F600, 0x1F64F), (0x300, 0x34F), (0x1E00, 0x1EFF), (0xFF01, 0xFF5E), (0xF900, 0xFA6D), (0x20000, 0x2A6D6)]


def corpus(seed=1, count=300):
    rng = mixed_text.generator(seed)
    return [mixed_text.prose(rng) + mixed_text.script(rng) for _ in range(count)]


def lines(seed, count=80):
    """Short texts without a line end, since each is a line of the program's input."""
    rng = mixed_text.generator(seed)
    out = []
    for _ in range(count):
        if rng.random() < 0.5:
            text = mixed_text.prose(rng) + mixed_text.part(rng, 30)
        else:
            text = "".join(chr(rng.randint(*rng.choice(KNOWN))) if rng.random() < 0.9 else " " for _ in range(rng.randint(1, 40)))
        out.append(rng.choice(["", " ", "  "]) + text.replace("\n", rng.choice(["\t", " ", "\r"])) + rng.choice(["", " ", "\t"]))
    return out + ["", " ", "   ", "a", "<s>", " <s> hello</s>world <pad>", "x<mask>y <mask> z", "newword newwords anewword newword."]


def bpe(byte_fallback=True, fuse=True, **settings):
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=byte_fallback, **settings))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = {key: settings[key] for key in ("continuing_subword_prefix", "end_of_word_suffix") if key in settings}
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1500, show_progress=False, limit_alphabet=200,
                                                           special_tokens=SPECIAL + (BYTES if byte_fallback else []), **ends))
    return made


def unigram(byte_fallback=False):
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=6000, show_progress=False, unk_token="<unk>", special_tokens=SPECIAL))
    if not byte_fallback:
        return made
    state = json.loads(made.to_str())
    state["model"]["vocab"] += [[byte, -20.0] for byte in BYTES]
    state["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(state))


def word_piece():
    made = Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=1200, show_progress=False, special_tokens=SPECIAL))
    made.decoder = decoders.WordPiece()
    return made


def byte_level(**settings):
    made = Tokenizer(models.BPE(**settings))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=SPECIAL,
                                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def charsmap(pairs):
    """SentencePiece's form of replacements: a double-array trie, each node's children at its offset XOR their byte."""
    texts, tree = b"", {}
    for key, text in sorted(pairs.items()):
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)
        texts += text.encode() + b"\0"
    units, taken = {0: 0}, {0}

    def place(node, at):
        base = next(base for base in range(1, 1 << 20) if base ^ at < 1 << 20 and not any(base ^ child in taken for child in node))
        taken.update(base ^ child for child in node)
        units[at] |= (base ^ at) << 10 | (0 in node) << 8
        for child, below in node.items():
            units[base ^ child] = below if child == 0 else child
        for child, below in node.items():
            if child:
                place(below, base ^ child)
    place(tree, 0)
    size = max(units) + 257 & ~255
    trie = b"".join(units.get(at, 0).to_bytes(4, "little") for at in range(size))
    return len(trie).to_bytes(4, "little") + trie + texts


class Parts(unittest.TestCase):
    def check(self, made, texts=None, add_special=True):
        """Ids and decoded text of every line; the file is what `made` saves."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            made.save(str(path))
            texts = lines(3) if texts is None else texts
            expected = [encoding.ids for encoding in made.encode_batch(texts, add_special_tokens=add_special)] if made.padding is None else [
                made.encode(text, add_special_tokens=add_special).ids for text in texts]
            ours = v.tokenize_lines(path, texts, *([] if add_special else ["--no-special"]))
            wrong = [(text, a, b) for text, a, b in zip(texts, ours, expected) if a != b]
            self.assertEqual(wrong[:2], [], f"{len(wrong)} of {len(texts)} differ")
            self.assertEqual(len(ours), len(expected))
            stdin = "".join(" ".join(map(str, ids)) + "\n" for ids in expected).encode()
            for skip in (True, False):
                back = v.run("detokenize", "--tokenizer", path, "--lines", *(["--skip-special"] if skip else []), stdin=stdin)
                wanted = "".join(made.decode(ids, skip_special_tokens=skip) + "\n" for ids in expected)
                self.assertEqual(back.decode(errors="replace").split("\n"), wanted.split("\n"))

    def each(self, cases, make):
        for name, case in cases.items():
            with self.subTest(name):
                self.check(make(case))

    def test_sentencepiece_bpe_of_llama_2(self):
        made = bpe()
        made.pre_tokenizer = None
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        made.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
        self.check(made)
        self.check(made, add_special=False)

    def test_bpe_with_every_option(self):
        cases = {"unknown": dict(byte_fallback=False, fuse=False), "fused": dict(byte_fallback=False), "bytes": dict(),
                 "prefix": dict(byte_fallback=False, continuing_subword_prefix="##"), "suffix": dict(byte_fallback=False, end_of_word_suffix="</w>"),
                 "whole": dict(ignore_merges=True)}
        self.each(cases, lambda settings: bpe(**settings))

    def test_metaspace_schemes(self):
        made = bpe()
        for scheme in ("always", "first", "never"):
            for split in (True, False):
                with self.subTest(scheme=scheme, split=split):
                    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
                    made.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
                    self.check(made)

    def test_what_is_first_where_a_normalizer_took_the_start(self):
        made = bpe()
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        cases = {"strip": normalizers.Strip(), "spaces": normalizers.Replace(Regex(r"^\s+"), ""), "letter": normalizers.Replace("t", ""),
                 "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]), "more": normalizers.Replace("t", "ab cd"),
                 "both": normalizers.Sequence([normalizers.Prepend("t"), normalizers.Strip()])}
        texts = [" the", "the", "  \u0301the t", "tt the", "<s> the", "t", " ", "\u0301a", "the <s> the"]
        for name, normalizer in cases.items():
            for split in (None, pre_tokenizers.WhitespaceSplit()):
                with self.subTest(name=name, split=split is not None):
                    made.normalizer = normalizer
                    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Metaspace(prepend_scheme="first")]) if split else pre_tokenizers.Metaspace(prepend_scheme="first")
                    self.check(made, texts=texts)

    def test_unigram(self):
        for fallback in (False, True):
            made = unigram(fallback)
            made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
            made.decoder = decoders.Metaspace()
            self.check(made)

    def test_word_piece_and_word_level(self):
        made = word_piece()
        made.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
        self.check(made)
        words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(SPECIAL + "the of and to in was ( ) . , !".split())}, unk_token="<unk>"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        self.check(words)

    def test_normalizers(self):
        made = bpe()
        cases = {"nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(),
                 "lower": normalizers.Lowercase(), "strip": normalizers.Strip(), "left": normalizers.Strip(True, False),
                 "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]), "replace": normalizers.Replace("ab", "c"),
                 "spaces": normalizers.Replace(Regex(r"\s+"), " "), "bert": normalizers.BertNormalizer(),
                 "cased": normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False, strip_accents=True)}

        def change(case):
            made.normalizer = case
            return made
        self.each(cases, change)

    def test_replacements_of_sentencepiece(self):
        made = unigram()
        rng = mixed_text.generator(21)
        pairs = {"\u3000": " ", "\t": " ", "\r": "", "ﬁ": "fi", "½": "1⁄2", "e\u0301": "é", "A\u030a": "Å", "é": "E", "日": "", "ａ": "a", "ab": "!", "a": "b"}
        pairs |= {chr(rng.randint(0xC0, 0x24F)): chr(rng.randint(0x61, 0x7A)) * rng.randint(0, 3) for _ in range(100)}
        pairs |= {chr(rng.randint(0x61, 0x7A)) + chr(rng.randint(0x300, 0x36F)): "x" + chr(rng.randint(0xC0, 0x24F)) for _ in range(50)}
        made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.Precompiled(charsmap(pairs)), normalizers.Replace(Regex(" {2,}"), " ")])
        marks = [(0x61, 0x7A), (0x300, 0x36F), (0x20, 0x24F), (0x600, 0x605), (0x900, 0x94D), (0x200B, 0x200F), (0xFE00, 0xFE0F), (0x61, 0x7A), (0x1F3FB, 0x1F3FF)]
        texts = ["".join(chr(rng.randint(*rng.choice(marks))) for _ in range(rng.randint(2, 30))) for _ in range(1500)]
        texts = [text for text in texts if "\n" not in text]
        self.check(made, lines(6) + texts)
        made.normalizer = normalizers.Nmt()
        self.check(made, ["".join(mixed_text.any_char(rng, 0x3000).replace("\n", "x") for _ in range(40)) for _ in range(500)])

    def test_bytes_spelled_by_the_normalizer(self):
        made = byte_level()
        made.normalizer, made.pre_tokenizer = normalizers.ByteLevel(), pre_tokenizers.Split(Regex(r"Ġ"), "merged_with_next")
        self.check(made)

    def test_normal_forms_of_any_text(self):
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            with self.subTest(form=form):
                made = byte_level()
                made.normalizer = getattr(normalizers, form)()
                rng = mixed_text.generator(9)
                marks = [(0x300, 0x36F), (0x41, 0x7A), (0x1100, 0x11FF), (0x900, 0x9FF), (0x1E00, 0x1FFF), (0xAC00, 0xAC40), (0x3041, 0x30FF), (0xC0, 0x24F)]
                texts = ["".join(chr(rng.randint(*rng.choice(marks))) for _ in range(rng.randint(2, 30))) for _ in range(1500)]
                texts += ["".join(mixed_text.any_char(rng).replace("\n", "x") for _ in range(40)) for _ in range(500)]
                self.check(made, texts)

    def test_pre_tokenizers(self):
        made = bpe(byte_fallback=False)
        made.add_tokens(["newword"])
        p = pre_tokenizers
        cases = {"whitespace": p.Whitespace(), "split": p.WhitespaceSplit(), "bert": p.BertPreTokenizer(), "digits": p.Digits(False),
                 "each digit": p.Sequence([p.WhitespaceSplit(), p.Digits(True)]), "delimiter": p.CharDelimiterSplit("e"), "numbers": p.Split(Regex(r"\p{N}"), "isolated")}
        for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
            cases["punctuation " + behavior] = p.Punctuation(behavior)
            cases["text " + behavior] = p.Split("th", behavior)
            cases["inverted " + behavior] = p.Split(" ", behavior, invert=True)

        def change(case):
            made.pre_tokenizer = case
            return made
        self.each(cases, change)

    def test_regular_expressions_that_have_no_scanner(self):
        made = byte_level()
        cases = [r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
                 r"[一-龥぀-ゟ゠-ヿ]+", r"\p{Han}+", r"\d{3}(?=\w)", r"(?<=\d)\s+", r"(?i:the|of)", r"\w+|[^\w\s]+", r"^.|.$",
                 r"(?:[a-z]|\u00e9)+?x?", r"\s?\p{Lu}\p{Ll}*+|\W", r"(?>a|ab)c?|[^\x41-\x5a\P{L}]"]
        known = [text for text in lines(8, 400) if all(unicodedata.category(char) != "Cn" and char != "\u180e" for char in text)]
        for expression in cases:
            for behavior in ("isolated", "removed", "merged_with_next"):
                with self.subTest(expression=expression, behavior=behavior):
                    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), behavior),
                                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
                    self.check(made, known)

    def test_byte_level_forms(self):
        self.check(byte_level())
        self.check(byte_level(ignore_merges=True))
        made = byte_level()
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
        self.check(made)
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        made.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 1), ("</s>", 2)])])
        self.check(made)

    def test_added_tokens(self):
        for normalized in (True, False):
            made = byte_level()
            made.normalizer = normalizers.Lowercase()
            made.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<S>", normalized=normalized)])
            made.add_tokens([AddedToken("newword", single_word=True, normalized=normalized), AddedToken("<end>", rstrip=True), AddedToken("new"),
                             AddedToken("NewOne", normalized=normalized), AddedToken("a b", normalized=normalized)])
            texts = lines(4) + ["x  <mask>  y", "<mask><mask> <mask>", "newword", "a newword b", "newwords", "NEWWORD NewOne newone", "<end>   z",
                                "<end> <mask> <end>", "<s><S><s>", "newnewnewword", "_newword", "énewword", "a b a  b", "A B"]
            self.check(made, texts)

    def check_offsets(self, made, texts, covers=False):
        """Theirs are whole characters; ours are bytes, so that they are widened to characters first. `covers`: what was made of several
        characters is of all of them here, of one of them there."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            made.save(str(path))
            for text, ours in zip(texts, v.offset_lines(path, texts), strict=True):
                theirs = made.encode(text)
                self.assertEqual([id for id, _, _ in ours], theirs.ids)
                char_of = [i for i, char in enumerate(text) for _ in char.encode()] + [len(text)]
                wide = [(char_of[begin], char_of[end - 1] + 1 if end > begin else char_of[end]) for _, begin, end in ours]
                if covers:
                    wrong = [(a, b) for a, b in zip(wide, theirs.offsets) if not (a[0] <= b[0] and b[1] <= a[1])]
                else:
                    wrong = [(a, b) for a, b in zip(wide, theirs.offsets) if a != b]
                self.assertEqual(wrong[:3], [], f"{text!r}: here, there")

    def test_offsets(self):
        llama = bpe()
        llama.pre_tokenizer = None
        llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        llama.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
        spaced = byte_level()
        spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        split = byte_level()
        split.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        bert = word_piece()
        bert.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
        lower = byte_level()
        lower.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Strip()])
        lower.add_special_tokens([AddedToken("<mask>", lstrip=True)])
        lower.add_tokens([AddedToken("newword", single_word=True), AddedToken("<End>", rstrip=True)])
        cut = bpe()
        cut.enable_truncation(9, direction="left")
        cut.enable_padding(pad_id=3, pad_token="<pad>", length=12)
        cases = {"gpt2": byte_level(), "prefix space": spaced, "pieces": split, "llama 2": llama, "metaspace": bpe(), "unknown": bpe(byte_fallback=False),
                 "bert": bert, "unigram": unigram(), "lower": lower, "cut": cut}
        texts = lines(5, 300) + ["x  <mask>  y", "a newword b", "<End>   z", "<end> <mask> <end>"]
        for name, made in cases.items():
            with self.subTest(name):
                # Punctuation is that of an older Unicode there.
                old = [text for text in texts if all(unicodedata.ucd_3_2_0.category(char) != "Cn" for char in text)]
                self.assertGreater(len(old), 100)
                self.check_offsets(made, old if name == "bert" else texts)
        for form in (normalizers.NFC(), normalizers.NFKD(), normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), "__")])):
            with self.subTest(form=str(form)):
                made = byte_level()
                made.normalizer = form
                self.check_offsets(made, texts, covers=True)

    def test_truncation_and_padding(self):
        made = byte_level()
        made.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 1), ("</s>", 2)])
        for direction in ("right", "left"):
            made.enable_truncation(9, direction=direction)
            made.enable_padding(direction=direction, pad_id=3, pad_token="<pad>", length=12)
            self.check(made)
            made.enable_padding(direction=direction, pad_id=3, pad_token="<pad>", pad_to_multiple_of=8)
            self.check(made)
            made.no_padding()
            self.check(made)
            made.enable_padding(pad_id=3, length=5, pad_to_multiple_of=4)
            self.check(made)


if __name__ == "__main__":
    unittest.main()
