#include "hyperion/nn/saved_bytes.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace hyperion::nn {

struct SavedBytesMeter::Tally {
  std::mutex mutex;
  std::unordered_map<const void*, int> holders;  // by storage, which a holder keeps alive
  int64_t bytes = 0, peak = 0;

  void add(const void* storage, int64_t size) {
    const std::scoped_lock lock(mutex);
    if (holders[storage]++ == 0) bytes += size;
    peak = std::max(peak, bytes);
  }
  void remove(const void* storage, int64_t size) {
    const std::scoped_lock lock(mutex);
    if (--holders[storage] > 0) return;
    holders.erase(storage);
    bytes -= size;
  }
};

namespace {

template <class Tally>
class Counted final : public SavedTensor {
 public:
  Counted(const at::Tensor& tensor, std::shared_ptr<Tally> tally)
      : kept_(keep(tensor)),
        storage_(tensor.storage().unsafeGetStorageImpl()),
        size_(static_cast<int64_t>(tensor.storage().nbytes())),
        tally_(std::move(tally)) {
    tally_->add(storage_, size_);
  }
  ~Counted() override { tally_->remove(storage_, size_); }
  at::Tensor unpack() override { return kept_->unpack(); }

 private:
  std::unique_ptr<SavedTensor> kept_;
  const void* storage_;
  int64_t size_;
  std::shared_ptr<Tally> tally_;
};

}  // namespace

SavedBytesMeter::SavedBytesMeter(Residents residents)
    : residents_(std::move(residents)), tally_(std::make_shared<Tally>()) {}

std::unique_ptr<SavedTensor> SavedBytesMeter::pack(const at::Tensor& tensor, const SaveScope&) {
  if (!tensor.has_storage() || residents_.contains(tensor)) return nullptr;
  return std::make_unique<Counted<Tally>>(tensor, tally_);
}

int64_t SavedBytesMeter::bytes() const {
  const std::scoped_lock lock(tally_->mutex);
  return tally_->bytes;
}

int64_t SavedBytesMeter::peak() const {
  const std::scoped_lock lock(tally_->mutex);
  return tally_->peak;
}

}  // namespace hyperion::nn
