#include "hyperion/bench/kernel_operations.h"

#include <charconv>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::bench {

const char* name_of(Size size) {
  constexpr const char* kNames[] = {"small", "medium", "large"};
  return kNames[static_cast<int>(size)];
}

ActivationShape activation_shape(const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 40;  // elements
  int64_t sides[3] = {}, elements = 1;
  const char *at = text.data(), *end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto read = std::from_chars(at, end, sides[i]);
    if (read.ec != std::errc() || sides[i] < 1 || sides[i] > kMost / elements) break;
    elements *= sides[i];
    at = read.ptr;
    if (i < 2 && at != end && *at == 'x')
      ++at;
    else if (i == 2 && at == end && sides[2] % 2 == 0)
      return {sides[0], sides[1], sides[2]};
    else
      break;
  }
  throw base::ConfigError(
      base::format("\"{}\" is not a shape of activations", text),
      "write batch x length x width, as 4x512x1024: whole numbers from 1, the width even, 2^40 elements at most");
}

std::string OperationPlace::size_name() const {
  const std::string whole = shape ? base::format("{}x{}x{}", shape->batch, shape->length, shape->width) : name_of(size);
  return shards > 1 ? base::format("{} {}={}", whole, axis, shards) : whole;
}

std::vector<OperationEntry> kernel_operations() {
  auto list = single_operations();
  for (const auto& more : {weight_operations(), block_operations()})
    for (const auto& entry : more) list.push_back(entry);
  return list;
}

}  // namespace hyperion::bench
