// Reads checkpoints back. A checkpoint is opened by its manifest and the headers of its files; the bytes of a tensor
// are read, verified and handed out where they are asked for, and not before.
#pragma once
#include <functional>

#include "hyperion/checkpoint/shard.h"
#include "hyperion/nn/parameter.h"

namespace hyperion::comm {
class Group;
}

namespace hyperion::checkpoint {

struct OpenedCheckpoint {
  int64_t step = 0;
  base::Path path;
  std::string created, version;
  std::string state;  // the JSON object of the Snapshot

  // What one file holds of a tensor.
  struct Piece {
    std::shared_ptr<const Shard> shard;
    std::string stored;  // its name there
    std::vector<strategy::Run> runs;
  };
  struct Entry {
    std::vector<int64_t> shape;
    at::ScalarType type = at::kFloat;
    std::vector<Piece> pieces;  // complete, and none of them overlaps another
    bool whole = true;          // there is one piece, which is all of it
  };
  std::map<std::string, Entry> tensors;

  // Throws CorruptError that names the checkpoint where there is no such tensor.
  const Entry& entry(const std::string& name) const;
  const std::vector<int64_t>& shape(const std::string& name) const { return entry(name).shape; }
  at::ScalarType type(const std::string& name) const { return entry(name).type; }

  // These throw CorruptError too where what they read is not as it was written.
  // A CPU view of the mapped file where it is whole there: copy from it, never write to it. Else a copy, put together.
  at::Tensor tensor(const std::string& name) const;
  // Elements [begin, begin + out.numel()) of the flattened tensor, of whatever type, and nothing else of it.
  void copy_stretch(const std::string& name, int64_t begin, const at::Tensor& out) const;
  // All whose names begin so. Shows a progress line where it takes long.
  void verify(const std::string& prefix = {}) const;
};

// One step-N folder. Throws CorruptError, or FileError where a file is missing or cannot be read.
OpenedCheckpoint open_checkpoint(base::FileSystem& files, const base::Path& step_folder);

// The newest good checkpoint of a run's checkpoints folder. Each bad one passed over gives a warning: which file, why,
// and the step it falls back to. None good: CorruptError that tells what is wrong with each. None at all: ConfigError.
// `check` throws CorruptError on what only the caller can judge, and reads what must be good now. Only steps below
// `before` are looked at.
OpenedCheckpoint open_newest(base::FileSystem& files, const base::Path& folder,
                             const std::function<void(const OpenedCheckpoint&)>& check = {},
                             int64_t before = INT64_MAX);

// Of tensors' bytes.
struct LoadTraffic {
  int64_t read = 0, sent = 0, received = 0;
};

// Fills the tensors, by name; every rank of the group calls this with those it holds, or parts of them. What several
// need is read and verified by one of them, which sends it to the others; what one needs it reads itself: each byte
// once in all. Throws ConfigError where a tensor has another shape or type there; CorruptError, on all ranks, where
// what any of them read is bad: what was filled is then of no use.
LoadTraffic load_tensors(const OpenedCheckpoint& from, const std::vector<nn::Parameter>& into, comm::Group& ranks);

}  // namespace hyperion::checkpoint
