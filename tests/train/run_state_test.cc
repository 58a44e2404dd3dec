#include "hyperion/train/run_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"

namespace hyperion::train {
namespace {

using nlohmann::json;

RunState some_state() {
  RunConfig config;
  config.train.seed = 7;
  config.train.precision = Precision::fp16;  // in which a step may be without an update
  RunState state;
  state.cursor = {640, 0xfedcba9876543210};
  state.numbers = {19, 1024, 3};
  state.data_digest = "abc";
  state.threads = 2, state.seconds = 1.5;
  state.model = R"({"model_type":"gpt2"})";
  state.settings = settings_json(bind(config));
  return state;
}

TEST(RunState, is_read_back_as_it_was) {
  const RunState was = some_state(), now = parse_run_state(state_text(was), "manifest.json", 20);
  EXPECT_EQ(now.cursor.samples, 640);
  EXPECT_EQ(now.cursor.hash, 0xfedcba9876543210);
  EXPECT_EQ(now.numbers.updates, 19);
  EXPECT_EQ(now.numbers.loss_scale, 1024);
  EXPECT_EQ(now.numbers.good_steps, 3);
  EXPECT_EQ(now.data_digest, "abc");
  EXPECT_EQ(now.threads, 2);
  EXPECT_EQ(now.seconds, 1.5);
  EXPECT_EQ(now.model, was.model);
  EXPECT_EQ(json::parse(now.settings), json::parse(was.settings));
  RunConfig config;
  auto settings = bind(config);
  apply_settings(now.settings, settings, "manifest.json");
  EXPECT_EQ(config.train.seed, 7);
}

TEST(RunState, refuses_what_no_run_can_have_and_names_it) {
  const std::pair<const char*, json> wrong[] = {
      {"/cursor/samples", -1},
      {"/cursor/samples", INT64_MAX},
      {"/cursor/samples", 19},
      {"/cursor/samples", UINT64_MAX},
      {"/cursor/samples", 640.5},
      {"/cursor/samples", "640"},
      {"/cursor/hash", -1},
      {"/cursor/hash", "x"},
      {"/cursor", 600},
      {"/cursor", json::object()},
      {"/updates", -5},
      {"/updates", 21},
      {"/updates", nullptr},
      {"/loss_scale", -1},
      {"/loss_scale", "x"},
      {"/loss_scale", nullptr},
      {"/good_steps", -1},
      {"/good_steps", 1e300},
      {"/threads", 0},
      {"/threads", true},
      {"/seconds", -1},
      {"/seconds", nullptr},
      {"/data_digest", 5},
      {"/base_digest", json::array()},
      {"/model", "gpt2"},
      {"/adapter", 1},
      {"/settings", json::array()},
      {"/settings/train.seed", "seven"},
      {"/settings/train.seed", -1},
      {"/settings/optim.lr", nullptr},
      {"/settings/optim.rule", "x"},
      {"/settings/train.batch", json::object()},
      {"/seed", 99},
      {"/precision", "bf16"},
  };
  for (const auto& [place, value] : wrong) {
    SCOPED_TRACE(std::string(place) + " = " + value.dump());
    json state = json::parse(state_text(some_state()));
    state[json::json_pointer(place)] = value;
    try {
      parse_run_state(state.dump(), "step-20/manifest.json", 20);
      ADD_FAILURE() << "accepted";
    } catch (const base::CorruptError& error) {
      const std::string what = error.what(), member = std::string(place).substr(std::string(place).rfind('/') + 1);
      EXPECT_NE(what.find("step-20/manifest.json"), std::string::npos) << what;
      EXPECT_EQ(what.find("json.exception"), std::string::npos) << what;
    }
  }
}

TEST(RunState, only_fp16_may_have_fewer_updates_than_steps) {
  RunConfig config;
  RunState state = some_state();
  state.settings = settings_json(bind(config));
  EXPECT_THROW(parse_run_state(state_text(state), "m", 20), base::CorruptError);
  EXPECT_NO_THROW(parse_run_state(state_text(state), "m", 19));
}

TEST(RunState, refuses_one_that_lacks_a_member) {
  for (const char* member : {"cursor", "threads", "seconds", "model"}) {
    json state = json::parse(state_text(some_state()));
    state.erase(member);
    try {
      parse_run_state(state.dump(), "m", 20);
      ADD_FAILURE() << member;
    } catch (const base::CorruptError& error) {
      EXPECT_EQ(std::string(error.what()), std::string("m: state has no ") + member);
    }
  }
  EXPECT_THROW(parse_run_state("{}", "m", 20), base::CorruptError);
  EXPECT_THROW(parse_run_state("[]", "m", 20), base::CorruptError);
}

// As checkpoints were before they held all settings.
TEST(RunState, reads_the_few_settings_of_an_older_one) {
  json state = json::parse(state_text(some_state()));
  state.erase("settings");
  state["seed"] = 7, state["precision"] = "bf16", state["updates"] = 20;
  state["schedule"] = {{"shape", "linear"}, {"peak", 0.5}, {"warmup", 3}, {"steps", 60}};
  const json few = json::parse(parse_run_state(state.dump(), "m", 20).settings);
  EXPECT_EQ(few, (json{{"train.seed", 7},
                       {"train.precision", "bf16"},
                       {"optim.schedule", "linear"},
                       {"optim.lr", 0.5},
                       {"optim.warmup", 3},
                       {"train.steps", 60}}));
}

}  // namespace
}  // namespace hyperion::train
