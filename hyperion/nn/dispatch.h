// Bringing tokens to their experts and back. Here for experts that all live on one device; parallel code fills the same
// interface where they live on several.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hyperion::nn {

// Where each token goes: [tokens, choices], the likeliest expert first.
struct Routing {
  at::Tensor experts;  // int64
  at::Tensor weights;  // fp32; what each expert's answer counts
};

struct Dispatched {
  at::Tensor rows;  // [rows, width]: copies of tokens, those of expert 0 first
  at::Tensor ends;  // int32 [experts], on the rows' device: the row after each expert's last
  // The experts' answers [rows, width], weighted and summed for each token: [tokens, width].
  std::function<at::Tensor(const at::Tensor& answers)> combine;
};

class TokenDispatcher {
 public:
  virtual ~TokenDispatcher() = default;
  // Tokens [tokens, width] go to `experts` experts. With a capacity above 0 each expert takes so many rows, no more and
  // no fewer: of a longer queue the first tokens by their order, a shorter one filled up with zeros. A dropped token
  // gets nothing from that expert, and its other weights stay as they are. With 0 none is dropped.
  virtual Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts, int64_t capacity) = 0;
};

// All experts are here. Nothing waits for the device, and sums are the same in every run.
class LocalDispatcher final : public TokenDispatcher {
 public:
  Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts, int64_t capacity) override;
};
// The same of PyTorch's operations.
class ReferenceDispatcher final : public TokenDispatcher {
 public:
  Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts, int64_t capacity) override;
};

}  // namespace hyperion::nn
