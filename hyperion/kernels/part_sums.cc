#include "hyperion/kernels/part_sums.h"

#include <torch/csrc/autograd/variable.h>
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/kernels/part_sums_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kFewBytes = 1 << 20;    // of parts that are worth their wait: more would be read from far
constexpr int64_t kMostBytes = 32 << 20;  // of all that wait

// The sums here are tensors of their own on the same memory: a gradient that others hold is copied on its way to a
// leaf.
struct Waiting {
  PartedSums parted;
  std::array<bool, 3> kept{};
};

// Of the pass under way; filled by the engine's thread, read by the caller's when the pass has ended.
bool together = false;
std::vector<Waiting> waiting;
int64_t waiting_bytes = 0;
std::set<const at::TensorImpl*> met;  // leaves

void add_on_cpu(const PartedSums& parted) {
  const auto count = static_cast<int64_t>(parted.sums.size()), width = parted.sums[0].numel();
  const auto whole = parted.partial.narrow(0, 0, parted.parts).reshape({parted.parts, count, width}).sum(0);
  for (int64_t i = 0; i < count; ++i) at::Tensor(parted.sums[static_cast<size_t>(i)]).copy_(whole[i]);
}

void launch_sums(const std::vector<Waiting>& list) {
  if (!list[0].parted.partial.is_cuda()) {
    for (const auto& each : list) add_on_cpu(each.parted);
    return;
  }
  std::map<at::ScalarType, std::vector<const PartedSums*>> by_type;
  for (const auto& each : list) by_type[each.parted.sums[0].scalar_type()].push_back(&each.parted);
  for (const auto& [type, all] : by_type)
    with_type(type, [&, &all = all]<class T>(T) {
      std::vector<PartSums<T>> raw;
      for (const auto* parted : all) {
        raw.push_back({pointer<const float>(parted->partial),
                       static_cast<int32_t>(parted->parts),
                       static_cast<int32_t>(parted->sums.size()),
                       static_cast<int32_t>(parted->sums[0].numel()),
                       {}});
        for (size_t i = 0; i < parted->sums.size(); ++i) raw.back().out[i] = pointer<T>(parted->sums[i]);
      }
      on_gpu([&] { add_parts_gpu(raw.data(), static_cast<int>(raw.size()), stream_of(all[0]->partial)); });
    });
}

void forget() {
  waiting.clear();
  waiting_bytes = 0;
}

// Sums on their way to a leaf are held by the engine, later by the leaf.
void add_up_waiting() {
  for (const auto& [parted, kept] : waiting)
    for (size_t i = 0; i < parted.sums.size(); ++i)
      HYPERION_CHECK(!kept[i] || parted.sums[i].storage().use_count() > 1,
                     "a gradient was read before it was added up");
  if (!waiting.empty()) launch_sums(waiting);
  forget();
}

}  // namespace

void add_up(const PartedSums& parted) {
  if (parted.parts > 0) launch_sums({{parted}});
}

void add_up_for_leaves(const PartedSums& parted, at::TensorList leaves) {
  if (parted.parts == 0) return;
  if (!together) return add_up(parted);
  const auto bytes = static_cast<int64_t>(parted.partial.nbytes());
  bool again = false;
  for (const auto& leaf : leaves) again = !met.insert(leaf.unsafeGetTensorImpl()).second || again;
  if (again) add_up_waiting();
  if (again || bytes > kFewBytes) return add_up(parted);
  Waiting mine{{parted.partial, parted.parts, {}}};
  for (const auto& sum : parted.sums) mine.parted.sums.push_back(sum.detach());
  std::fill_n(mine.kept.begin(), leaves.size(), true);
  waiting.push_back(std::move(mine));
  waiting_bytes += bytes;
  if (waiting_bytes > kMostBytes) add_up_waiting();
}

void will_be_kept(const at::Tensor& sums) {
  for (auto& [parted, kept] : waiting)
    for (size_t i = 0; i < parted.sums.size(); ++i)
      if (parted.sums[i].storage().is_alias_of(sums.storage())) kept[i] = true;
}

SumsAtEnd::SumsAtEnd() {
  HYPERION_CHECK(!together, "one backward pass at a time adds up at its end");
  together = true;
  met.clear();
}

SumsAtEnd::~SumsAtEnd() {
  together = false;
  forget();
}

void SumsAtEnd::add_up() { add_up_waiting(); }

bool has_gradient_hooks(const at::Tensor& tensor) { return !torch::autograd::impl::hooks(tensor).empty(); }

}  // namespace hyperion::kernels
