// The parts of recompute.cc: one run of a region, and the outputs of cheap regions within a block.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "hyperion/nn/saved_tensors.h"

namespace hyperion::nn {

// One forward run of a region: as a policy it drops what is saved, and lives as long as anything stands for a dropped
// tensor. Tensors are told apart by the order of their saving.
class Region final : public SavePolicy, public std::enable_shared_from_this<Region> {
 public:
  using Function = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;
  Region(const std::vector<at::Tensor>& inputs, Function again);
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope& scope) override;

  // Must be called before pack_output.
  void set_output(const at::Tensor& output);
  // Stands for a view of the output; `from` is where the inputs are to be saved.
  std::unique_ptr<SavedTensor> pack_output(const at::Tensor& view, const SaveScope* from);

 private:
  class Collector;
  class Dropped;
  class DroppedOutput;

  struct Input {
    at::Tensor direct;  // until something is dropped, then undefined
    std::unique_ptr<SavedTensor> saved;
    bool requires_grad, parameter;
  };
  struct Form {
    std::vector<int64_t> sizes, strides;
    at::ScalarType type;
    at::Device device;
    explicit Form(const at::Tensor& tensor);
    bool fits(const at::Tensor& tensor) const;
  };
  struct Slot {
    Form form;
    bool needed;  // something stands for it
    at::Tensor value;
    int64_t version;  // of the value when it was saved
  };

  void save_inputs(const SaveScope* from);
  at::Tensor stand_in(Input& input) const;
  void fill();  // runs again_
  at::Tensor take(size_t slot);
  void release(size_t slot);
  at::Tensor take_output();
  void release_output();

  std::mutex mutex_;  // of all that follows, once the forward is over
  Function again_;
  std::vector<Input> inputs_;
  std::vector<Slot> slots_;
  std::optional<Form> output_form_;
  at::Tensor output_;
  int output_holders_ = 0;
};

// The outputs of the cheap regions of one block that are still in memory.
class CheapOutputs final : public SavePolicy {
 public:
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope& scope) override;
  void add(const at::Tensor& output, std::shared_ptr<Region> region);

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // weak: the address is not given away while this stands
    int64_t version;
    at::ScalarType type;
    std::shared_ptr<Region> region;
  };
  std::vector<Entry> entries_;
};

}  // namespace hyperion::nn
