#include "hyperion/nn/token_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/nn/meta.h"

namespace hyperion::nn {

TokenRows::TokenRows(const std::vector<int64_t>& tokens, const at::Tensor& table)
    : tokens_(at::tensor(tokens, at::kLong).to(table.device())),
      rows_(parameter("trainable_tokens_delta", {static_cast<int64_t>(tokens.size()), table.size(1)}, {})) {
  for (const int64_t token : tokens)
    if (token < 0 || token >= table.size(0))
      throw base::ConfigError(
          base::format("token {} cannot be trained: the model has {} token ids", token, table.size(0)));
  const at::NoGradGuard no_grad;
  rows_.set_data(is_materialized(table) ? table.detach().index_select(0, tokens_)
                                        : at::empty(rows_.sizes(), table.options().requires_grad(false)));
}

at::Tensor TokenRows::put_into(const at::Tensor& table) const { return table.index_copy(0, tokens_, rows_); }

}  // namespace hyperion::nn
