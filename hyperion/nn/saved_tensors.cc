#include "hyperion/nn/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include "hyperion/base/error.h"

namespace hyperion::nn {
namespace {

thread_local const SaveScope* innermost = nullptr;

struct Hooks final : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override { saved = save(tensor, innermost); }
  at::Tensor call_unpack_hook() override { return saved->unpack(); }
  std::unique_ptr<SavedTensor> saved;
};

// Answers LibTorch's question for hooks; all work is the engine's that was there before.
class AskingEngine final : public torch::autograd::Engine {
 public:
  explicit AskingEngine(Engine& worker) : worker_(worker) {}
  ~AskingEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (innermost == nullptr) return worker_.get_default_saved_variable_hooks();
    return std::make_unique<Hooks>();
  }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return worker_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, std::shared_ptr<torch::autograd::Node> root,
      torch::autograd::InputBuffer&& buffer) override {
    return worker_.execute_with_graph_task(task, std::move(root), std::move(buffer));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return worker_.make_anomaly_metadata();
  }

 private:
  Engine& worker_;
};

// Never destroyed: graphs may outlive every static object.
torch::autograd::Engine& asking_engine() {
  static auto* engine = new AskingEngine(torch::autograd::Engine::get_default_engine());
  return *engine;
}

void install_engine() {
  [[maybe_unused]] static const bool once = [] {
    asking_engine();  // made before it is the default, or it would find itself as the worker
    torch::autograd::set_default_engine_stub(asking_engine);
    return true;
  }();
}

class Kept final : public SavedTensor {
 public:
  explicit Kept(const at::Tensor& tensor)
      : tensor_(tensor.is_leaf() ? tensor : tensor.detach()), version_(tensor._version()) {}
  at::Tensor unpack() override {
    if (tensor_._version() != version_) refuse_changed_tensor();
    return tensor_;
  }

 private:
  at::Tensor tensor_;
  int64_t version_;
};

bool gathers_gradient(const at::TensorBase& tensor) { return tensor.is_leaf() && tensor.requires_grad(); }

}  // namespace

SaveScope::SaveScope(SavePolicy& policy) : policy_(policy), below_(innermost) {
  install_engine();
  innermost = this;
}

SaveScope::~SaveScope() { innermost = below_; }

const SaveScope* SaveScope::top() { return innermost; }

std::unique_ptr<SavedTensor> save(const at::Tensor& tensor, const SaveScope* from) {
  for (; from != nullptr; from = from->below())
    if (auto saved = from->policy().pack(tensor, *from)) return saved;
  return keep(tensor);
}

std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) { return std::make_unique<Kept>(tensor); }

void refuse_changed_tensor() {
  throw base::Error("a tensor that the backward needs was changed in place after it was saved",
                    "use the operation that makes a new tensor");
}

void enter_block() {
  for (const auto* scope = innermost; scope != nullptr; scope = scope->below()) scope->policy().enter_block();
}

bool is_parameter(const at::Tensor& tensor) {
  return gathers_gradient(tensor) || (tensor.is_view() && gathers_gradient(tensor._base()));
}

Residents::Residents(const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors)
    if (tensor.has_storage()) storages_.insert(tensor.storage().unsafeGetStorageImpl());
}

bool Residents::contains(const at::Tensor& tensor) const {
  if (is_parameter(tensor)) return true;
  return tensor.has_storage() && storages_.contains(tensor.storage().unsafeGetStorageImpl());
}

}  // namespace hyperion::nn
