// Ranks whose disks hold something else under the same name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/multi_rank/support_launch.h"

namespace hyperion::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Each rank works in a folder of its own, which all of them call /proc/self/cwd.
class Inputs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    for (const int rank : {0, 1}) fs::create_directories(of_rank(rank));
    write(folder_ / "text.toml", "[data]\nsource = \"text\"\n" + small_model());
    write(
        folder_ / "image.toml",
        "[model]\npreset = \"vit-tiny\"\nlayers = 1\nwidth = 16\nheads = 2\nimage = 16\npatch = 8\n[data]\nvalidation "
        "= 0.3\n[train]\nsteps = 2\nbatch = 4\n[eval]\nbatches = 1\n[parallel]\ntimeout = 20\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string small_model() {
    return "[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 32\n[train]\nsteps = 4\nbatch = 4\nlength = 16\n"
           "[eval]\nevery = 4\nbatches = 1\n[checkpoint]\nevery = 2\n[parallel]\ntimeout = 20\n";
  }
  static void write(const fs::path& path, const std::string& content) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  fs::path of_rank(int rank) const { return folder_ / std::to_string(rank); }
  static std::string named(const std::string& file) { return "/proc/self/cwd/" + file; }
  // As long as any other: only what it says differs.
  static std::string text_of(unsigned seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + random() % 26);
    return text;
  }

  std::vector<RankResult> run(int ranks, const Words& words) {
    const Words command = Words{"/bin/sh", "-c", "cd \"$OF_RANK\" && exec \"$0\" \"$@\"", HYPERION_PROGRAM} + words;
    std::map<int, Environment> own;
    for (int rank = 0; rank < ranks; ++rank) own[rank] = {{"OF_RANK", of_rank(rank)}};
    return Ranks(ranks, command, {{"HYPERION_RUNS", folder_ / "runs"}}, own).wait();
  }
  Words train(const std::string& recipe, const Words& more) const {
    return Words{"train", (folder_ / recipe).string(), "--run", "mine", "--device", "cpu"} + more;
  }
  void expect_fine(int ranks, const Words& words) {
    const auto results = run(ranks, words);
    for (const auto& result : results) ASSERT_EQ(result.code, 0) << result.out << result.err;
  }
  // By both, before anything is made.
  void expect_refused(const Words& words, const std::string& why) {
    for (const auto& result : run(2, words)) {
      EXPECT_EQ(result.code, 2);
      EXPECT_NE(result.err.find(why + " on rank 1 than on rank 0: its hash is "), std::string::npos) << result.err;
      EXPECT_NE(result.err.find("on a disk that they share"), std::string::npos) << result.err;
    }
  }
  bool made() const { return fs::exists(folder_ / "runs" / "mine"); }

  fs::path folder_;
};

TEST_F(Inputs, other_text_is_refused_at_the_start_and_when_a_run_goes_on) {
  for (const unsigned rank : {0, 1}) write(of_rank(rank) / "corpus.txt", text_of(rank));
  const Words on_text = {"--data.path=" + named("corpus.txt")};
  const std::string why = "the data at " + named("corpus.txt") + " is other";
  expect_refused(train("text.toml", on_text), why);
  EXPECT_FALSE(made());
  write(of_rank(1) / "corpus.txt", text_of(0));
  expect_fine(2, train("text.toml", on_text));
  write(of_rank(1) / "corpus.txt", text_of(1));
  expect_refused({"resume", "mine", "--steps", "8"}, why);
  write(of_rank(1) / "corpus.txt", text_of(0));
  expect_fine(2, {"resume", "mine", "--steps", "8"});
}

TEST_F(Inputs, epochs_of_other_data_are_told_as_other_data) {
  for (const unsigned rank : {0, 1}) write(of_rank(rank) / "corpus.txt", text_of(0).substr(270 * rank + 16));
  expect_refused(train("text.toml", {"--train.epochs=1", "--data.path=" + named("corpus.txt")}),
                 "the data at " + named("corpus.txt") + " is other");
}

TEST_F(Inputs, one_other_set_of_a_mixture_is_refused) {
  for (const int rank : {0, 1})
    for (const std::string set : {"first", "second"}) {
      write(folder_ / "lines.txt", text_of(set == "first" ? 7 : static_cast<unsigned>(rank)));
      write(folder_ / "set.toml", "[prepare]\nfiles = [\"" + (folder_ / "lines.txt").string() +
                                      "\"]\nformat = \"text\"\n" + "validation = 0.3\noutput = \"" +
                                      (of_rank(rank) / set).string() + "\"\n");
      expect_fine(1, {"data", "prepare", (folder_ / "set.toml").string()});
    }
  write(folder_ / "text.toml", "[data]\nsource = \"prepared\"\npath = [\"" + named("first") + "\", \"" +
                                   named("second") + "\"]\nweights = [0.5, 0.5]\n" + small_model());
  expect_refused(train("text.toml", {}), "the data at " + named("first") + " and the others is other");
  EXPECT_FALSE(made());
}

TEST_F(Inputs, other_images_are_refused) {
  for (const unsigned rank : {0, 1}) {
    for (const std::string name : {"ant", "bee"})
      for (int i = 0; i < 6; ++i)  // no one looks further than at how they begin
        write(of_rank(rank) / "insects" / name / (std::to_string(i) + ".jpg"), "\xff\xd8\xff\xe0" + text_of(rank));
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                             "data_batch_5.bin", "test_batch.bin"}) {
      std::string records(4 * 3073, '\1');
      records.back() = static_cast<char>(rank);
      write(of_rank(rank) / "cifar" / name, records);
    }
  }
  expect_refused(train("image.toml", {"--data.source=images", "--data.path=" + named("insects")}),
                 "the data at " + named("insects") + " is other");
  expect_refused(train("image.toml", {"--data.source=cifar", "--data.path=" + named("cifar")}),
                 "the data at " + named("cifar") + " is other");
  EXPECT_FALSE(made());
}

TEST_F(Inputs, other_weights_to_start_from_are_refused_whatever_is_trained_and_however_it_is_cut) {
  write(folder_ / "corpus.txt", text_of(0));
  const Words on_text = {"--data.path=" + (folder_ / "corpus.txt").string()};
  const std::string recipe = (folder_ / "text.toml").string(), from = (folder_ / "from.toml").string();
  for (const std::string rank : {"0", "1"}) {
    expect_fine(1,
                Words{"train", recipe, "--run", "base-" + rank, "--train.seed=" + rank, "--device", "cpu"} + on_text);
    expect_fine(1, {"export", "base-" + rank, "--to", (folder_ / rank / "hf").string()});
    fs::create_directories(of_rank(rank == "1") / "checkpoint");
    fs::copy(folder_ / "runs" / ("base-" + rank) / "checkpoints" / "step-4", of_rank(rank == "1") / "checkpoint",
             fs::copy_options::recursive);
  }
  const std::string model = small_model();
  write(from, "[data]\nsource = \"text\"\n" + model.substr(model.find("[train]")));
  const Words adapter = {"--lora.rank=2"}, packed = {"--lora.rank=2", "--model.quantize=nf4"};
  for (const std::string zero : {"0", "3"})
    for (const Words& trained : {Words{}, adapter, packed}) {
      SCOPED_TRACE("zero " + zero + (trained.empty() ? "" : ", " + trained.back()));
      expect_refused(train("from.toml", on_text + trained + Words{"--model.from=" + named("hf"), "--zero", zero}),
                     "model.from = " + named("hf") + " has other weights");
      EXPECT_FALSE(made());
    }
  expect_refused(train("from.toml", on_text + Words{"--model.from=" + named("checkpoint"), "--zero", "3"}),
                 "model.from = " + named("checkpoint") + " has other weights");
  const auto before = fs::path(of_rank(1) / "hf");
  fs::remove_all(before);
  fs::copy(of_rank(0) / "hf", before, fs::copy_options::recursive);
  expect_fine(2, train("from.toml", on_text + adapter + Words{"--model.from=" + named("hf"), "--zero", "3"}));
}

}  // namespace
}  // namespace hyperion::testing
