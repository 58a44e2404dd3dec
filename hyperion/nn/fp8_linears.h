// Which linear linears of a model are computed in 8 bits, and what that gains. Light: any file may include it.
#pragma once
#include <string>
#include <vector>

#include "hyperion/blocks/fp8.h"
#include "hyperion/blocks/fp8_gain.h"

namespace hyperion::nn {

class Module;

// Of one model. A map takes part where a fused block uses it, its sides are multiples of 16, and it is faster so.
class Fp8Linears {
 public:
  // `measure`: a map whose products would be slower in 8 bits stays in bf16; else every one that can is taken.
  Fp8Linears(Module& root, c10::Device device, blocks::Fp8Options options, bool measure);
  ~Fp8Linears();

  blocks::Fp8Scales& scales() { return scales_; }

  struct Layer {
    std::string path;
    blocks::LinearShape shape{};
    blocks::Fp8Gain gain;
    bool met = false, taken = false;
  };
  const std::vector<Layer>& layers() const { return layers_; }

  // The numbers of map `index` for a product of such a shape; none: it is made in bf16.
  blocks::Fp8Linear take(int64_t index, const blocks::LinearShape& shape);

 private:
  Module& root_;
  c10::Device device_;
  bool measure_;
  std::vector<Layer> layers_;
  blocks::Fp8Scales scales_;
};

}  // namespace hyperion::nn
