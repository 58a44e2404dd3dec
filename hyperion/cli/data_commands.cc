#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/output_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/host/cpu.h"
#include "hyperion/hub/cache.h"
#include "hyperion/tokenizers/bpe_trainer.h"
#include "hyperion/tokenizers/open_tokenizer.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::cli {
namespace {

using base::format;

std::string read_stdin() {
  std::string text;
  size_t size = 0;
  for (;;) {
    if (text.size() - size < 1 << 16) text.resize(std::max<size_t>(2 * text.size(), 1 << 20));
    const auto got = ::read(STDIN_FILENO, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw base::FileError("stdin cannot be read", errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void append_number(std::string& out, int64_t number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

// A token is one word of the output: what would break it in two is escaped.
std::string shown_token(const std::string& token) {
  std::string out;
  for (const char byte : token) {
    if (static_cast<unsigned char>(byte) <= ' ' || byte == 0x7F)
      out += format("\\x{:02x}", static_cast<unsigned char>(byte));
    else
      out += byte;
  }
  return out;
}

void print_tokens(const tokenizers::Tokenizer& tokenizer, const std::vector<tokenizers::TokenId>& ids,
                  const DataOptions& options) {
  std::string out;
  if (options.count) {
    append_number(out, static_cast<int64_t>(ids.size()));
  } else {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) out += ' ';
      if (options.tokens)
        out += shown_token(tokenizer.token(ids[i]).value_or("?"));
      else
        append_number(out, ids[i]);
    }
  }
  write_out(out += '\n');
}

void print_offsets(const tokenizers::Encoded& encoded) {
  std::string out;
  for (size_t i = 0; i < encoded.ids.size(); ++i)
    out += format("{}{}:{}-{}", i > 0 ? " " : "", encoded.ids[i], encoded.ranges[i].begin, encoded.ranges[i].end);
  write_out(out += '\n');
}

// Calls `use(line, number)` for each line of stdin; or once, for all of it.
template <class Use>
void each_text(const DataOptions& options, Use use) {
  const std::string all = read_stdin();
  if (!options.lines) return use(std::string_view(all), size_t{0});
  std::string_view rest = all;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    use(rest.substr(0, end), number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

std::vector<tokenizers::TokenId> read_ids(std::string_view text, size_t line) {
  constexpr std::string_view blanks = " \t\r\n,";
  std::vector<tokenizers::TokenId> ids;
  for (size_t at = text.find_first_not_of(blanks); at < text.size(); at = text.find_first_not_of(blanks, at)) {
    const size_t end = std::min(text.find_first_of(blanks, at), text.size());
    tokenizers::TokenId id = 0;
    const auto [stop, failure] = std::from_chars(text.data() + at, text.data() + end, id);
    if (failure != std::errc() || stop != text.data() + end)
      throw base::ConfigError(
          format("\"{}\" is not a token id, stdin{}", text.substr(at, std::min<size_t>(end - at, 40)),
                 line > 0 ? format(" line {}", line) : ""),
          "give whole numbers separated by spaces, as `hyperion data tokenize` prints them");
    ids.push_back(id);
    at = end;
  }
  return ids;
}

void add_tokenizer_flags(CLI::App* command, DataOptions& options) {
  command
      ->add_option(
          "--tokenizer", options.tokenizer,
          "a Hugging Face folder, a tokenizer.json, a vocab.json with merges.txt beside it, or a .tiktoken file")
      ->required();
  command->add_option("--pattern", options.pattern, "how a .tiktoken file's text is cut (default: by its name or size)")
      ->check(one_of({"gpt2", "llama3", "qwen2", "cl100k", "o200k"}));
  command->add_flag("--lines", options.lines, "each line by itself");
}

}  // namespace

int tokenize_command(const DataOptions& options) {
  const auto tokenizer = tokenizers::open_tokenizer(hub::locate(base::real_files(), options.tokenizer), options.pattern,
                                                    tokenizers::Lengths::as_file);
  const int threads = options.threads > 0 ? static_cast<int>(options.threads) : host::this_cpu().usable_cores();
  each_text(options, [&](std::string_view text, size_t) {
    if (options.offsets) return print_offsets(tokenizer->encode_with_offsets(text, !options.no_special));
    print_tokens(*tokenizer, tokenizer->encode(text, !options.no_special, threads), options);
  });
  return 0;
}

int detokenize_command(const DataOptions& options) {
  const auto tokenizer =
      tokenizers::open_tokenizer(hub::locate(base::real_files(), options.tokenizer), options.pattern);
  each_text(options, [&](std::string_view text, size_t line) {
    write_out(tokenizer->decode(read_ids(text, line), options.skip_special) + (options.lines ? "\n" : ""));
  });
  return 0;
}

int train_tokenizer_command(const TrainTokenizerOptions& options) {
  auto& files = base::real_files();
  if (files.exists(options.to))
    throw base::ConfigError(format("{} exists already", options.to), "name another file, or remove it first");
  tokenizers::BpeTrainer trainer(
      {*tokenizers::pattern_named(options.pattern), options.vocabulary, options.min_frequency, options.special});
  base::ProgressLine progress;
  uint64_t bytes = 0;
  for (const auto& file : options.files) {
    progress.show(format("counting {}", file));
    if (file == "-") {
      const auto text = read_stdin();
      bytes += text.size();
      trainer.add(text);
    } else {
      const base::MappedFile text(file);
      bytes += text.bytes().size();
      trainer.add(text.bytes());
    }
  }
  const auto json = trainer.train(
      [&](int64_t tokens) { progress.show(format("merging, {} of {} tokens", tokens, options.vocabulary)); });
  progress.clear();
  base::write_atomically(files, base::output_file(options.to), json);
  const auto size = tokenizers::open_tokenizer(options.to)->vocabulary_size();
  std::printf("%s\n",
              format("{}: {} tokens from {} of text{}", options.to, base::with_commas(size), base::bytes_text(bytes),
                     size < options.vocabulary ? "; no more pairs are frequent enough" : "")
                  .c_str());
  return 0;
}

void add_data_commands(Commands& commands) {
  auto data = commands.group(
      "data", "prepare text and images for training",
      "\nExamples:\n  hyperion data prepare recipes/wikitext.toml --output sets/wikitext\n  hyperion data inspect "
      "sets/wikitext\n  hyperion data verify sets/wikitext");
  add_set_commands(data);
  const auto tokenize_flags = [](CLI::App* tokenize, DataOptions& options) {
    add_tokenizer_flags(tokenize, options);
    auto* ids = tokenize->add_flag("--ids", options.ids, "print ids (the default)");
    auto* tokens = tokenize->add_flag("--tokens", options.tokens, "print tokens as the tokenizer's file spells them");
    auto* count = tokenize->add_flag("--count", options.count, "print only how many there are");
    auto* offsets = tokenize->add_flag("--offsets", options.offsets,
                                       "print ID:BEGIN-END, the bytes of the text that a token came from");
    ids->excludes(tokens)->excludes(count)->excludes(offsets);
    tokens->excludes(count)->excludes(offsets);
    count->excludes(offsets);
    tokenize->add_option("--threads", options.threads, "for a long text (default: all cores)")
        ->check(whole_number(1, 1024));
    tokenize->add_flag("--no-special", options.no_special,
                       "without what the tokenizer puts around a text, such as <s>");
    tokenize->footer(
        "\nExamples:\n  hyperion data tokenize --tokenizer ./gpt2 < book.txt > book.ids\n  echo hello | hyperion data "
        "tokenize "
        "--tokenizer gpt2.tiktoken --tokens");
  };
  const auto detokenize_flags = [](CLI::App* detokenize, DataOptions& options) {
    add_tokenizer_flags(detokenize, options);
    detokenize->add_flag("--skip-special", options.skip_special, "leave special tokens out");
    detokenize->footer("\nExample:\n  hyperion data detokenize --tokenizer ./gpt2 < book.ids");
  };
  const auto train_flags = [](CLI::App* train, TrainTokenizerOptions& options) {
    train->add_option("FILES", options.files, "texts, each a document of its own; - is stdin")->required();
    train->add_option("--to", options.to, "the tokenizer.json to write; must not exist")->required();
    train->add_option("--vocab-size", options.vocabulary, "tokens in all (default 32000)")
        ->check(whole_number(256, 1 << 24));
    train->add_option("--min-frequency", options.min_frequency, "merge no pair that is rarer (default 2)")
        ->check(whole_number(0, INT64_MAX));
    train->add_option("--pattern", options.pattern, "how text is cut into pieces: gpt2 (default), llama3 or qwen2")
        ->check(one_of({"gpt2", "llama3", "qwen2"}));
    train->add_option("--special", options.special, "a special token, such as <|endoftext|>; may be given again");
    train->footer(
        "\nExample:\n  hyperion data train-tokenizer book.txt --vocab-size 8000 --special '<|endoftext|>' --to "
        "tokenizer.json");
  };
  data.add<DataOptions>("tokenize", "token ids of the text on stdin, separated by spaces", tokenize_flags,
                        tokenize_command);
  data.add<DataOptions>("detokenize", "the text of the token ids on stdin", detokenize_flags, detokenize_command);
  data.add<TrainTokenizerOptions>("train-tokenizer", "train a byte-level BPE tokenizer on texts", train_flags,
                                  train_tokenizer_command);
}

}  // namespace hyperion::cli
