#include "hyperion/train/schedule.h"

#include <algorithm>

#include "hyperion/base/error.h"

namespace hyperion::train {

using Work = Instruction::Work;

std::vector<Instruction> in_order(int64_t count) {
  std::vector<Instruction> list;
  for (int64_t index = 0; index < count; ++index) {
    list.push_back({Work::forward, index});
    list.push_back({Work::backward, index});
  }
  return list;
}

std::vector<Instruction> forwards_first(int64_t count) {
  std::vector<Instruction> list;
  for (int64_t index = 0; index < count; ++index) list.push_back({Work::forward, index});
  for (int64_t index = count; index-- > 0;) list.push_back({Work::backward, index});
  return list;
}

std::vector<Instruction> instructions_of(const Schedule& schedule, int64_t count) {
  const auto list = schedule(count);
  std::vector<int> done(static_cast<size_t>(count));  // 1: forward, 2: backward too
  for (const auto& [work, index] : list) {
    HYPERION_CHECK(index >= 0 && index < count, "a schedule runs the micro-batches of its step");
    int& so_far = done[static_cast<size_t>(index)];
    HYPERION_CHECK(so_far == (work == Work::forward ? 0 : 1),
                   "a schedule runs a micro-batch forward once, then backward once");
    ++so_far;
  }
  HYPERION_CHECK(std::all_of(done.begin(), done.end(), [](int each) { return each == 2; }),
                 "a schedule runs every micro-batch forward and backward");
  return list;
}

}  // namespace hyperion::train
