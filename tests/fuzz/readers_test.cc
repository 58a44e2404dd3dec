// The short run: broken input is read or refused, never crashes the reader, and never costs more memory than its own
// size and 64 MB. script/fuzz is the long one.
#include <gtest/gtest.h>

#include "tests/fuzz/inputs.h"
#include "tests/fuzz/record_inputs.h"
#include "tests/fuzz/text_inputs.h"
#include "tests/support/fuzz.h"

namespace hyperion::testing {
namespace {

size_t reach_of(const std::string& safetensors) { return safetensors.find("}}") + 2; }

// False in a build without the library that unpacks it.
bool reads_records_at_all(const RecordInput& input) {
  try {
    reads_records(input, {});
    return true;
  } catch (const base::ConfigError&) {
    return false;
  }
}

TEST(FuzzReaders, configs_are_read_or_refused_within_their_memory) {
  std::mt19937 random(1);
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string& good = good_configs()[i % good_configs().size()];
    const std::string text = mutated(good, good.size(), words(), random);
    const size_t peak = peak_allocated([&] { (reads_config(text) ? read : refused) += 1; });
    ASSERT_LE(peak, text.size() + kMostReaderBytes) << text;
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 5000);
}

TEST(FuzzReaders, safetensors_are_read_or_refused_within_their_memory) {
  std::mt19937 random(2);
  const std::string good = good_safetensors();
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string file = mutated(good, reach_of(good), words(), random);
    const size_t peak = peak_allocated([&] { (reads_safetensors(file) ? read : refused) += 1; });
    ASSERT_LE(peak, file.size() + kMostReaderBytes) << file;
  }
  EXPECT_GT(read, 200);
  EXPECT_GT(refused, 5000);
}

TEST(FuzzReaders, records_are_read_or_refused_within_their_memory) {
  std::mt19937 random(3);
  std::vector<std::string> all_words = words();
  all_words.insert(all_words.end(), record_words().begin(), record_words().end());
  for (const auto& input : record_inputs()) {
    if (!reads_records_at_all(input)) continue;
    ASSERT_TRUE(reads_records(input, input.good)) << input.name;
    int read = 0, refused = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string file = mutated(input.good, input.good.size(), all_words, random);
      if (input.name == "tar" && i % 4 > 0) file = with_tar_checksums(std::move(file));
      const size_t peak = peak_allocated([&] { (reads_records(input, file) ? read : refused) += 1; });
      ASSERT_LE(peak, file.size() + kMostReaderBytes) << input.name << " " << i;
    }
    EXPECT_GT(read, 10) << input.name;
    if (input.name != "text" && input.name != "lines" && input.name != "wikitext") {
      EXPECT_GT(refused, 1000) << input.name;
    }
  }
}

// 256 MB out of 8 kB: it is never whole in memory, and a record that is too large for its limit takes no more than
// a few times that limit.
TEST(FuzzReaders, what_unpacks_to_a_lot_is_read_in_bounded_memory) {
  const records::RecordLimits limits{.record = size_t{2} << 20, .text_piece = size_t{1} << 20};
  for (const char c : {'a', '[', '"', '\n', ' ', '\0'})
    for (const auto format :
         {records::RecordFormat::text, records::RecordFormat::lines, records::RecordFormat::wikitext,
          records::RecordFormat::json, records::RecordFormat::tar}) {
      const RecordInput input{"bomb", format, Packing::zstd,
                              records::test::zstd_of_one_character(c, c == 'a' ? 2048 : 128)};
      if (!reads_records_at_all(input)) GTEST_SKIP() << "built without zstd";
      const size_t peak = peak_allocated([&] { reads_records(input, input.good, limits); });
      EXPECT_LE(peak, size_t{9} << 20) << c << " " << static_cast<int>(format);
    }
}

TEST(FuzzReaders, a_tar_that_promises_much_and_holds_little_takes_little) {
  for (const std::string& size : {std::string("268435456"), std::string("99999999999")}) {
    const std::string tar = records::test::tar_member("x", records::test::pax_record("size", size), 'x') +
                            records::test::tar_member("a.txt", "few bytes");
    const RecordInput input{"tar", records::RecordFormat::tar, Packing::none, tar};
    bool read = true;
    EXPECT_LE(peak_allocated([&] { read = reads_records(input, tar, {}); }), size_t{1} << 20) << size;
    EXPECT_FALSE(read);
  }
}

TEST(FuzzReaders, tokenizers_and_chat_templates_are_read_or_refused_within_their_memory) {
  struct Kind {
    std::vector<std::string> good;
    bool (*reads)(const std::string&);
  };
  const Kind kinds[] = {{good_tokenizers(), reads_tokenizer},
                        {{good_ranks()}, reads_tokenizer},
                        {{good_merges()}, reads_merges},
                        {good_chat_templates(), reads_chat_template}};
  std::mt19937 random(3);
  for (const auto& kind : kinds) {
    for (const auto& good : kind.good) EXPECT_TRUE(kind.reads(good)) << good;
    int read = 0, refused = 0;
    for (int i = 0; i < 1500; ++i) {
      const std::string& good = kind.good[i % kind.good.size()];
      const std::string text = mutated(good, good.size(), text_words(), random);
      const size_t peak = peak_allocated([&] { (kind.reads(text) ? read : refused) += 1; });
      ASSERT_LE(peak, text.size() + kMostReaderBytes) << text;
    }
    EXPECT_GT(read, 5);
    EXPECT_GT(refused, 300);
  }
}

std::string repeated(const std::string& piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

std::string framed(const std::string& json) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(json.size() >> (8 * i));
  return file + json;
}

// Text that grows most when it is parsed; around it what makes a reader read on.
TEST(FuzzReaders, long_input_that_is_small_change_costs_no_more_than_its_size_and_64_mb) {
  std::string keys;
  for (int i = 0; keys.size() < size_t{20} << 20; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  for (const size_t bytes : {size_t{1} << 20, size_t{2} << 20, size_t{20} << 20}) {
    for (const char* piece : {"[", "{\"a\":", "{},", "[],", "\"\",", "0,"}) {
      const std::string text = repeated(piece, bytes);
      for (const std::string& config :
           {text, "{\"model_type\": \"gpt2\", \"x\": [" + text + "0]}", "{" + keys.substr(0, bytes)}) {
        const size_t peak = peak_allocated([&] { reads_config(config); });
        EXPECT_LE(peak, config.size() + kMostReaderBytes) << piece << " " << bytes;
      }
      for (const std::string& header :
           {"{\"x\":" + text, "{\"x\":{\"shape\":[" + text, "{\"x\":{\"y\":[" + text, "{\"__metadata__\":{" + text}) {
        const std::string file = framed(header);
        const size_t peak = peak_allocated([&] { reads_safetensors(file); });
        EXPECT_LE(peak, file.size() + kMostReaderBytes) << header.substr(0, 30) << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace hyperion::testing
