// The raw entry points of sorting by expert, and of the copies and sums that follow from it.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// A stable counting sort of slots. On a GPU each block counts kSlotsABlock of them.
struct ExpertSort {
  const int64_t* chosen;  // [slots]; below 0: no expert, which only a capacity allows
  int64_t slots, capacity;
  const int32_t* limit;  // of a capacity: how many of its rows are taken; null: all
  int32_t experts;
  int32_t *row_of, *ends;
  int32_t* slot_of;  // with a capacity: -1 everywhere
  int32_t* counts;   // room for expert_sort_workspace(slots, experts) numbers
};
constexpr int kSlotsABlock = 1024;
constexpr int32_t kMostExperts = 4096;
constexpr int64_t expert_sort_blocks(int64_t slots) { return (slots + kSlotsABlock - 1) / kSlotsABlock; }
constexpr int64_t expert_sort_workspace(int64_t slots, int32_t experts) { return expert_sort_blocks(slots) * experts; }

void sort_by_expert_cpu(const ExpertSort& sort);
void sort_by_expert_gpu(const ExpertSort& sort, void* stream);

// The row of a slot that is the `turn`-th of its expert, whose rows begin at `start`; -1: over capacity.
constexpr int64_t row_of_turn(const ExpertSort& sort, int64_t expert, int64_t start, int64_t turn) {
  if (sort.capacity == 0) return start + turn;
  return turn < (sort.limit != nullptr ? *sort.limit : sort.capacity) ? expert * sort.capacity + turn : -1;
}

// out[row_of[slot]] = weight of the slot * in[its token]; zeros where slot_of says -1. With `dots`, also
// dots[slot] = in[its token] . against[row_of[slot]], 0 where the slot has no row.
template <class T>
struct SpreadRows {
  const T* in;
  const int32_t *row_of, *slot_of;  // slot_of null: every row is some slot's
  const float* weights;             // of slots; null: 1
  T* out;
  const T* against;
  float* dots;  // null: none
  int64_t tokens, rows, width, choices;
};
// out[token] = the sum over its choices of weight * in[row]; a dropped one adds nothing.
template <class T>
struct CollectRows {
  const T* in;
  const int32_t* row_of;
  const float* weights;  // null: 1
  T* out;
  int64_t tokens, width, choices;
};
template <class T>
void spread_rows_cpu(const SpreadRows<T>& rows);
template <class T>
void spread_rows_gpu(const SpreadRows<T>& rows, void* stream);
template <class T>
void collect_rows_cpu(const CollectRows<T>& rows);
template <class T>
void collect_rows_gpu(const CollectRows<T>& rows, void* stream);

}  // namespace hyperion::kernels
