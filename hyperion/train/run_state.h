// What a checkpoint's manifest says of a run besides its tensors. Only this file's source knows the members, their
// types and their ranges.
#pragma once
#include <optional>
#include <string>

#include "hyperion/base/config.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/data/cursor.h"
#include "hyperion/train/stepper.h"
#include "hyperion/train/validations.h"

namespace hyperion::train {

struct RunState {
  data::Cursor cursor;
  StepperNumbers numbers;                // a loss scale of 0: none, or not known
  std::string data_digest, base_digest;  // empty: not known
  int64_t threads = 1;
  double seconds = 0;                // of training so far
  std::string model;                 // a config.json
  std::string adapter;               // an adapter_config.json; empty: all weights are trained
  std::optional<int64_t> end_token;  // that ends a text, where the data has one
  Validations validations;
  std::string settings;  // a JSON object: "train.seed" -> 1; of older checkpoints only a few
};

std::string state_text(const RunState& state);

// Of the state that the manifest at `place` holds, after `step` steps. Throws CorruptError that names the member which
// is missing, of another type, out of its range, or at odds with another.
RunState parse_run_state(const std::string& text, const std::string& place, int64_t step);

std::string settings_json(const base::Settings& settings);
// Gives each setting that `json` names the value it has there; those that this version does not know are passed over.
// Throws CorruptError where a value cannot be that setting's.
void apply_settings(const std::string& json, base::Settings& settings, const std::string& place);

// Those that the checkpoint in this folder knows.
std::string read_known_settings(base::FileSystem& files, const base::Path& checkpoint);

// Where a resume goes on.
struct StartPoint {
  checkpoint::OpenedCheckpoint checkpoint;
  RunState state;
  int64_t newest_step = 0;  // of all checkpoints, good or bad
  std::string manifest() const { return (checkpoint.path / "manifest.json").string(); }
};

// The newest checkpoint, of those before step `before`, that is good as far as its manifest and headers tell, and in
// all its tensors too where these are to be read; bad ones are told of and passed over. None yet: nothing.
enum class Tensors { later, now };
std::optional<StartPoint> find_start(base::FileSystem& files, const base::Path& checkpoints,
                                     Tensors read = Tensors::later, int64_t before = INT64_MAX);

}  // namespace hyperion::train
