// The saves of a run. One that fails for want of a good disk is tried again, then told and left: the run goes on, and
// the checkpoints before it stay. One in the background is written from a copy of the state, while training goes on.
#pragma once
#include <functional>
#include <future>
#include <optional>

#include "hyperion/checkpoint/staged_state.h"

namespace hyperion::checkpoint {

// Of one save; the same on all ranks but for the seconds.
struct SaveOutcome {
  int64_t step = 0;
  std::string failure = {}, hint = {};  // of the last try; empty: the checkpoint is complete
  int tries = 1;
  double write_s = 0;  // all tries, and what was waited between them
  bool complete() const { return failure.empty(); }
};

class Saver {
 public:
  struct Options {
    Retention retention = 2;
    bool background = false;
    // Bytes of host memory that could be had now: what a copy of the state must fit in. Null: any copy does.
    std::function<uint64_t()> room = {};
    double first_pause = 0.2;  // seconds before the second try; each later one is three times as long
  };
  static constexpr int kTries = 4;

  // Of several ranks each has one; all ask it for the same. The group is its own: nobody else may use it.
  Saver(base::FileSystem& files, base::Path folder, Options options, comm::Group* ranks = nullptr);
  ~Saver();  // waits
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Waits for the save before, whose outcome is gone unless wait() was asked. What is no failure of storage is thrown,
  // by the next call where the save goes on in the background.
  void save(const Snapshot& snapshot);      // in the background where it may, and there is memory for the copy
  void save_now(const Snapshot& snapshot);  // returns when it is written or has failed

  // Of the last save, once; nothing where there was none since.
  std::optional<SaveOutcome> wait();
  bool background() const { return options_.background; }

 private:
  SaveOutcome write(const Snapshot& snapshot);
  bool stage(const std::vector<nn::Parameter>& tensors);
  std::string lacks_room(const std::vector<nn::Parameter>& tensors);
  std::vector<std::string> gather(const std::string& text);
  bool first() const;

  base::FileSystem& files_;
  base::Path folder_;
  Options options_;
  comm::Group* ranks_;
  StagedState copy_;
  std::future<SaveOutcome> under_way_;
  std::optional<SaveOutcome> ended_;
};

}  // namespace hyperion::checkpoint
