#include "hyperion/parallel/equal_ranks.h"

#include <ATen/ops/empty.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"

namespace hyperion::parallel {

using base::format;

void check_equal(comm::Group& group, const std::vector<nn::Parameter>& tensors) {
  if (group.size() == 1 || tensors.empty()) return;
  const auto count = static_cast<int64_t>(tensors.size());
  const auto own = at::empty({count}, at::kLong), all = at::empty({group.size(), count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const auto values = tensors[static_cast<size_t>(i)].tensor.detach().cpu().contiguous();
    const std::string_view bytes(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    own.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(base::hash_64(bytes));
  }
  group.all_gather(all, own, "hashes").wait();
  const auto* hashes = all.const_data_ptr<int64_t>();
  std::string ranks;
  int64_t first = count;
  for (int rank = 1; rank < group.size(); ++rank)
    for (int64_t i = 0; i < count; ++i)
      if (hashes[rank * count + i] != hashes[i]) {
        ranks += format("{}{}", ranks.empty() ? "" : ", ", rank);
        first = std::min(first, i);
        break;
      }
  if (ranks.empty()) return;
  throw base::Error(
      format("the weights of rank {} are not those of rank 0; the first that differs is {}", ranks,
             tensors[static_cast<size_t>(first)].name),
      "they began with the same: resume from the last checkpoint; if it happens again, look for a broken machine");
}

}  // namespace hyperion::parallel
