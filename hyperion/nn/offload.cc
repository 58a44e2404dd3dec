#include "hyperion/nn/offload.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace hyperion::nn {
namespace {

// One stream a device and direction for the life of the program.
c10::Stream side_stream(c10::Device device, bool to_host) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, c10::Stream> streams;
  const std::scoped_lock lock(mutex);
  const std::pair<int, bool> key{device.index(), to_host};
  auto found = streams.find(key);
  if (found == streams.end())
    found = streams.emplace(key, c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)).first;
  return found->second;
}

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.storage().nbytes());
  return at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage(), 0, {count}, {1});
}

}  // namespace

// One storage on its way to the host and back. Memory that two streams touch is ordered by events alone: what the
// computation's stream allocated it frees only after it has waited for the copies.
class OffloadedStorage {
 public:
  explicit OffloadedStorage(const at::Tensor& tensor)
      : device_(tensor.device()), watched_(tensor.detach()), version_(tensor._version()), source_(bytes_of(tensor)) {
    const bool gpu = device_.is_cuda();
    host_ = at::empty(source_.sizes(), at::TensorOptions().dtype(at::kByte).pinned_memory(gpu));
    if (gpu) {
      sent_ = copy(host_, source_, side_stream(device_, /*to_host=*/true));
    } else {
      host_.copy_(source_);
    }
  }

  // A fetch nobody waited for may still be writing.
  ~OffloadedStorage() {
    if (back_.defined() && arrived_ && !awaited_) arrived_->synchronize();
  }
  OffloadedStorage(const OffloadedStorage&) = delete;
  OffloadedStorage& operator=(const OffloadedStorage&) = delete;

  // Lets go of the device's memory; the current stream waits for the copy first.
  void leave_device() {
    const std::scoped_lock lock(mutex_);
    if (sent_) sent_->block(current_stream(device_));
    changed_ = watched_._version() != version_;
    watched_.reset();
    source_.reset();
  }

  void fetch() {
    const std::scoped_lock lock(mutex_);
    begin_fetch();
  }

  // The storage's bytes, ready for the current stream.
  at::Tensor bytes() {
    const std::scoped_lock lock(mutex_);
    if (changed_ || (source_.defined() && watched_._version() != version_)) refuse_changed_tensor();
    if (source_.defined()) return source_;
    begin_fetch();
    if (arrived_) arrived_->block(current_stream(device_));
    awaited_ = true;
    return back_;
  }

 private:
  void begin_fetch() {
    if (source_.defined() || back_.defined()) return;
    back_ = at::empty(host_.sizes(), host_.options().device(device_).pinned_memory(false));
    if (device_.is_cuda()) {
      const auto stream = side_stream(device_, /*to_host=*/false);
      sent_->block(stream);
      arrived_ = copy(back_, host_, stream);
    } else {
      back_.copy_(host_);
    }
  }

  // Copies on `stream` after all that the current stream was given; the event marks its end.
  c10::Event copy(const at::Tensor& to, const at::Tensor& from, c10::Stream stream) {
    c10::Event ready(device_.type()), done(device_.type());
    ready.record(current_stream(device_));
    ready.block(stream);
    const c10::StreamGuard guard(stream);
    to.copy_(from, /*non_blocking=*/true);
    done.record(stream);
    return done;
  }

  std::mutex mutex_;
  c10::Device device_;
  at::Tensor watched_;  // shares the saved tensor's count of changes, until leave_device
  int64_t version_;
  bool changed_ = false;
  at::Tensor source_;  // the storage itself, until leave_device
  at::Tensor host_;
  at::Tensor back_;  // on the device again
  std::optional<c10::Event> sent_, arrived_;
  bool awaited_ = false;
};

namespace {

class Offloaded final : public SavedTensor {
 public:
  Offloaded(const at::Tensor& tensor, std::shared_ptr<OffloadedStorage> copy, std::shared_ptr<OffloadGroup> group)
      : copy_(std::move(copy)),
        group_(std::move(group)),
        options_(tensor.options()),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        offset_(tensor.storage_offset()) {}

  at::Tensor unpack() override {
    const auto bytes = copy_->bytes();
    fetch(*group_);
    if (group_->before != nullptr) fetch(*group_->before);
    return at::empty({0}, options_).set_(bytes.storage(), offset_, sizes_, strides_);
  }

 private:
  // Last saved, first used. Those already used up are gone.
  static void fetch(const OffloadGroup& group) {
    for (auto storage = group.storages.rbegin(); storage != group.storages.rend(); ++storage)
      if (const auto live = storage->lock()) live->fetch();
  }

  std::shared_ptr<OffloadedStorage> copy_;
  std::shared_ptr<OffloadGroup> group_;  // that saved this tensor; the storage may be an earlier one's
  at::TensorOptions options_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
};

}  // namespace

OffloadPolicy::OffloadPolicy(Options options, Residents residents)
    : options_(options), residents_(std::move(residents)), group_(std::make_shared<OffloadGroup>()) {}

std::unique_ptr<SavedTensor> OffloadPolicy::pack(const at::Tensor& tensor, const SaveScope&) {
  if (!tensor.has_storage() || residents_.contains(tensor)) return nullptr;
  if (static_cast<int64_t>(tensor.storage().nbytes()) < options_.least_bytes) return nullptr;
  return std::make_unique<Offloaded>(tensor, copy_of(tensor), group_);
}

std::shared_ptr<OffloadedStorage> OffloadPolicy::copy_of(const at::Tensor& tensor) {
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (const auto known = known_.find(storage); known != known_.end() && known->second.version == tensor._version())
    if (auto copy = known->second.copy.lock()) return copy;
  auto copy = std::make_shared<OffloadedStorage>(tensor);
  known_.insert_or_assign(storage, Known{tensor.storage().getWeakStorageImpl(), tensor._version(), copy});
  group_->storages.push_back(copy);
  bytes_ += static_cast<int64_t>(tensor.storage().nbytes());
  return copy;
}

void OffloadPolicy::enter_block() {
  if (group_->before != nullptr)
    for (const auto& storage : group_->before->storages)
      if (const auto live = storage.lock()) live->leave_device();
  auto ended = std::exchange(group_, std::make_shared<OffloadGroup>());
  group_->before = std::move(ended);
}

}  // namespace hyperion::nn
