#include "hyperion/nn/region.h"

#include <ATen/ops/as_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::nn {
namespace {

struct Enough {};  // thrown through the region's function once nothing more is needed of it

[[noreturn]] void refuse_other_run(const std::string& what) {
  throw base::Error("recomputing a block's activations did not repeat its forward: " + what,
                    "a block must do the same operations each time; train without recomputation if this one cannot");
}

struct Spent final : SavedTensor {
  at::Tensor unpack() override { throw base::Error("the graph of a recomputation has no backward of its own"); }
};

}  // namespace

class Region::Dropped final : public SavedTensor {
 public:
  Dropped(std::shared_ptr<Region> region, size_t slot) : region_(std::move(region)), slot_(slot) {}
  ~Dropped() override { region_->release(slot_); }
  at::Tensor unpack() override { return region_->take(slot_); }

 private:
  std::shared_ptr<Region> region_;
  size_t slot_;
};

class Region::DroppedOutput final : public SavedTensor {
 public:
  DroppedOutput(std::shared_ptr<Region> region, const at::Tensor& view)
      : region_(std::move(region)),
        sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()) {}
  ~DroppedOutput() override { region_->release_output(); }
  at::Tensor unpack() override { return at::as_strided(region_->take_output(), sizes_, strides_, offset_); }

 private:
  std::shared_ptr<Region> region_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
};

// Takes what the second run saves, in order, into the slots still needed.
class Region::Collector final : public SavePolicy {
 public:
  explicit Collector(Region& region) : region_(region), whole_(region.output_holders_ > 0) {
    for (size_t i = 0; i < region.slots_.size(); ++i)
      if (region.slots_[i].needed) end_ = i + 1;
  }

  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope&) override {
    if (next_ >= region_.slots_.size()) refuse_other_run("it saved more tensors");
    auto& slot = region_.slots_[next_++];
    if (slot.needed) {
      if (!slot.form.fits(tensor)) refuse_other_run(base::format("saved tensor {} has another form", next_ - 1));
      slot.value = tensor.detach();
      slot.version = tensor._version();
    }
    if (next_ == end_ && !whole_) throw Enough{};
    return std::make_unique<Spent>();
  }
  bool done() const { return next_ >= end_; }

 private:
  Region& region_;
  bool whole_;  // the output is needed too
  size_t next_ = 0, end_ = 0;
};

Region::Form::Form(const at::Tensor& tensor)
    : sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()),
      type(tensor.scalar_type()),
      device(tensor.device()) {}

bool Region::Form::fits(const at::Tensor& tensor) const {
  return tensor.sizes() == sizes && tensor.strides() == strides && tensor.scalar_type() == type &&
         tensor.device() == device;
}

Region::Region(const std::vector<at::Tensor>& inputs, Function again) : again_(std::move(again)) {
  for (const auto& input : inputs) inputs_.push_back({input, nullptr, input.requires_grad(), is_parameter(input)});
}

std::unique_ptr<SavedTensor> Region::pack(const at::Tensor& tensor, const SaveScope& scope) {
  const bool drop = !is_parameter(tensor);
  slots_.push_back({Form(tensor), drop, {}, 0});
  if (!drop) return keep(tensor);
  save_inputs(scope.below());
  return std::make_unique<Dropped>(shared_from_this(), slots_.size() - 1);
}

void Region::set_output(const at::Tensor& output) { output_form_.emplace(output); }

std::unique_ptr<SavedTensor> Region::pack_output(const at::Tensor& view, const SaveScope* from) {
  save_inputs(from);
  const std::scoped_lock lock(mutex_);
  ++output_holders_;
  return std::make_unique<DroppedOutput>(shared_from_this(), view);
}

// Not before the first drop: dropout saves nothing, and its input would be held for nothing.
void Region::save_inputs(const SaveScope* from) {
  for (auto& input : inputs_)
    if (input.direct.defined()) input.saved = save(std::exchange(input.direct, {}), from);
}

// A tensor that requires what the input required, so that the same operations save the same, yet leads nowhere. What
// was no parameter must not look like one, hence no leaf.
at::Tensor Region::stand_in(Input& input) const {
  auto tensor = input.saved->unpack().detach();
  if (!input.requires_grad) return tensor;
  if (input.parameter) return tensor.requires_grad_();
  torch::autograd::create_gradient_edge(
      tensor, std::make_shared<torch::autograd::Error>("a recomputation has no backward of its own"));
  return tensor;
}

void Region::fill() {
  std::vector<at::Tensor> inputs;
  for (auto& input : inputs_) inputs.push_back(stand_in(input));
  Collector collector(*this);
  const SaveScope scope(collector);
  const c10::AutoGradMode with_grad(true);
  try {
    const auto output = again_(inputs);
    if (!collector.done()) refuse_other_run("it saved fewer tensors");
    if (output_holders_ == 0) return;
    if (!output_form_->fits(output)) refuse_other_run("its output has another form");
    output_ = output.detach();
  } catch (const Enough&) {
  } catch (...) {
    for (auto& slot : slots_) slot.value.reset();
    throw;
  }
}

at::Tensor Region::take(size_t index) {
  const std::scoped_lock lock(mutex_);
  auto& slot = slots_[index];
  if (!slot.value.defined()) fill();
  if (slot.value._version() != slot.version) refuse_changed_tensor();
  return std::exchange(slot.value, {});
}

void Region::release(size_t index) {
  const std::scoped_lock lock(mutex_);
  slots_[index].needed = false;
  slots_[index].value.reset();
}

at::Tensor Region::take_output() {
  const std::scoped_lock lock(mutex_);
  if (!output_.defined()) fill();
  return output_;
}

void Region::release_output() {
  const std::scoped_lock lock(mutex_);
  if (--output_holders_ == 0) output_.reset();
}

std::unique_ptr<SavedTensor> CheapOutputs::pack(const at::Tensor& tensor, const SaveScope& scope) {
  if (!tensor.has_storage()) return nullptr;
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (const auto& entry : entries_)
    if (entry.storage._unsafe_get_target() == storage && entry.version == tensor._version() &&
        entry.type == tensor.scalar_type())
      return entry.region->pack_output(tensor, &scope);
  return nullptr;
}

void CheapOutputs::add(const at::Tensor& output, std::shared_ptr<Region> region) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.storage.expired(); });
  region->set_output(output);
  entries_.push_back(
      {output.storage().getWeakStorageImpl(), output._version(), output.scalar_type(), std::move(region)});
}

}  // namespace hyperion::nn
