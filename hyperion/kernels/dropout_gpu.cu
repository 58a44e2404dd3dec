#include "hyperion/kernels/dropout_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256;

__device__ inline uint32_t step_of(const DropoutNumbers& numbers) {
  return numbers.step_at != nullptr ? *numbers.step_at : numbers.step;
}

// 16 bytes at once; of fp32 that is half of what shares its random words. kShard: of a tensor that is a part of
// another.
template <class T, bool kShard>
__global__ void __launch_bounds__(kThreads) dropout_pieces(DropoutTensors<T> t, DropoutNumbers numbers) {
  constexpr int kCount = kWide<T>;
  const uint32_t step = step_of(numbers);
  const int64_t pieces = t.rows * t.width / kCount;
  const auto of_row = static_cast<uint32_t>(t.width / kCount);
  for (int64_t piece = blockIdx.x * int64_t{kThreads} + threadIdx.x; piece < pieces;
       piece += int64_t{gridDim.x} * kThreads) {
    float x[kCount], more[kCount];
    load_floats(t.in + piece * kCount, x);
    if (t.bias != nullptr) {  // 32 bits: dividing 64 takes longer than the bytes
      load_floats(t.bias + static_cast<uint32_t>(piece) % of_row * kCount, more);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] += more[i];
    }
    constexpr int kPieces = kDropoutShare / kCount;
    const int64_t whole = kShard ? numbers.elements.whole_element(piece * kCount) / kCount : piece;
    auto words = dropout_words(numbers, whole / kPieces, step);
    if (kPieces > 1 && whole % kPieces != 0) words.word[0] = words.word[2], words.word[1] = words.word[3];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = dropout_element(x[i], dropout_bits(words, i), numbers);
    if (t.residual != nullptr) {
      load_floats(t.residual + piece * kCount, more);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] += more[i];
    }
    store_floats(t.out + piece * kCount, x);
  }
}

// Widths and addresses that 16 bytes do not divide.
template <class T>
__global__ void dropout_any(DropoutTensors<T> t, DropoutNumbers numbers) {
  const uint32_t step = step_of(numbers);
  const int64_t count = t.rows * t.width, blocks = (count + kDropoutShare - 1) / kDropoutShare;
  for (int64_t block = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; block < blocks;
       block += int64_t{gridDim.x} * blockDim.x) {
    const auto words = dropout_words(numbers, block, step);
#pragma unroll
    for (int i = 0; i < kDropoutShare; ++i)
      if (block * kDropoutShare + i < count)
        dropout_element_of(t, block * kDropoutShare + i, dropout_bits(words, i), numbers);
  }
}

// Parts of a tensor whose runs 16 bytes do not divide: words of its own for each element.
template <class T>
__global__ void dropout_elements(DropoutTensors<T> t, DropoutNumbers numbers) {
  const uint32_t step = step_of(numbers);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < t.rows * t.width;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t whole = numbers.elements.whole_element(i);
    const auto words = dropout_words(numbers, whole / kDropoutShare, step);
    dropout_element_of(t, i, dropout_bits(words, static_cast<int>(whole % kDropoutShare)), numbers);
  }
}

}  // namespace

template <class T>
void dropout_gpu(const DropoutTensors<T>& t, const DropoutNumbers& numbers, void* stream) {
  const int64_t count = t.rows * t.width;
  if (count == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const bool addresses = aligned(t.in) && aligned(t.bias) && aligned(t.residual) && aligned(t.out);
  // With a bias a piece must not reach into the next row, and its number must fit 32 bits.
  const bool pieces =
      t.bias == nullptr ? count % kWide<T> == 0 : t.width % kWide<T> == 0 && count / kWide<T> >> 32 == 0;
  const auto wide_grid = grid_for(count / kWide<T>, kThreads);
  if (addresses && pieces && numbers.elements.whole()) {
    dropout_pieces<T, false><<<wide_grid, kThreads, 0, queue>>>(t, numbers);
  } else if (addresses && pieces && numbers.elements.multiple_of(kWide<T>)) {
    dropout_pieces<T, true><<<wide_grid, kThreads, 0, queue>>>(t, numbers);
  } else if (!numbers.elements.whole()) {
    dropout_elements<<<grid_for(count, kThreads), kThreads, 0, queue>>>(t, numbers);
  } else {
    dropout_any<<<grid_for((count + kDropoutShare - 1) / kDropoutShare, kThreads), kThreads, 0, queue>>>(t, numbers);
  }
  check_launch("dropout");
}

template void dropout_gpu(const DropoutTensors<float>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Bfloat16>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Half>&, const DropoutNumbers&, void*);

}  // namespace hyperion::kernels
