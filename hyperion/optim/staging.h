// State that lives in host memory (pinned, where the device is a GPU) and visits the device a group at a time: copied
// ahead of its use and back after it, on streams beside the computation. On the CPU the same path makes plain copies.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <deque>
#include <optional>
#include <vector>

namespace hyperion::optim {

using Group = std::vector<at::Tensor>;

class Staging {
 public:
  explicit Staging(at::Device device) : device_(device) {}

  // A copy of the tensor in host memory.
  at::Tensor to_host(const at::Tensor& tensor) const;

  // One pass over `groups` of host tensors: use(i, on_device) is called for each in turn, and what it changes in place
  // is back in the host's tensors after finish().
  template <class Use>
  void visit(const std::vector<Group>& groups, Use use) {
    for (size_t i = 0; i < groups.size(); ++i) {
      while (under_way_.size() < kAhead + 1 && i + under_way_.size() < groups.size())
        fetch(groups[i + under_way_.size()]);
      Group on_device = arrive();
      use(i, on_device);
      send_back(on_device, groups[i]);
    }
  }
  // Waits on the host until everything is back: before the tensors are read there.
  void finish();

 private:
  static constexpr size_t kAhead = 2;
  struct Fetched {
    Group tensors;
    std::optional<c10::Event> arrived;
  };
  void fetch(const Group& host);
  Group arrive();
  void send_back(const Group& on_device, const Group& host);

  at::Device device_;
  std::deque<Fetched> under_way_;
  std::optional<c10::Event> sent_;  // the last copy back
};

}  // namespace hyperion::optim
