#include "hyperion/kernels/small_writes.h"

#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kSmall = 1 << 20;  // bytes

}  // namespace

// Nothing where the list is full.
SmallWrite* SmallWrites::next(const at::Tensor& to, int64_t bytes) {
  if (list_.count == kSmallWrites) return nullptr;
  kept_[2 * list_.count] = to;
  SmallWrite* write = &list_.writes[list_.count++];
  *write = {to.data_ptr(), nullptr, bytes, list_.used};
  return write;
}

void SmallWrites::set(const at::Tensor& to, std::span<const float> values) {
  const auto bytes = static_cast<int64_t>(values.size_bytes());
  HYPERION_CHECK(list_.used + values.size() <= kSmallWords && bytes <= static_cast<int64_t>(to.nbytes()) &&
                     next(to, bytes) != nullptr,
                 "small writes have room for few numbers");
  std::memcpy(&list_.words[list_.used], values.data(), values.size_bytes());
  list_.used += static_cast<int>(values.size());
}

void SmallWrites::set(const at::Tensor& to, uint32_t value) {
  HYPERION_CHECK(list_.used < kSmallWords && to.nbytes() >= sizeof value && next(to, sizeof value) != nullptr,
                 "small writes have room for few numbers");
  list_.words[list_.used++] = value;
}

void SmallWrites::copy(const at::Tensor& to, const at::Tensor& from) {
  const auto bytes = static_cast<int64_t>(to.nbytes());
  const bool plain = to.device() == from.device() && to.is_contiguous() && from.is_contiguous() &&
                     to.sizes() == from.sizes() && to.scalar_type() == from.scalar_type() && bytes <= kSmall;
  SmallWrite* write = plain ? next(to, bytes) : nullptr;
  if (write == nullptr) {
    at::Tensor(to).copy_(from, /*non_blocking=*/true);
    return;
  }
  kept_[2 * list_.count - 1] = from;
  write->from = from.const_data_ptr();
}

void SmallWrites::queue() {
  if (list_.count == 0) return;
  if (kept_[0].is_cuda()) {
    on_gpu([&] { small_writes_gpu(list_, stream_of(kept_[0])); });
  } else {
    for (const auto& write : std::span(list_.writes).first(static_cast<size_t>(list_.count)))
      std::memcpy(write.to, write.from != nullptr ? write.from : &list_.words[write.word],
                  static_cast<size_t>(write.bytes));
  }
  *this = {};
}

}  // namespace hyperion::kernels
