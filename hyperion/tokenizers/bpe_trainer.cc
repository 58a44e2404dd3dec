#include "hyperion/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/byte_alphabet.h"

namespace hyperion::tokenizers {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Pair {
  TokenId left, right;
  bool operator==(const Pair&) const = default;
  auto operator<=>(const Pair&) const = default;
};
struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(pair.left)) << 32 | static_cast<uint32_t>(pair.right);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 17);
  }
};
struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : other.pair < pair;
  }
};
struct Word {
  std::vector<TokenId> symbols;
  int64_t count;
};

// The words as they are merged, how often each pair stands in them, and in which.
class Merger {
 public:
  explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t word = 0; word < words_.size(); ++word) {
      const auto& symbols = words_[word].symbols;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) change({symbols[i], symbols[i + 1]}, words_[word].count, word);
    }
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
    touched_.clear();
  }

  // The most frequent pair; nothing when none is as frequent as asked.
  std::optional<Pair> next(int64_t min_frequency) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[top.pair].count;
      if (count == top.count)
        return count >= std::max<int64_t>(min_frequency, 1) ? std::optional(top.pair) : std::nullopt;
      if (count > 0) queue_.push({count, top.pair});  // it was counted before later merges
    }
    return std::nullopt;
  }

  void merge(const Pair& pair, TokenId id) {
    touched_.clear();
    auto words = std::move(pairs_[pair].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const uint32_t word : words) merge_in(word, pair, id);
    pairs_.erase(pair);
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const auto& changed : touched_)
      if (const auto found = pairs_.find(changed); found != pairs_.end() && found->second.count > 0)
        queue_.push({found->second.count, changed});
  }

 private:
  struct State {
    int64_t count = 0;
    std::vector<uint32_t> words;  // with repeats; some may not hold the pair any more
  };

  void change(const Pair& pair, int64_t by, size_t word) {
    auto& state = pairs_[pair];
    state.count += by;
    if (by < 0) return;
    if (state.words.empty() || state.words.back() != word) state.words.push_back(static_cast<uint32_t>(word));
    touched_.push_back(pair);
  }

  void merge_in(size_t word, const Pair& pair, TokenId id) {
    auto& symbols = words_[word].symbols;
    const int64_t count = words_[word].count;
    size_t kept = 0;
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (i + 1 == symbols.size() || symbols[i] != pair.left || symbols[i + 1] != pair.right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        change({symbols[kept - 1], pair.left}, -count, word);
        change({symbols[kept - 1], id}, count, word);
      }
      if (i + 2 < symbols.size()) {
        change({pair.right, symbols[i + 2]}, -count, word);
        change({id, symbols[i + 2]}, count, word);
      }
      symbols[kept++] = id;
      ++i;
    }
    symbols.resize(kept);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, State, PairHash> pairs_;
  std::vector<Pair> touched_;
  std::priority_queue<Candidate> queue_;
};

OrderedJson split_by(Pattern pattern) {
  const OrderedJson bytes = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", pattern == Pattern::kGpt2}};
  if (pattern == Pattern::kGpt2) return bytes;
  const OrderedJson split = {
      {"type", "Split"}, {"pattern", {{"Regex", expression_of(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

struct Trained {
  std::vector<std::string> tokens;  // spelled, by id
  std::vector<Pair> merges;
};

OrderedJson added_tokens(const std::vector<std::string>& special) {
  OrderedJson added = OrderedJson::array();
  for (size_t id = 0; id < special.size(); ++id)
    added.push_back({{"id", id},
                     {"content", special[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  return added;
}

OrderedJson model_of(const Trained& trained) {
  OrderedJson merges = OrderedJson::array(), vocabulary = OrderedJson::object();
  for (const auto& [left, right] : trained.merges) merges.push_back({trained.tokens[left], trained.tokens[right]});
  auto& entries = vocabulary.get_ref<OrderedJson::object_t&>();  // its own insertion looks through all there are
  for (size_t id = 0; id < trained.tokens.size(); ++id) entries.emplace_back(trained.tokens[id], id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

std::string tokenizer_json(const Trained& trained, const BpeTrainerOptions& options) {
  const OrderedJson bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const OrderedJson json = {{"version", "1.0"},          {"truncation", nullptr},
                            {"padding", nullptr},        {"added_tokens", added_tokens(options.special)},
                            {"normalizer", nullptr},     {"pre_tokenizer", split_by(options.pattern)},
                            {"post_processor", bytes},   {"decoder", bytes},
                            {"model", model_of(trained)}};
  return json.dump(1) + "\n";
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : options_(std::move(options)) {
  const auto least = static_cast<int64_t>(options_.special.size()) + 256;
  if (options_.vocabulary < least)
    throw base::ConfigError(base::format("a vocabulary of {} has no room for 256 bytes and {} special tokens",
                                         options_.vocabulary, options_.special.size()),
                            base::format("ask for {} or more", least));
}

void BpeTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const size_t valid = text::valid_prefix(text);
    const char* const end = text.data() + valid;
    for (const char* at = text.data(); at < end;) {
      const char* const stop = piece_end(options_.pattern, text::class_pages(), at, end);
      const std::string_view piece(at, static_cast<size_t>(stop - at));
      if (const auto found = pieces_.find(piece); found != pieces_.end())
        ++found->second;
      else
        pieces_.emplace(piece, 1);
      at = stop;
    }
    text.remove_prefix(std::min(valid + 1, text.size()));  // a wrong byte has no neighbours to merge with
  }
}

std::string BpeTrainer::train(const std::function<void(int64_t)>& progress) const {
  Trained trained{options_.special, {}};
  auto& tokens = trained.tokens;
  std::unordered_map<std::string, TokenId> ids;
  for (const auto& token : tokens) ids.try_emplace(token, static_cast<TokenId>(ids.size()));
  if (ids.size() != tokens.size()) throw base::ConfigError("a special token is named twice", "name each once");
  std::vector<std::string> letters;
  for (int value = 0; value < 256; ++value) letters.push_back(spell_bytes(std::string(1, static_cast<char>(value))));
  auto sorted = letters;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& letter : sorted)
    if (ids.try_emplace(letter, static_cast<TokenId>(tokens.size())).second) tokens.push_back(letter);

  std::vector<Word> words;
  words.reserve(pieces_.size());
  for (const auto& [piece, count] : pieces_) {
    words.push_back({{}, count});
    for (const char byte : piece) words.back().symbols.push_back(ids.at(letters[static_cast<unsigned char>(byte)]));
  }
  Merger merger(std::move(words));
  while (static_cast<int64_t>(tokens.size()) < options_.vocabulary) {
    const auto pair = merger.next(options_.min_frequency);
    if (!pair) break;
    const std::string whole = tokens[pair->left] + tokens[pair->right];
    const auto [place, fresh] = ids.try_emplace(whole, static_cast<TokenId>(tokens.size()));
    if (fresh) tokens.push_back(whole);
    trained.merges.push_back(*pair);
    merger.merge(*pair, place->second);
    if (progress && tokens.size() % 256 == 0) progress(static_cast<int64_t>(tokens.size()));
  }
  return tokenizer_json(trained, options_);
}

}  // namespace hyperion::tokenizers
