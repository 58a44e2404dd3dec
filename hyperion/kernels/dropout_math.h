// The raw entry points of dropout: out[i] = in[i] kept and scaled, or 0; with a bias added before and a residual after.
#pragma once
#include <cstdint>

#include "hyperion/base/random.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// Which elements of a whole tensor a part of it holds: runs of so many, one each `stride`, the first from `offset` on.
// Columns [c, c + n) of [rows, width] are {n, width, c}; positions [s, s + n) of [batch, length, width] are {n * width,
// length * width, s * width}, and heads likewise.
// Where runs begin in two places of each stride in turn, `second` is the other one. With `columns`, runs are of rows,
// and of each row of `width` the part holds so many elements from `column` on.
struct ElementMap {
  int64_t run = 0, stride = 0, offset = 0;  // run 0: it is the whole
  int64_t second = -1;                      // -1: there is one place alone
  int64_t columns = 0, width = 0, column = 0;

  bool whole() const { return run == 0; }
  constexpr int64_t in_runs(int64_t i) const {
    const int64_t number = i / run, within = i % run;
    if (second < 0) return number * stride + offset + within;
    return number / 2 * stride + (number % 2 == 0 ? offset : second) + within;
  }
  constexpr int64_t whole_element(int64_t i) const {
    if (run == 0) return i;
    return columns == 0 ? in_runs(i) : in_runs(i / columns) * width + column + i % columns;
  }
  bool multiple_of(int64_t n) const {
    if (columns > 0) return columns % n == 0 && width % n == 0 && column % n == 0;
    return run % n == 0 && stride % n == 0 && offset % n == 0 && (second < 0 || second % n == 0);
  }
};

struct DropoutNumbers {
  base::StreamKey key;
  uint32_t step, micro_batch;
  uint32_t below;  // of 65536: what is drawn from 16 bits below it is dropped
  float scale;
  const uint32_t* step_at = nullptr;  // on the GPU: read in place of `step`; null: none
  ElementMap elements = {};
};

// Eight elements share four random words, 16 bits each: on a GPU these numbers cost more than the bytes moved.
constexpr int kDropoutShare = 8;
constexpr base::RandomWords dropout_words(const DropoutNumbers& numbers, uint64_t eight, uint32_t step) {
  return base::philox<7>(numbers.key, eight, step, numbers.micro_batch);
}
constexpr uint32_t dropout_bits(const base::RandomWords& words, int i) {
  return words.word[i / 2] >> i % 2 * 16 & 0xffffu;
}

constexpr float dropout_element(float value, uint32_t bits, const DropoutNumbers& numbers) {
  return bits < numbers.below ? 0.0f : value * numbers.scale;
}

// [rows, width]; bias (of width) and residual may be null. The element's number is its place in the whole's memory.
template <class T>
struct DropoutTensors {
  const T *in, *bias, *residual;
  T* out;
  int64_t rows, width;
};

template <class T>
constexpr void dropout_element_of(const DropoutTensors<T>& t, int64_t i, uint32_t bits, const DropoutNumbers& numbers) {
  const float in = to_float(t.in[i]), value = t.bias != nullptr ? in + to_float(t.bias[i % t.width]) : in;
  const float dropped = dropout_element(value, bits, numbers);
  store(t.out[i], t.residual != nullptr ? to_float(t.residual[i]) + dropped : dropped);
}

template <class T>
void dropout_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers);
template <class T>
void dropout_gpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers, void* stream);

}  // namespace hyperion::kernels
