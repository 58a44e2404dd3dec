// How products in 8 bits are scaled. Light: settings include it.
#pragma once
#include <array>
#include <cstdint>

namespace hyperion::blocks {

// What a matrix is scaled by.
enum class Fp8Scale {
  delayed,  // the largest value of the steps before
  current,  // its own, at the cost of a pass over it
  rows,     // each row of each factor of a product by its own, found as `current` ones are
};
constexpr auto words_of(Fp8Scale) { return std::array{"delayed", "current", "rows"}; }

struct Fp8Options {
  Fp8Scale scale = Fp8Scale::delayed;
  int64_t history = 16;  // steps whose largest value counts
};

}  // namespace hyperion::blocks
