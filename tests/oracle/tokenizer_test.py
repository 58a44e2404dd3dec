"""Token-for-token the same as tiktoken and tokenizers on the vocabularies of GPT-2 and Qwen, and the bytes come back."""
import ctypes
import ctypes.util
import unicodedata
import unittest

import mixed_text
import tokenizers
import vocabularies as v

LONG = 20_000  # a run of one character; the minutes-long form is script/tokenizer-oracle


class Ranks(unittest.TestCase):
    def same(self, name, pattern, text):
        theirs = v.in_tiktoken(name, pattern)
        expected = theirs.encode_ordinary(text) if isinstance(text, str) else theirs._encode_bytes(text)
        path = v.FOLDER / f"{name}.tiktoken"
        ours = v.tokenize(path, text, "--pattern", pattern)
        self.assertTrue(ours == expected, v.difference(ours, expected))
        self.assertTrue(v.detokenize(path, ours, "--pattern", pattern) == (text.encode() if isinstance(text, str) else text))

    def test_mixed_text_gives_the_ids_of_tiktoken(self):
        for seed, (name, pattern) in enumerate([("gpt2", "gpt2"), ("qwen", "qwen2"), ("gpt2", "llama3"), ("qwen", "cl100k"), ("qwen", "o200k")]):
            with self.subTest(name=name, pattern=pattern):
                self.same(name, pattern, mixed_text.text(mixed_text.generator(seed), 200_000, runs=LONG))

    def test_bytes_that_are_not_utf8_give_the_ids_of_tiktoken(self):
        for seed in range(12):
            with self.subTest(seed=seed):
                self.same("gpt2", ["gpt2", "cl100k"][seed % 2], mixed_text.broken(mixed_text.generator(seed), 40 if seed else 5000))

    def test_every_end_of_a_text_gives_the_ids_of_tiktoken(self):
        """Cut at random, so that white space, half a contraction or a mark is the last there is."""
        for pattern in v.PATTERNS:
            with self.subTest(pattern=pattern):
                rng = mixed_text.generator(7)
                texts = [mixed_text.text(rng, 12, runs=9).replace("\n", "\r")[:rng.randint(1, 30)] for _ in range(400)]
                theirs = v.in_tiktoken("gpt2", pattern)
                ours = v.tokenize_lines(v.FOLDER / "gpt2.tiktoken", texts, "--pattern", pattern)
                self.assertEqual([(text, ids) for text, ids in zip(texts, ours) if ids != theirs.encode_ordinary(text)], [])


class Pcre2:
    """The C library, called directly: finds the matches of a pattern one after the other."""

    def __init__(self, pattern):
        self.library = ctypes.CDLL(ctypes.util.find_library("pcre2-8"))
        for name in ("compile", "match_data_create_from_pattern", "get_ovector_pointer"):
            getattr(self.library, f"pcre2_{name}_8").restype = ctypes.c_void_p
        number, offset = ctypes.c_int(), ctypes.c_size_t()
        utf, ucp = 0x00080000, 0x00020000
        encoded = pattern.encode()
        self.code = ctypes.c_void_p(self.library.pcre2_compile_8(encoded, ctypes.c_size_t(len(encoded)), utf | ucp, ctypes.byref(number),
                                                                 ctypes.byref(offset), None))
        assert self.code, number
        self.data = ctypes.c_void_p(self.library.pcre2_match_data_create_from_pattern_8(self.code, None))

    def pieces(self, text):
        at, encoded, unchecked = 0, text.encode(), 0x40000000
        while at < len(encoded):
            found = self.library.pcre2_match_8(self.code, encoded, ctypes.c_size_t(len(encoded)), ctypes.c_size_t(at), unchecked, self.data, None)
            assert found > 0, found
            ends = ctypes.cast(self.library.pcre2_get_ovector_pointer_8(self.data), ctypes.POINTER(ctypes.c_size_t))
            assert ends[0] == at
            yield encoded[at:ends[1]]
            at = ends[1]


class Expressions(unittest.TestCase):
    @unittest.skipUnless(ctypes.util.find_library("pcre2-8"), "libpcre2-8 is not installed")
    def test_scanners_cut_as_pcre2_does_by_the_published_expressions(self):
        for pattern, expression in v.PATTERNS.items():
            with self.subTest(pattern=pattern):
                # PCRE2 may know an older Unicode, and counts U+180E as white space: it is shown what all agree on.
                text = "".join(char for char in mixed_text.text(mixed_text.generator(11), 60_000, runs=500)
                               if unicodedata.category(char) != "Cn" and char != "\u180e")
                encoding = v.in_tiktoken("gpt2", pattern)
                expected = [id for piece in Pcre2(expression).pieces(text) for id in encoding._encode_single_piece(piece)]
                ours = v.tokenize(v.FOLDER / "gpt2.tiktoken", text, "--pattern", pattern)
                self.assertTrue(ours == expected, v.difference(ours, expected))


class Json(unittest.TestCase):
    def test_mixed_text_gives_the_ids_of_tokenizers(self):
        for seed, (name, pattern) in enumerate([("gpt2", "gpt2"), ("gpt2", "llama3"), ("qwen", "qwen2"), ("gpt2", "o200k")]):
            with self.subTest(name=name, pattern=pattern):
                path = v.tokenizer_json(name, pattern)
                theirs = tokenizers.Tokenizer.from_file(str(path))
                text = mixed_text.text(mixed_text.generator(100 + seed), 100_000, runs=2000)
                text = text[:5000] + "<|im_start|>user\n<|im_end|> <|endoftext|>" + text[5000:]
                ours, expected = v.tokenize(path, text), theirs.encode(text).ids
                self.assertTrue(ours == expected, v.difference(ours, expected))
                self.assertEqual(v.detokenize(path, ours).decode(), theirs.decode(expected, skip_special_tokens=False))

    def test_vocabulary_and_merges_give_the_ids_of_tokenizers(self):
        folder = v.saved_vocabulary("gpt2")
        theirs = tokenizers.Tokenizer.from_file(str(v.tokenizer_json("gpt2", "gpt2")))
        text = mixed_text.text(mixed_text.generator(5), 20_000)
        for path in (folder, folder / "vocab.json"):
            self.assertEqual(v.tokenize(path, text), theirs.encode(text).ids)


if __name__ == "__main__":
    unittest.main()
