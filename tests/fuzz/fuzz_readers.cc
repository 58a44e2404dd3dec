// The long run: fuzz_readers [SECONDS] [SEED]. Breaks good input and hands it to every reader until the time is over.
// Built with sanitizers, a misstep ends it with their report; input that costs too much memory, or that ends in another
// error than a refusal, is kept in fuzz-failure and ends it with 1.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "hyperion/base/files.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/record_inputs.h"
#include "tests/fuzz/text_inputs.h"
#include "tests/support/fuzz.h"

namespace {

using namespace hyperion;
using namespace hyperion::testing;

// Input that was read, kept to be broken further: so breaks add up.
class Pool {
 public:
  explicit Pool(std::vector<std::string> good) : good_(good.size()), inputs_(std::move(good)) {}
  const std::string& pick(std::mt19937& random) const { return inputs_[random() % inputs_.size()]; }
  void keep(const std::string& input, std::mt19937& random) {
    if (input.size() > 20000) return;
    if (inputs_.size() < 2000)
      inputs_.push_back(input);
    else
      inputs_[good_ + random() % (inputs_.size() - good_)] = input;
  }

 private:
  size_t good_;
  std::vector<std::string> inputs_;
};

[[noreturn]] void give_up(const std::string& input, const std::string& reason) {
  base::write_atomically(base::real_files(), "fuzz-failure", input);
  std::printf("fuzz: %s; the input is in ./fuzz-failure\n", reason.c_str());
  std::exit(1);
}

template <typename Reads>
bool survives(const std::string& input, Reads reads) {
  bool read = false;
  try {
    const size_t peak = peak_allocated([&] { read = reads(input); });
    if (peak > input.size() + kMostReaderBytes) give_up(input, "too much memory: " + std::to_string(peak) + " bytes");
  } catch (const std::exception& error) {
    give_up(input, std::string("another error than a refusal: ") + error.what());
  }
  return read;
}

}  // namespace

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? std::atol(argv[1]) : 60;
  std::mt19937 random(argc > 2 ? std::atol(argv[2]) : std::random_device()());
  Pool configs(good_configs()), files({good_safetensors()}), tokenizers(good_tokenizers()), ranks({good_ranks()}),
      merges({good_merges()}), templates(good_chat_templates());
  std::vector<Pool> record_pools;
  for (const auto& input : record_inputs()) record_pools.push_back(Pool({input.good}));
  std::vector<std::string> all_words = words();
  all_words.insert(all_words.end(), record_words().begin(), record_words().end());
  long tried = 0, read = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds)) {
    const auto break_text = [&](Pool& pool, bool (*reads)(const std::string&)) {
      const std::string& good = pool.pick(random);
      const std::string text = mutated(good, good.size(), text_words(), random);
      ++tried;
      if (survives(text, reads)) pool.keep(text, random), ++read;
    };
    for (int i = 0; i < 100; ++i) {
      break_text(tokenizers, reads_tokenizer);
      break_text(ranks, reads_tokenizer);
      break_text(merges, reads_merges);
      break_text(templates, reads_chat_template);
    }
    for (int i = 0; i < 1000; ++i, tried += 3) {
      const std::string& config = configs.pick(random);
      const std::string text = mutated(config, config.size(), words(), random);
      if (survives(text, [](const std::string& t) { return reads_config(t); })) configs.keep(text, random), ++read;
      const std::string file = mutated(files.pick(random), 400, words(), random);
      if (survives(file, [](const std::string& f) { return reads_safetensors(f); })) files.keep(file, random), ++read;
      const size_t which = random() % record_pools.size();
      const RecordInput& input = record_inputs()[which];
      const std::string& original = record_pools[which].pick(random);
      std::string records = mutated(original, original.size(), all_words, random);
      if (input.name == "tar" && random() % 4 > 0) records = with_tar_checksums(std::move(records));
      if (survives(records, [&](const std::string& r) { return reads_records(input, r); }))
        record_pools[which].keep(records, random), ++read;
    }
  }
  std::printf("fuzz: %ld inputs, %ld read, %ld refused, no crash, none beyond its size and 64 MB of memory\n", tried,
              read, tried - read);
  return 0;
}
