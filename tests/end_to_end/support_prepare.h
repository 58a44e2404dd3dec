// Files in the formats that people download, and the commands of docs/data.md over them.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/end_to_end/support_program.h"
#include "tests/support/seed.h"

namespace hyperion::testing {

using Words = std::vector<std::string>;

inline std::string sentence(std::mt19937& random) {
  static const char* words[] = {"the",  "river", "was",   "named", "after", "a",      "small", "town", "in",
                                "1897", "its",   "first", "Größe", "日本",  "bridge", "@-@",   "of",   "and"};
  std::string text;
  for (unsigned i = 0; i < 6 + random() % 20; ++i) text += std::string(" ") + words[random() % std::size(words)];
  return text + " . ";
}

// As wiki.train.raw has it: a blank line, " = Title = ", blank, paragraphs, " = = Section = = ".
inline std::string wikitext(std::mt19937& random, int articles) {
  std::string text;
  for (int i = 0; i < articles; ++i) {
    text += " \n = Article " + std::to_string(i) + " = \n \n";
    for (unsigned p = 0; p < 2 + random() % 4; ++p) {
      if (p == 2) text += " \n = = History = = \n \n";
      for (unsigned s = 0; s < 1 + random() % 4; ++s) text += sentence(random);
      text += "\n";
    }
  }
  return text + " \n";
}

class Prepare : public ::testing::Test {
 protected:
  Finished hyperion(const Words& words, const std::map<std::string, std::string>& environment = {}) {
    return run(scratch_, words, environment);
  }
  void expect_fine(const Finished& done) { ASSERT_EQ(done.code, 0) << done.out << done.err; }
  std::string in(const std::string& name) const { return (scratch_.path() / name).string(); }

  void write_wikitext(int articles) {
    write_file(in("wiki.train.raw"), wikitext(random_, articles));
    write_file(in("wiki.valid.raw"), wikitext(random_, 8));
    write_file(in("wiki.toml"), "[prepare]\nfiles = [\"" + in("wiki.train.raw") + "\"]\nvalidation_files = [\"" +
                                    in("wiki.valid.raw") + "\"]\nformat = \"wikitext\"\noutput = \"" + in("set") +
                                    "\"\nsafe_seconds = 0\n" + training());
  }
  static std::string training() {
    return "[data]\nsource = \"prepared\"\n[train]\nsteps = 6\nbatch = 4\nlength = 32\n[model]\npreset = "
           "\"llama-tiny\"\nlayers = 1\nheads = 2\nkey_value_heads = 2\nwidth = 16\ninner = 32\ncontext = "
           "32\n[eval]\nbatches = 2\n[checkpoint]\nevery = 2\n";
  }
  static bool wait_for_file(const std::string& path) {
    for (int i = 0; i < 600 && !std::filesystem::exists(path); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::filesystem::exists(path);
  }
  Words train(const std::string& recipe, const std::string& name) const {
    return Words{"train", in(recipe), "--run", name} + device_flags();
  }
  // The tokenizer folder of a chat model.
  void write_chat_tokenizer() {
    write_file(in("corpus.txt"), wikitext(random_, 40));
    expect_fine(hyperion({"data", "train-tokenizer", in("corpus.txt"), "--vocab-size", "400", "--pattern", "qwen2",
                          "--special", "<|endoftext|>", "--special", "<|im_start|>", "--special", "<|im_end|>", "--to",
                          in("tokenizer.json")}));
    std::filesystem::create_directories(in("chat"));
    std::filesystem::rename(in("tokenizer.json"), in("chat/tokenizer.json"));
    const nlohmann::json config = {
        {"eos_token", "<|im_end|>"},
        {"chat_template",
         "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
         "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}};
    write_file(in("chat/tokenizer_config.json"), config.dump());
  }
  nlohmann::json figures(const std::string& set) {
    const auto done = hyperion({"data", "inspect", in(set), "--json"});
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out);
  }

  Scratch scratch_;
  std::mt19937 random_{static_cast<unsigned>(seed())};
};

inline std::string image_training(const std::string& preset, int image) {
  return "[data]\nsource = \"prepared\"\n[train]\nsteps = 4\nbatch = 8\n[model]\npreset = \"" + preset + "\"\n" +
         (image > 0 ? "image = " + std::to_string(image) + "\n" : "") + "[eval]\nbatches = 1\n";
}

}  // namespace hyperion::testing
