#include "hyperion/interop/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/interop/generation_config.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::interop {

namespace {

[[noreturn]] void refuse_no_tokenizer() {
  throw base::ConfigError("this model's tokens are not bytes, and no tokenizer lies beside its weights",
                          "put tokenizer.json, or vocab.json and merges.txt, into its folder");
}

}  // namespace

Text::Text(const OpenedModel& opened)
    : Text(opened.bytes ? base::Path() : opened.folder, opened.model->shape(1).vocabulary, opened.ends) {
  if (!opened.bytes && opened.folder.empty()) refuse_no_tokenizer();
  if (opened.bytes && ends_.empty() && !opened.folder.empty()) ends_ = end_tokens(opened.folder);
}

Text::Text(const base::Path& folder, int64_t vocabulary, std::vector<int64_t> ends)
    : ends_(std::move(ends)), vocabulary_(vocabulary) {
  if (folder.empty()) return;
  auto& files = base::real_files();
  const auto has_tokenizer = [&] {
    for (const auto& path : files.list(folder))
      if (path.filename() == "tokenizer.json" || path.filename() == "vocab.json" || path.extension() == ".tiktoken")
        return true;
    return false;
  };
  if (!has_tokenizer()) refuse_no_tokenizer();
  tokenizer_ = tokenizers::open_tokenizer(folder);
  if (auto own = end_tokens(folder); !own.empty()) ends_ = std::move(own);
}

models::Tokens Text::encode(const std::string& text, bool special) const {
  models::Tokens tokens;
  if (tokenizer_ == nullptr) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  } else {
    for (const auto id : tokenizer_->encode(text, special)) {
      if (id >= vocabulary_)
        throw base::ConfigError(
            base::format("the tokenizer gives token {}, and the model knows only {}", id, vocabulary_),
            "tokenizer and weights of this folder do not belong together");
      tokens.push_back(id);
    }
  }
  return tokens;
}

std::string Text::decode(const models::Tokens& tokens) const {
  if (tokenizer_ == nullptr) return {tokens.begin(), tokens.end()};
  std::vector<tokenizers::TokenId> known;  // a model's table is often padded beyond its vocabulary
  for (const int64_t token : tokens)
    if (token < tokenizer_->vocabulary_size()) known.push_back(static_cast<tokenizers::TokenId>(token));
  return tokenizer_->decode(known, /*skip_special=*/true);
}

size_t whole_characters(std::string_view bytes) {
  const size_t reach = std::min<size_t>(bytes.size(), 3);
  for (size_t back = 1; back <= reach; ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const auto at = [&](size_t place) -> unsigned {
      return place < bytes.size() ? static_cast<unsigned char>(bytes[place]) : 0;
    };
    const unsigned lead = at(i);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : (lead & 0xF0) == 0xE0       ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    // The second byte's range keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t good = length == 0 ? 0 : 1;
    while (good > 0 && good < length && at(i + good) >= (good == 1 ? low : 0x80u) &&
           at(i + good) <= (good == 1 ? high : 0xBFu))
      ++good;
    if (length > 0 && good == length) {
      out += bytes.substr(i, length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    i += std::max<size_t>(good, 1);
  }
  return out;
}

}  // namespace hyperion::interop
