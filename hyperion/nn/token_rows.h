// Some rows of a frozen table, trained by themselves: the tokens a model was given beside those it knows. Names and
// meaning are those of PEFT's trainable_token_indices.
#pragma once
#include <memory>
#include <vector>

#include "hyperion/nn/module.h"

namespace hyperion::nn {

class TokenRows final : public Module {
 public:
  // Begins as the table has them, where that has memory. Throws ConfigError on a token that is no row of the table.
  TokenRows(const std::vector<int64_t>& tokens, const at::Tensor& table);
  at::Tensor forward(const at::Tensor& table, Pass&) override { return put_into(table); }

  at::Tensor put_into(const at::Tensor& table) const;  // a copy
  const at::Tensor& rows() const { return rows_; }

 private:
  void move_held(at::Device device) override { tokens_ = tokens_.to(device); }

  at::Tensor tokens_, rows_;
};

// The rows as a child of the module that has the table: its parameter is <path>.token_adapter.trainable_tokens_delta.
constexpr const char* kTokenRows = "token_adapter";
constexpr const char* kTokenRowsParameter = ".token_adapter.trainable_tokens_delta";

}  // namespace hyperion::nn
