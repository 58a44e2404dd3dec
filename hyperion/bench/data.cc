#include "hyperion/bench/data.h"

#include <cctype>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/random.h"
#include "hyperion/bench/figures.h"
#include "hyperion/text/unicode.h"
#include "hyperion/tokenizers/open_tokenizer.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr const char* kWords[] = {
    "the",   "of",   "and",   "to",    "in",     "a",     "is",     "that",    "for",     "it",    "was",   "as",
    "with",  "be",   "by",    "on",    "not",    "he",    "his",    "this",    "are",     "or",    "which", "from",
    "at",    "have", "an",    "had",   "they",   "you",   "were",   "their",   "one",     "all",   "we",    "can",
    "her",   "has",  "there", "been",  "if",     "more",  "when",   "will",    "would",   "who",   "so",    "no",
    "said",  "what", "up",    "its",   "about",  "into",  "than",   "them",    "only",    "other", "new",   "some",
    "could", "time", "these", "two",   "may",    "then",  "do",     "first",   "any",     "my",    "now",   "such",
    "like",  "our",  "over",  "man",   "me",     "even",  "most",   "made",    "after",   "also",  "did",   "many",
    "year",  "way",  "where", "world", "people", "water", "should", "because", "through", "state", "found", "number"};
constexpr const char* kSyllables[] = {"tion", "ing", "re", "con", "ter", "ment", "al",  "per", "com",  "er",
                                      "in",   "pro", "de", "ly",  "ate", "est",  "ver", "ble", "sion", "pre",
                                      "man",  "or",  "is", "ous", "car", "mis",  "sta", "dis", "form", "ance"};

class Writer {
 public:
  explicit Writer(size_t bytes) : bytes_(bytes) { text_.reserve(bytes + 1000); }

  std::string run() {
    while (text_.size() < bytes_) paragraph();
    return std::move(text_);
  }

 private:
  uint32_t number(uint32_t below) { return base::random_bits(key_, next_++) % below; }

  // The n-th most frequent word comes about n times as seldom as the first, as in books. The first are English; of the
  // others the syllables follow from n.
  void word() {
    const double exponent = base::unit_float(base::random_bits(key_, next_++));
    const auto rank = static_cast<uint32_t>(std::pow(30'000.0, exponent)) - 1;
    if (rank < std::size(kWords)) {
      text_ += kWords[rank];
      return;
    }
    uint64_t state = rank * 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0, syllables = 2 + (rank > 3000); i < syllables; ++i) {
      text_ += kSyllables[state % std::size(kSyllables)];
      state /= std::size(kSyllables);
    }
  }

  void sentence() {
    for (uint32_t i = 0, words = 4 + number(20); i < words; ++i) {
      if (i > 0) text_ += number(12) == 0 ? ", " : " ";
      const size_t first = text_.size();
      if (number(40) == 0)
        text_ += format("{}", number(100'000));
      else
        word();
      if (i == 0 || number(20) == 0) text_[first] = static_cast<char>(std::toupper(text_[first]));
      if (number(50) == 0) text_ += "'s";
    }
    text_ += number(4) == 0 ? "?" : ".";
  }

  void code() {
    for (uint32_t line = 0; line < 6; ++line) {
      text_.append(size_t{4} * number(4), ' ');
      word();
      text_ += number(2) == 0 ? "(" : " = ";
      word();
      text_ += format("[{}]", number(100)) + (number(2) == 0 ? ");\n" : " + 1\n");
    }
  }

  void script() {
    constexpr char32_t starts[] = {0x4E00, 0x3041, 0x0430, 0x0621, 0xAC00, 0x1F600};
    const char32_t start = starts[number(6)];
    for (uint32_t i = 0; i < 60; ++i) text::append_utf8(text_, number(9) == 0 ? U' ' : start + number(40));
    text_ += '\n';
  }

  void paragraph() {
    const uint32_t kind = number(20);
    if (kind == 0) return script();
    if (kind < 3) return code();
    for (uint32_t i = 0, sentences = 2 + number(6); i < sentences; ++i) {
      sentence();
      text_ += ' ';
    }
    text_ += "\n\n";
  }

  size_t bytes_;
  std::string text_;
  base::StreamKey key_ = base::stream_key(1, "bench/text");
  uint64_t next_ = 0;
};

DataRow measure(const tokenizers::Tokenizer& tokenizer, const std::string& name, std::string_view text, int threads,
                double seconds) {
  DataRow row{name, threads, 0, {}};
  row.seconds = profile::repeat(
      [&](int64_t calls) {
        const double begun = base::real_clock().seconds();
        for (int64_t i = 0; i < calls; ++i)
          row.tokens = static_cast<int64_t>(tokenizer.encode(text, false, threads).size());
        return base::real_clock().seconds() - begun;
      },
      {seconds, 0.01, 5});
  return row;
}

}  // namespace

std::string mixed_text(size_t bytes) { return Writer(bytes).run(); }

double DataResult::efficiency(const DataRow& row) const {
  for (const auto& other : rows)
    if (other.tokenizer == row.tokenizer && other.threads == 1) return rate(row) / rate(other) / row.threads;
  return 0;
}

DataResult run_data_bench(const std::vector<std::string>& tokenizers, std::string_view text, const std::string& name,
                          int cores, double seconds) {
  DataResult result{name, static_cast<int64_t>(text.size()), cores, {}, {}};
  if (text.empty()) throw base::ConfigError(format("{} is empty", name), "name a file with some megabytes of text");
  base::ProgressLine progress;
  for (const auto& path : tokenizers) {
    const auto tokenizer = tokenizers::open_tokenizer(path);
    for (const int threads : {1, cores}) {
      progress.show(format("{} on {} threads", path, threads));
      result.rows.push_back(
          measure(*tokenizer, std::filesystem::path(path).filename().string(), text, threads, seconds));
      if (cores == 1) break;
    }
  }
  progress.clear();
  return result;
}

std::string data_bench_table(const DataResult& result) {
  std::string out;
  for (const auto& set : result.sets) out += set_bench_text(set) + "\n";
  if (result.rows.empty()) return out;
  out += format("{}{} of {}; medians, and in brackets what a tenth is below and above\n\n", out.empty() ? "" : "\n",
                base::bytes_text(result.bytes), result.text);
  out +=
      "| tokenizer | threads | MB/s | million tokens/s | bytes a token | of perfect scaling "
      "|\n|---|---|---|---|---|---|\n";
  for (const auto& row : result.rows) {
    const double megabytes = static_cast<double>(result.bytes) / 1e6, tokens = static_cast<double>(row.tokens);
    out += format("| {} | {} | {:.1f} ({:.1f} to {:.1f}) | {:.1f} | {:.2f} | {} |\n", row.tokenizer, row.threads,
                  result.rate(row), megabytes / row.seconds.high, megabytes / row.seconds.low,
                  tokens / 1e6 / row.seconds.median, static_cast<double>(result.bytes) / tokens,
                  row.threads > 1 ? format("{:.0f}%", 100 * result.efficiency(row)) : "");
  }
  return out;
}

std::string data_bench_json(const DataResult& result) {
  Figures figures{"data", format("CPU, {} cores", result.cores), {}};
  base::Json rows = base::Json::array();
  const double megabytes = static_cast<double>(result.bytes) / 1e6;
  for (const auto& row : result.rows) {
    figures.list.push_back({format("{} on {} threads: {}", row.tokenizer, row.threads, result.text), "MB/s",
                            result.rate(row), megabytes / row.seconds.high, megabytes / row.seconds.low, false,
                            row.seconds.repeats < 2});
    rows.push_back({{"tokenizer", row.tokenizer},
                    {"threads", row.threads},
                    {"tokens", row.tokens},
                    {"seconds", row.seconds.median},
                    {"repeats", row.seconds.repeats},
                    {"mb_per_s", result.rate(row)},
                    {"efficiency", result.efficiency(row)}});
  }
  base::Json sets = base::Json::array();
  for (const auto& set : result.sets) {
    figures.list.push_back(single_figure(set.folder + " read", "samples/s", set.samples_per_s, false));
    figures.list.push_back(single_figure(set.folder + " opened", "ms", set.open_ms, true));
    sets.push_back({{"set", set.folder},
                    {"bytes", set.bytes},
                    {"length", set.length},
                    {"open_ms", set.open_ms},
                    {"samples_per_s", set.samples_per_s}});
  }
  auto json = result_json(figures);
  json.update(
      {{"text", result.text}, {"bytes", result.bytes}, {"cores", result.cores}, {"rows", rows}, {"sets", sets}});
  return json.dump(2) + "\n";
}

std::string data_bench_csv(const DataResult& result) {
  std::string out = "tokenizer,threads,bytes,tokens,seconds,low,high,repeats,mb_per_s,efficiency\n";
  for (const auto& row : result.rows)
    out += format("{},{},{},{},{:.6g},{:.6g},{:.6g},{},{:.6g},{:.4g}\n", row.tokenizer, row.threads, result.bytes,
                  row.tokens, row.seconds.median, row.seconds.low, row.seconds.high, row.seconds.repeats,
                  result.rate(row), result.efficiency(row));
  return out;
}

}  // namespace hyperion::bench
