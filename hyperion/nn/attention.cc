#include "hyperion/nn/attention.h"

#include "hyperion/base/format.h"
#include "hyperion/kernels/attention.h"
#include "hyperion/kernels/dropout.h"

namespace hyperion::nn {

void set_rotation(Pass& pass, const at::Tensor& frequencies, int64_t first, int64_t length, at::ScalarType type) {
  std::tie(pass.cosines, pass.sines) = kernels::rope_tables(frequencies, first, length, type);
}

at::Tensor rotate(const at::Tensor& input, const Pass& pass) { return kernels::rope(input, pass.cosines, pass.sines); }

at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, size_t layer,
                  Pass& pass) {
  at::Tensor all_keys = keys, all_values = values;
  if (pass.cache != nullptr) std::tie(all_keys, all_values) = pass.cache->extend(layer, keys, values);
  return pass.reference ? kernels::causal_attention_reference(queries, all_keys, all_values, pass.key_mask)
                        : kernels::causal_attention(queries, all_keys, all_values, pass.key_mask);
}

at::Tensor dropout(const at::Tensor& input, double p, std::string_view name, size_t layer, const Pass& pass) {
  if (!pass.training || p == 0) return input;
  const auto key = base::stream_key(pass.seed, base::format("dropout/{}.{}", layer, name));
  return kernels::dropout(input, p, {key, pass.step, pass.micro_batch});
}

}  // namespace hyperion::nn
