// The life of a run: begun, or gone on with, by one process or several, until it is complete, stopped or refused. What
// `hyperion train` and `hyperion resume` do once their settings are read.
#pragma once
#include <string>

#include "hyperion/base/config.h"
#include "hyperion/host/launch.h"
#include "hyperion/train/config.h"
#include "hyperion/train/epochs.h"
#include "hyperion/train/meeting.h"
#include "hyperion/train/run_state.h"

namespace hyperion::train {

struct Session {
  RunConfig& config;               // what settings leave open is settled in it
  const base::Settings& settings;  // bound to it
  host::Launch launch = host::find_launch();
};

// Variables that NCCL reads: before anything touches a GPU.
void apply_nccl(const Session& session);
// A precision that the GPU has, for a run that begins.
void settle_device(const Session& session);

// A new run among the user's; `numbered`: where the name is taken it gets a number. What cannot work is refused before
// anything is made. Returns when it is complete; throws what stopped it, and then `resume_run` goes on.
void begin_run(const Session& session, const std::string& name, bool numbered, const std::string& recipe = {});

// The run in that folder, to its last step; settings may be others than it was begun with, where they can.
void resume_run(const Session& session, const base::Path& run, HeldRun held);

// What recipes leave open means, for a run that was begun with one, what it was settled as then.
void settle_as_begun(RunConfig& config, const base::Path& run);

// A run may be resumed from any folder.
void make_data_absolute(RunConfig& config);
void fix_model(RunConfig& config);

// What depends on how many processes there are.
void settle_batch(RunConfig& config, const host::Launch& launch);

// What tells the weights of model.from from others, where several ranks read them, each for itself: a checkpoint's
// manifest, or every byte of a Hugging Face folder's. Else empty.
std::string base_to_compare(const Session& session, const StartPoint* past);

// What cannot work is found before anything is made or changed, or another process waited for. Returns what the data
// is known by.
std::string check_start(const Session& session, const std::string& model, Behind behind = {});

}  // namespace hyperion::train
