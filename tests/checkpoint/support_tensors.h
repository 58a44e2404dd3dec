// What the tests of this folder share: a scratch folder, tensors of random bytes, and equality to the bit.
#pragma once
#include <functional>
#include <random>

#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/save.h"
#include "hyperion/comm/group.h"

namespace hyperion::checkpoint::test {

// A fresh folder, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

at::Tensor random_tensor(std::mt19937& random, const std::vector<int64_t>& shape, at::ScalarType dtype);

// A few tensors of odd shapes and types, and a state, all made from the step.
Snapshot make_snapshot(int64_t step);

bool same_bits(const at::Tensor& a, const at::Tensor& b);
// Step, state and every tensor are those of make_snapshot(step).
bool is_snapshot(const OpenedCheckpoint& loaded, int64_t step);

void write_bytes(const base::Path& path, std::string_view bytes);
void flip_bit(const base::Path& path, size_t byte, int bit = 0);

// What each rank of a group threw, or "".
std::vector<std::string> on_ranks(int ranks, const std::function<void(int rank, comm::Group& group)>& work);

// What the work logs, as text.
std::string logged_by(const std::function<void()>& work);
// The text of the error the work throws; empty where it throws none.
std::string error_of(const std::function<void()>& work);

}  // namespace hyperion::checkpoint::test
