// What a prepared set holds, in figures and pictures.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/data/image_set.h"
#include "hyperion/data/token_set.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::data {

// The `number`-th record to show of `count`: some of everywhere, the same each time, none twice.
int64_t sampled(int64_t number, int64_t count);

struct TokenFigures {
  int64_t documents = 0, tokens = 0, learned = 0;
  int64_t shortest = 0, median = 0, longest = 0;  // of documents, in tokens
  double mean = 0;
  struct Bar {
    int64_t from, to, documents;  // lengths from <= n < to
  };
  std::vector<Bar> lengths;  // by powers of two, the empty ones at both ends left out
  struct Count {
    tokenizers::TokenId token;
    int64_t times;
  };
  std::vector<Count> frequent;  // the most frequent first
  int64_t distinct = 0;         // tokens that occur at all
};
TokenFigures inspect_tokens(const TokenSet& set, size_t most_frequent,
                            const std::function<void(int64_t tokens)>& progress = {});

struct ImageFigures {
  int64_t images = 0;
  std::vector<int64_t> by_class;
  images::ImageSize smallest, largest;  // by their numbers of pixels
  double mean_bytes = 0;
};
ImageFigures inspect_images(const ImageSet& set, const std::function<void(int64_t images)>& progress = {});

// Some images of the set side by side, each made to fit its square, as the bytes of a PNG file.
std::string image_grid(const ImageSet& set, int64_t columns, int64_t rows, int64_t side);

// The first `most` tokens of a document as text. `tokenizer` null: bytes.
std::string document_text(const TokenSet& set, int64_t document, const tokenizers::Tokenizer* tokenizer, int64_t most);

}  // namespace hyperion::data
