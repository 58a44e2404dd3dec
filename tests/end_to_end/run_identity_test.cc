// A resume is the run it was, or says what is other before the first step; whatever was edited in its folder.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_manifest.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr char kSmall[] = R"([train]
steps = 6
batch = 4
length = 16
[model]
layers = 1
heads = 2
width = 16
context = 32
[data]
digits = 2
[optim]
warmup = 2
[eval]
every = 0
batches = 1
[checkpoint]
every = 2
keep = 2
)";

class RunIdentity : public ::testing::Test {
 protected:
  // Stopped after step 4 of 6.
  void SetUp() override {
    testing::write_file(scratch_.path() / "small.toml", kSmall);
    const Finished made = run(scratch_, train() + Words{"--run", "r"}, {{"HYPERION_FAULTS", "train.step=kill@5"}});
    ASSERT_TRUE(fs::exists(checkpoint() / "manifest.json")) << made.err;
    for (const char* file : {"config.resolved.toml", "model.json"}) kept_[file] = testing::read_file(folder() / file);
    kept_["checkpoints/step-4/manifest.json"] = testing::read_file(checkpoint() / "manifest.json");
  }
  void put_back() {
    for (const auto& [file, text] : kept_) testing::write_file(folder() / file, text);
  }
  Words train() { return Words{"train", scratch_.path() / "small.toml"} + testing::device_flags(); }
  fs::path folder() { return scratch_.runs() / "r"; }
  fs::path checkpoint() { return folder() / "checkpoints/step-4"; }
  // Until just before the first step.
  Finished resume(const Words& more = {}) {
    return run(scratch_, Words{"resume", "r"} + more, {{"HYPERION_FAULTS", "train.prepare=throw"}});
  }

  Scratch scratch_;
  std::map<std::string, std::string> kept_;
};

struct Line {
  std::string section, key, value;
  size_t begin, length;  // of the value
};

std::vector<Line> setting_lines(const std::string& toml) {
  std::vector<Line> lines;
  std::string section;
  for (size_t begin = 0, end; begin < toml.size(); begin = end + 1) {
    end = toml.find('\n', begin);
    const std::string line = toml.substr(begin, end - begin);
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2);
    const size_t equals = line.find(" = ");
    if (equals != line.npos)
      lines.push_back(
          {section, line.substr(0, equals), line.substr(equals + 3), begin + equals + 3, line.size() - equals - 3});
  }
  return lines;
}

// Another value of the same type; of a choice one that is there to be chosen.
std::string another(const Line& line) {
  static const std::map<std::string, std::string> kChoices = {
      {"optim.rule", "\"sgd\""},           {"optim.schedule", "\"linear\""}, {"train.precision", "\"bf16\""},
      {"train.optimize", "\"reference\""}, {"train.device", "\"auto\""},     {"data.source", "\"shapes\""},
      {"data.packing", "\"single\""},      {"fp8.scale", "\"rows\""},        {"model.preset", "\"gpt2\""},
      {"model.quantize", "\"nf4\""}};
  if (const auto found = kChoices.find(line.section + "." + line.key); found != kChoices.end()) return found->second;
  if (line.value == "true" || line.value == "false") return line.value == "true" ? "false" : "true";
  if (line.value.starts_with("\"")) return "\"other\"";
  if (line.value.starts_with("[")) return "[\"other\"]";
  if (line.value.find_first_of(".e") != line.value.npos) return line.value == "0.0" ? "0.25" : "0.5";
  if (line.section == "train" && line.key == "steps") return "9";
  if (line.key == "batch") return "8";
  if (line.key == "accumulate") return "2";
  return std::to_string(std::stoll(line.value) + 1);
}

class EditedSettings : public RunIdentity, public ::testing::WithParamInterface<const char*> {};

TEST_P(EditedSettings, are_each_refused_or_said_before_the_first_step) {
  const std::string config = kept_["config.resolved.toml"];
  int tried = 0;
  for (const Line& line : setting_lines(config)) {
    if (line.section != GetParam()) continue;
    const std::string name = line.section + "." + line.key, value = another(line);
    SCOPED_TRACE(name + " = " + value);
    ASSERT_NE(value, line.value);
    std::string edited = config;
    edited.replace(line.begin, line.length, value);
    testing::write_file(folder() / "config.resolved.toml", edited);
    const Finished done = resume();
    const bool said = done.err.find("run r goes on with " + name + " = ") != std::string::npos;
    const bool refused = (done.code == 2 || done.code == 3) && done.err.find("error: ") != std::string::npos &&
                         done.err.find(line.key) != std::string::npos;
    EXPECT_NE(done.code, 0);
    EXPECT_TRUE(said || refused) << done.err;
    ++tried;
  }
  EXPECT_GT(tried, 1);
}

INSTANTIATE_TEST_SUITE_P(Sections, EditedSettings, ::testing::Values("train", "optim", "data", "eval", "checkpoint"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(RunIdentity, what_makes_the_run_is_refused_with_both_values_and_both_files) {
  const std::pair<const char*, std::array<std::string, 4>> cases[] = {
      {"seed = 1\n", {"seed = 5\n", "train.seed", "= 1 (", "says 5"}},
      {"digits = 2\n", {"digits = 1\n", "data.digits", "= 2 (", "says 1"}},
      {"length = 16\n", {"length = 17\n", "train.length", "= 16 (", "says 17"}},
      {"dropout = 0.0\n", {"dropout = 0.5\n", "model.dropout", "= 0.0 (", "says 0.5"}}};
  for (const auto& [line, other] : cases) {
    std::string edited = kept_["config.resolved.toml"];
    ASSERT_NE(edited.find(line), std::string::npos) << line;
    edited.replace(edited.find(line), std::strlen(line), other[0]);
    testing::write_file(folder() / "config.resolved.toml", edited);
    for (const Words& command :
         {Words{"resume", "r"}, Words{"launch", "-n", "2", "--logs", "logs", "--", "resume", "r"}}) {
      const Finished done = run(scratch_, command);
      EXPECT_EQ(done.code, 2) << done.err;
      for (const std::string& part :
           {other[1], other[2], other[3], std::string("step-4/manifest.json"), std::string("config.resolved.toml:")})
        EXPECT_NE(done.err.find(part), std::string::npos) << part << "\n" << done.err;
      EXPECT_EQ(done.err.find(other[1]), done.err.find("error: ") + std::string("error: run r was begun with ").size());
      const size_t first = done.err.find("error: run r");
      EXPECT_EQ(done.err.find("error: run r", first + 1), std::string::npos) << "told twice:\n" << done.err;
    }
  }
}

TEST_F(RunIdentity, the_same_recipe_does_not_hide_an_edited_folder) {
  std::string edited = kept_["config.resolved.toml"];
  edited.replace(edited.find("seed = 1"), 8, "seed = 5");
  testing::write_file(folder() / "config.resolved.toml", edited);
  const Finished done = run(scratch_, train() + Words{"--run", "r", "--or-resume"});
  EXPECT_EQ(done.code, 0) << "the recipe says what the checkpoint says: " << done.err;
  put_back();
  const Finished other = run(scratch_, train() + Words{"--run", "r", "--or-resume", "--seed", "5"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(testing::error_line(other).find("and --seed says 5"), std::string::npos) << other.err;
}

TEST_F(RunIdentity, an_evaluation_of_other_data_than_the_run_s_is_refused) {
  EXPECT_EQ(run(scratch_, {"eval", "r", "--device", "cpu"}).code, 0);
  std::string edited = kept_["config.resolved.toml"];
  edited.replace(edited.find("digits = 2"), 10, "digits = 1");
  testing::write_file(folder() / "config.resolved.toml", edited);
  const Finished done = run(scratch_, {"eval", "r", "--device", "cpu"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(testing::error_line(done).find("run r was begun with data.digits = 2"), std::string::npos) << done.err;
}

TEST_F(RunIdentity, every_key_of_an_edited_model_is_refused) {
  const json model = json::parse(kept_["model.json"]);
  int tried = 0;
  for (const auto& [key, value] : model.items()) {
    json edited = model;
    if (value.is_number()) edited[key] = value.get<double>() == 0 ? json(0.5) : json(value.get<double>() * 2);
    if (value.is_number_integer() && value != 0) edited[key] = value.get<int64_t>() * 2;
    if (value.is_boolean()) edited[key] = !value.get<bool>();
    if (value.is_string()) edited[key] = "other";
    if (edited == model) continue;
    testing::write_file(folder() / "model.json", edited.dump());
    const Finished done = resume();
    EXPECT_TRUE(done.code == 1 || done.code == 2) << key;
    EXPECT_EQ(done.err.find("fault point train.prepare"), std::string::npos) << key << " was believed: " << done.err;
    EXPECT_NE(testing::error_line(done).find(key), std::string::npos) << key << ": " << done.err;
    ++tried;
  }
  EXPECT_GT(tried, 5);
  json renamed = model;
  renamed["resid_qdrop"] = renamed["resid_pdrop"];
  renamed["layer_norm_epsilon"] = 0.1;
  testing::write_file(folder() / "model.json", renamed.dump());
  const std::string error = testing::error_line(resume());
  for (const char* part : {"model.json", "layer_norm_epsilon = 0.1", "1e-05", "step-4/manifest.json"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST_F(RunIdentity, a_checkpoint_of_another_run_is_not_gone_on_with) {
  const std::pair<const char*, json> both[] = {{"train.seed", 99}, {"train.precision", "bf16"}, {"data.digits", 1}};
  for (const auto& [name, value] : both) {
    put_back();
    testing::edit_state(checkpoint(),
                        [&, name = name, value = value](json& state) { state["settings"][name] = value; });
    const Finished done = resume();
    EXPECT_EQ(done.code, 2);
    EXPECT_NE(testing::error_line(done).find(std::string("run r was begun with ") + name), std::string::npos)
        << done.err;
  }
}

// As they were before checkpoints held all settings.
TEST_F(RunIdentity, an_older_checkpoint_is_gone_on_with_and_what_it_knows_is_compared) {
  const auto make_older = [&](json seed, json precision, double lr) {
    put_back();
    testing::edit_state(checkpoint(), [&](json& state) {
      state.erase("settings");
      state["seed"] = seed, state["precision"] = precision, state["data_digest"] = "";
      state["schedule"] = {{"shape", "cosine"}, {"peak", lr}, {"warmup", 2}, {"steps", 6}};
    });
  };
  make_older(99, "fp32", 3e-4);
  EXPECT_NE(testing::error_line(resume()).find("run r was begun with train.seed = 99"), std::string::npos);
  make_older(1, "bf16", 3e-4);
  EXPECT_NE(testing::error_line(resume()).find("run r was begun with train.precision = \"bf16\""), std::string::npos);
  make_older(1, "fp32", 0.5);
  EXPECT_NE(resume().err.find("run r goes on with optim.lr = 0.0003; it was 0.5"), std::string::npos);
  make_older(1, "fp32", 3e-4);
  const Finished done = run(scratch_, {"resume", "r"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err.find("goes on with"), std::string::npos) << done.err;
}

TEST_F(RunIdentity, what_flags_change_is_said_by_resume_as_by_or_resume) {
  const Words flags{"--optim.lr=0.5", "--train.batch=8"};
  for (const Finished& done : {resume(flags), run(scratch_, train() + Words{"--run", "r", "--or-resume"} + flags,
                                                  {{"HYPERION_FAULTS", "train.prepare=throw"}})})
    for (const char* line :
         {"run r goes on with optim.lr = 0.5; it was 0.0003", "run r goes on with train.batch = 8; it was 4"})
      EXPECT_NE(done.err.find(line), std::string::npos) << done.err;
}

TEST_F(RunIdentity, data_that_was_moved_is_known_by_its_content) {
  const Words text = testing::text_data(scratch_);
  const fs::path words = scratch_.path() / "words.txt", moved = scratch_.path() / "moved.txt";
  ASSERT_EQ(run(scratch_, train() + Words{"--run", "t"} + text).code, 0);
  fs::rename(words, moved);
  const Words resume{"resume", "t", "--steps", "8"};
  EXPECT_NE(run(scratch_, resume).code, 0);
  const Finished done = run(scratch_, resume + Words{"--data.path=moved.txt"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("run t goes on with data.path = [\"" + moved.string()), std::string::npos) << done.err;
  testing::write_file(words, testing::read_file(moved) + "more");
  const Finished other = run(scratch_, {"resume", "t", "--steps", "9", "--data.path=words.txt"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(testing::error_line(other).find("is not what this run was trained on"), std::string::npos) << other.err;
}

TEST_F(RunIdentity, a_longer_run_has_no_jump_of_the_learning_rate_unless_it_is_asked_for) {
  ASSERT_EQ(run(scratch_, {"resume", "r"}).code, 0);
  const Finished held = run(scratch_, {"resume", "r", "--steps", "8"});
  EXPECT_NE(held.err.find("the schedule ends at step 6 as before, later steps keep its last learning rate, 3e-05; "
                          "--optim.decay_steps=8 lets it end with the run"),
            std::string::npos)
      << held.err;
  const auto rate = [&](int64_t step) {
    std::istringstream lines(testing::read_file(folder() / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto record = json::parse(line); !record.contains("split") && record["step"] == step)
        return record["lr"].get<double>();
    return -1.0;
  };
  EXPECT_NEAR(rate(6), 3e-5, 1e-12);
  EXPECT_NEAR(rate(7), 3e-5, 1e-12);
  EXPECT_NEAR(rate(8), 3e-5, 1e-12);
  const Finished stretched = run(scratch_, {"resume", "r", "--steps", "10", "--optim.decay_steps=10"});
  EXPECT_NE(stretched.err.find("the schedule now ends at step 10: the learning rate goes from 3e-05 at step 8 to "),
            std::string::npos)
      << stretched.err;
  EXPECT_GT(rate(9), 4e-5);
  EXPECT_NEAR(rate(10), 3e-5, 1e-12);
}

TEST_F(RunIdentity, data_made_from_the_seed_has_a_digest_too) {
  const std::string sums = testing::manifest_state(checkpoint()).at("data_digest");
  EXPECT_EQ(sums.size(), 32u);
  ASSERT_EQ(run(scratch_, train() + Words{"--run", "other", "--data.digits=1"}).code, 0);
  EXPECT_NE(testing::manifest_state(scratch_.runs() / "other/checkpoints/step-6").at("data_digest"), sums);
}

}  // namespace
}  // namespace hyperion
