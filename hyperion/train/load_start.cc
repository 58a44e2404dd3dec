#include "hyperion/train/load_start.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::train {

using base::format;

StartPoint load_start(base::FileSystem& files, const RunFolder& run, StartPoint start, Stepper& stepper, bool first) {
  for (std::string wrong;;) {
    const auto& bad = start.checkpoint;
    try {
      stepper.load(bad);
      return start;
    } catch (const base::CorruptError& error) {
      wrong += format("\n  step {}: {}", bad.step, error.what());
      auto older = find_start(files, run.checkpoints(), Tensors::later, bad.step);
      if (!older)
        throw base::CorruptError(format("no checkpoint in {} is good:{}", run.checkpoints().string(), wrong),
                                 "restore a checkpoint folder from a copy, or start a new run");
      if (older->state.settings != start.state.settings) {
        const base::Path aside = bad.path.string() + ".bad";
        if (first) files.rename(bad.path, aside);
        throw base::CorruptError(
            format("checkpoint of step {} is bad, and was put aside as {}: {}", bad.step, aside.string(), error.what()),
            format("resume again, from step {}", older->checkpoint.step));
      }
      if (first)
        base::log_warn(format("checkpoint of step {} is bad, falling back to step {}: {}", bad.step,
                              older->checkpoint.step, error.what()));
      older->newest_step = start.newest_step;
      start = std::move(*older);
    }
  }
}

}  // namespace hyperion::train
