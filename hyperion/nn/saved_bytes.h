// How many bytes of activations the graph holds: put the meter under every other policy, and what they leave in memory
// is counted, each storage once, residents not.
#pragma once
#include "hyperion/nn/saved_tensors.h"

namespace hyperion::nn {

class SavedBytesMeter final : public SavePolicy {
 public:
  explicit SavedBytesMeter(Residents residents = {});
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope& scope) override;
  int64_t bytes() const;  // held now; any thread
  int64_t peak() const;   // most held at once

 private:
  struct Tally;
  Residents residents_;
  std::shared_ptr<Tally> tally_;
};

}  // namespace hyperion::nn
