// What a model says or sees while it is trained: eval.prompts continued, and validation images with predictions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::read_file;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::write_file;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr const char* kSampled =
    "[train]\nsteps = 8\nbatch = 4\nlength = 20\n[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 32\n"
    "[data]\nsource = \"text\"\npath = \"words.txt\"\n[optim]\nlr = 1e-2\nwarmup = 0\n"
    "[eval]\nevery = 4\nbatches = 2\nprompts = [\"the river\", \"a\"]\nprompt_tokens = 6\n[checkpoint]\nevery = 4\n";

class Samples : public ::testing::Test {
 protected:
  Samples() {
    std::string words;
    for (int i = 0; i < 600; ++i) words += "the river " + std::to_string(i * i % 89) + (i % 7 == 0 ? ".\n" : " and ");
    write_file(scratch_.path() / "words.txt", words);
    write_file(scratch_.path() / "recipe.toml", kSampled);
  }
  Finished train(const std::string& name, const Words& flags = {}, const Words& before = {}) {
    return run(scratch_, before + Words{"train", "recipe.toml", "--run", name} + testing::device_flags() + flags);
  }
  static void expect_fine(const Finished& done) { ASSERT_EQ(done.code, 0) << done.out << done.err; }
  // By step, of each validation that has some.
  std::map<int64_t, json> samples(const std::string& name) {
    std::map<int64_t, json> found;
    std::istringstream lines(read_file(scratch_.runs() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto record = json::parse(line); record.contains("split") && record.contains("samples"))
        found[record["step"]] = record["samples"];
    return found;
  }
  Scratch scratch_;
};

TEST_F(Samples, prompts_are_continued_at_each_validation_as_generate_would) {
  const Finished done = train("one");
  expect_fine(done);
  const auto found = samples("one");
  ASSERT_EQ(found.size(), 2u);
  const json& last = found.at(8);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0]["prompt"], "the river");
  const auto flags = testing::device_flags();
  const auto said = run(scratch_, Words{"generate", "one", "--prompt", "the river", "--prompt", "a", "--tokens", "6",
                                        "--json", flags[0], flags[1]});
  expect_fine(said);
  for (const int i : {0, 1}) EXPECT_EQ(json::parse(said.out)[i]["text"], last[i]["text"]);
  EXPECT_TRUE(says(done.out + done.err, "step 8  \"the river\" -> \"")) << done.out << done.err;
  const std::string page = read_file(scratch_.runs() / "one/report.html");
  EXPECT_TRUE(says(page, "Prompts continued after step 8"));
  EXPECT_TRUE(says(page, "2 before")) << "those of step 4";
}

TEST_F(Samples, a_resumed_run_an_adapter_and_several_processes_say_what_one_run_says) {
  expect_fine(train("one"));
  expect_fine(train("cut", {"--steps", "5", "--optim.decay_steps=8"}));
  expect_fine(run(scratch_, Words{"resume", "cut", "--steps", "8"} + testing::device_flags()));
  EXPECT_EQ(samples("cut").at(8), samples("one").at(8));
  expect_fine(train("two", {"--zero", "3"}, {"launch", "-n", "2", "--logs", "logs", "--"}));
  EXPECT_EQ(samples("two").at(8), samples("one").at(8));
  write_file(scratch_.path() / "recipe.toml",
             "[train]\nsteps = 4\nbatch = 4\nlength = 20\n[model]\nfrom = \"one\"\n[lora]\nrank = 2\n[data]\nsource = "
             "\"text\"\npath = \"words.txt\"\n[optim]\nwarmup = 0\n[eval]\nbatches = 2\nprompts = \"the river\"\n");
  expect_fine(train("lora"));
  EXPECT_EQ(samples("lora").at(4).size(), 1u);
}

TEST_F(Samples, a_prompt_that_cannot_be_continued_is_refused_before_training) {
  for (const auto& [flag, why] : {std::pair("--eval.prompts=" + std::string(40, 'x'), "has 40 tokens"),
                                  {std::string("--eval.prompts=[\"\"]"), "empty"}}) {
    const auto done = train("none", {flag});
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_TRUE(says(done.err, why)) << done.err;
    EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "none"));
  }
}

TEST_F(Samples, the_page_of_an_image_run_shows_validation_images_with_predictions) {
  write_file(scratch_.path() / "recipe.toml",
             "[train]\nsteps = 2\nbatch = 4\n[model]\npreset = \"vit-tiny\"\nlayers = 1\n[data]\nsource = "
             "\"shapes\"\nimages = 400\n[eval]\nbatches = 1\n[optim]\nwarmup = 0\n");
  expect_fine(train("shapes"));
  const auto found = json::parse(read_file(scratch_.runs() / "shapes/predictions.json"));
  EXPECT_EQ(found["step"], 2);
  ASSERT_EQ(found["pictures"].size(), 16u);
  EXPECT_TRUE(found["pictures"][0]["png"].get<std::string>().starts_with("iVBORw0KGgo"));
  const std::string page = read_file(scratch_.runs() / "shapes/report.html");
  size_t pictures = 0;
  for (size_t at = 0; (at = page.find("data:image/png;base64,", at)) != page.npos; ++at) ++pictures;
  EXPECT_EQ(pictures, 16u);
  expect_fine(train("cut", {"--zero", "3"}, {"launch", "-n", "2", "--logs", "logs", "--"}));
  const auto cut = json::parse(read_file(scratch_.runs() / "cut/predictions.json"))["pictures"];
  for (const size_t i : {0, 15}) {
    EXPECT_EQ(cut[i]["png"], found["pictures"][i]["png"]);
    EXPECT_EQ(cut[i]["predicted"], found["pictures"][i]["predicted"]);
  }
  expect_fine(run(scratch_, {"runs", "rm", "shapes", "--yes"}));
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "shapes"));
  const auto refused = train("none", {"--eval.prompts=hello"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(says(refused.err, "eval.prompts is set, and the model reads images")) << refused.err;
}

}  // namespace
}  // namespace hyperion
