// What a prepared set of tokens holds, in figures.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/data/token_set.h"
#include "hyperion/data/tokenizer.h"

namespace hyperion::data {

struct TokenFigures {
  int64_t documents = 0, tokens = 0, learned = 0;
  int64_t shortest = 0, median = 0, longest = 0;  // of documents, in tokens
  double mean = 0;
  struct Bar {
    int64_t from, to, documents;  // lengths from <= n < to
  };
  std::vector<Bar> lengths;  // by powers of two, the empty ones at both ends left out
  struct Count {
    TokenId token;
    int64_t times;
  };
  std::vector<Count> frequent;  // the most frequent first
  int64_t distinct = 0;         // tokens that occur at all
};
TokenFigures inspect_tokens(const TokenSet& set, size_t most_frequent,
                            const std::function<void(int64_t tokens)>& progress = {});

// The first `most` tokens of a document as text. `tokenizer` null: bytes.
std::string document_text(const TokenSet& set, int64_t document, const Tokenizer* tokenizer, int64_t most);

}  // namespace hyperion::data
