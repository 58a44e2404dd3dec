#include "hyperion/bench/kernel_operations.h"

namespace hyperion::bench {

const char* name_of(Size size) {
  constexpr const char* kNames[] = {"small", "medium", "large"};
  return kNames[static_cast<int>(size)];
}

std::vector<OperationEntry> kernel_operations() {
  auto list = single_operations();
  for (const auto& entry : block_operations()) list.push_back(entry);
  return list;
}

}  // namespace hyperion::bench
