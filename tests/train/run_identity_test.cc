#include "hyperion/train/run_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "hyperion/base/error.h"

namespace hyperion::train {
namespace {

// A run of 60 steps as its checkpoint of `step` knows it, and what it is to go on as.
struct Resumed {
  explicit Resumed(int64_t step = 20, const std::function<void(RunConfig&)>& begun = {}) {
    before.train.steps = after.train.steps = 60;
    if (begun) begun(before), begun(after);
    start.checkpoint.step = step;
    start.checkpoint.path = "runs/r/checkpoints/step-20";
    start.state.settings = settings_json(was);
    start.state.data_digest = "0123";
    apply_settings(start.state.settings, was, start.manifest());
  }
  std::vector<std::string> changes() { return changes_of({"r", before, was, &start}, after, now); }

  RunConfig before, after;
  base::Settings was = bind(before), now = bind(after);
  StartPoint start;
};

void change(const base::Setting& setting) {
  if (auto* const* whole = std::get_if<int64_t*>(&setting.value)) ++**whole;
  if (auto* const* real = std::get_if<double*>(&setting.value)) **real = **real == 0 ? 0.5 : **real / 2;
  if (auto* const* flag = std::get_if<bool*>(&setting.value)) **flag = !**flag;
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&setting.value)) (*list)->push_back("other");
  if (auto* const* text = std::get_if<std::string*>(&setting.value)) **text += "other";
  if (const auto* written = std::get_if<base::WrittenValue>(&setting.value)) {
    const auto& choices = setting.choices;
    written->read(choices.empty() ? "weights" : choices[0] != **written ? choices[0] : choices[1]);
  }
}

TEST(RunIdentity, every_setting_that_changes_is_refused_or_said) {
  const size_t count = Resumed().now.all().size();
  EXPECT_GT(count, 100u);
  int refused = 0, said = 0;
  for (size_t i = 0; i < count; ++i) {
    Resumed run(20, [](RunConfig& config) { config.optim.decay_steps = 60; });
    const base::Setting& setting = run.now.all()[i];
    const std::string name = setting.name(), before = setting.text();
    change(setting);
    ASSERT_NE(setting.text(), before) << name;
    try {
      const auto lines = run.changes();
      EXPECT_FALSE(belongs_to_run(name)) << name;
      EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line == "run r goes on with " + name + " = " + setting.text() + "; it was " + before;
      })) << name;
      ++said;
    } catch (const base::ConfigError& error) {
      EXPECT_TRUE(belongs_to_run(name)) << name;
      const std::string what = error.what();
      for (const std::string& part : {name, before, setting.text(), run.start.manifest()})
        EXPECT_NE(what.find(part), std::string::npos) << what;
      EXPECT_FALSE(error.hint().empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
  EXPECT_GT(said, 40);
}

TEST(RunIdentity, nothing_is_said_of_a_run_that_goes_on_as_it_was) { EXPECT_TRUE(Resumed().changes().empty()); }

TEST(RunIdentity, the_checkpoint_is_believed_where_the_file_was_edited) {
  Resumed run;
  run.after.train.seed = 5;
  EXPECT_THROW(run.changes(), base::ConfigError);
  run.after.train.seed = 1;
  run.after.optim.lr = 0.5;
  const auto lines = run.changes();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "run r goes on with optim.lr = 0.5; it was 0.0003");
  EXPECT_EQ(lines[1].find("the learning rate goes from 0.0003 at step 20 to "), 0u) << lines[1];
}

TEST(RunIdentity, a_place_may_change_whose_content_the_checkpoint_knows) {
  const auto begun = [](RunConfig& config) {
    config.data.source = data::SourceKind::text, config.data.path = {"/here/a.txt"};
  };
  Resumed moved(20, begun);
  moved.after.data.path = {"/there/a.txt"};
  ASSERT_EQ(moved.changes().size(), 1u);
  Resumed unknown(20, begun);
  unknown.start.state.data_digest.clear();
  unknown.after.data.path = {"/there/a.txt"};
  EXPECT_THROW(unknown.changes(), base::ConfigError);
}

TEST(RunIdentity, a_longer_run_keeps_its_learning_rates_and_then_the_last) {
  Resumed run(60);
  run.after.train.steps = 80;
  const auto lines = run.changes();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "the schedule ends at step 60 as before, later steps keep its last learning rate, 3e-05; "
            "--optim.decay_steps=80 lets it end with the run, and the learning rate go from 3e-05 at step 60 to "
            "9.15e-05 at step 61");
  const auto schedule = optim::schedule_of(run.after.optim, 80), before = optim::schedule_of(run.before.optim, 60);
  for (const int64_t step : {1, 30, 60, 61, 80}) EXPECT_EQ(schedule.at(step), before.at(step));
}

TEST(RunIdentity, a_schedule_is_stretched_where_that_is_asked_for_and_the_jump_is_said) {
  Resumed run(60);
  run.after.train.steps = run.after.optim.decay_steps = 80;
  const auto lines = run.changes();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2],
            "the schedule now ends at step 80: the learning rate goes from 3e-05 at step 60 to 9.15e-05 at step 61");
  EXPECT_DOUBLE_EQ(optim::schedule_of(run.after.optim, 80).at(80), 3e-5);
}

TEST(RunIdentity, a_run_that_was_made_longer_stays_as_it_is_when_it_goes_on_again) {
  Resumed run(70, [](RunConfig& config) { config.train.steps = 80, config.optim.decay_steps = 60; });
  run.after.optim.decay_steps = 0;  // as a recipe says that knows nothing of it
  EXPECT_TRUE(run.changes().empty());
  EXPECT_EQ(run.after.optim.decay_steps, 60);
}

TEST(RunIdentity, a_shorter_run_keeps_its_learning_rates) {
  Resumed run(20);
  run.after.train.steps = 40;
  const auto lines = run.changes();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].find("the schedule ends at step 60 as before, and the run at "), 0u) << lines[1];
  EXPECT_EQ(run.after.optim.decay_steps, 60);
}

TEST(RunIdentity, a_constant_learning_rate_has_no_end_to_speak_of) {
  Resumed run(60, [](RunConfig& config) { config.optim.schedule = optim::ScheduleShape::constant; });
  run.after.train.steps = 80;
  EXPECT_EQ(run.changes().size(), 1u);
  EXPECT_EQ(run.after.optim.decay_steps, 0);
}

TEST(RunIdentity, a_run_without_a_checkpoint_is_what_its_file_says) {
  Resumed run;
  run.after.train.steps = 80;
  EXPECT_EQ(changes_of({"r", run.before, run.was, nullptr}, run.after, run.now).size(), 1u);
  EXPECT_EQ(run.after.optim.decay_steps, 0);
  run.after.train.seed = 5;
  EXPECT_THROW(changes_of({"r", run.before, run.was, nullptr}, run.after, run.now), base::ConfigError);
}

TEST(RunIdentity, a_model_that_differs_in_any_key_is_refused_by_name) {
  Resumed run;
  const std::string model = model_config(base::real_files(), run.before);
  run.start.state.model = model;
  EXPECT_NO_THROW(check_same_model(model, "runs/r/model.json", run.start));
  std::string edited = model;
  const size_t at = edited.find("1e-05");
  ASSERT_NE(at, std::string::npos);
  edited.replace(at, 5, "1e-01");
  try {
    check_same_model(edited, "runs/r/model.json", run.start);
    FAIL();
  } catch (const base::ConfigError& error) {
    const std::string what = error.what();
    for (const std::string part : {"runs/r/model.json", "layer_norm_epsilon = 0.1", "1e-05", "step-20/manifest.json"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace hyperion::train
