#include "hyperion/parallel/quantized.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "hyperion/base/error.h"

namespace hyperion::parallel {
namespace {

constexpr int64_t kScaleBytes = 4;

int64_t blocks_of(int64_t count) { return (count + kQuantisedBlock - 1) / kQuantisedBlock; }

comm::Transport::Counts even(const comm::Group& group, int64_t each) {
  return comm::Transport::Counts(static_cast<size_t>(group.size()), each);
}

at::Tensor sum_of(const at::Tensor& packed, int64_t count, int bits) {
  const auto rows = unpack(packed, count, bits);
  std::vector<at::Tensor> list;
  for (int64_t i = 0; i < rows.size(0); ++i) list.push_back(rows[i]);
  return comm::tree_sum(list);
}

}  // namespace

int64_t packed_bytes(int64_t count, int bits) { return blocks_of(count) * (kQuantisedBlock * bits / 8 + kScaleBytes); }

at::Tensor pack(const at::Tensor& rows, int bits) {
  HYPERION_CHECK(bits == 8 || bits == 4, "numbers are packed into 8 or 4 bits");
  const int64_t blocks = blocks_of(rows.size(1)), padding = blocks * kQuantisedBlock - rows.size(1);
  const double levels = bits == 8 ? 127 : 7;
  const auto wide = rows.to(at::kFloat);
  const auto blocked =
      (padding == 0 ? wide : at::constant_pad_nd(wide, {0, padding})).reshape({rows.size(0), blocks, kQuantisedBlock});
  const auto scales = blocked.abs().amax(2, /*keepdim=*/true).div(levels);
  auto codes = blocked.div(scales.clamp_min(1e-30)).round().clamp(-levels, levels).add(levels + 1).to(at::kByte);
  if (bits == 4) {
    const auto pairs = codes.view({rows.size(0), blocks, kQuantisedBlock / 2, 2});
    codes = pairs.select(3, 0).bitwise_or(pairs.select(3, 1).mul(16));
  }
  return at::cat({codes.reshape({rows.size(0), -1}), scales.reshape({rows.size(0), blocks}).view(at::kByte)}, 1);
}

at::Tensor unpack(const at::Tensor& packed, int64_t count, int bits) {
  const int64_t rows = packed.size(0), blocks = blocks_of(count), code_bytes = blocks * kQuantisedBlock * bits / 8;
  const double levels = bits == 8 ? 127 : 7;
  auto codes = packed.narrow(1, 0, code_bytes);
  if (bits == 4) codes = at::cat({codes.bitwise_and(15).unsqueeze(2), codes.div(16, "floor").unsqueeze(2)}, 2);
  const auto scales = packed.narrow(1, code_bytes, blocks * kScaleBytes).contiguous().view(at::kFloat);
  return codes.reshape({rows, blocks, kQuantisedBlock})
      .to(at::kFloat)
      .sub(levels + 1)
      .mul(scales.unsqueeze(2))
      .reshape({rows, -1})
      .narrow(1, 0, count)
      .contiguous();
}

comm::Pending gather_quantized(comm::Group& group, const at::Tensor& full, const at::Tensor& piece,
                               const std::string& caller) {
  const auto own = pack(piece.view({1, -1}), 8);
  const auto all = at::empty({group.size(), own.size(1)}, own.options());
  group.all_gather(all, own, caller);
  return group.then(full, caller, [full, all, count = piece.numel()] {
    full.view({all.size(0), count}).copy_(unpack(all, count, 8));
  });
}

comm::Pending reduce_quantized(NodeGroups groups, const at::Tensor& sum, const at::Tensor& flat,
                               const std::string& caller, bool add, int bits) {
  const int64_t nodes = groups.across.size(), local = groups.node.size(), piece = sum.numel();
  // Each rank of a node takes the pieces of its own place on every node.
  const auto by_place = flat.view({nodes, local, piece}).transpose(0, 1).reshape({local, nodes * piece});
  const auto sent = pack(by_place, 8), got = at::empty_like(sent);
  auto within =
      groups.node.all_to_all(got, sent, even(groups.node, sent.size(1)), even(groups.node, sent.size(1)), caller);
  const int64_t bytes = packed_bytes(piece, bits);
  const auto left = at::empty({nodes, bytes}, sent.options()), came = at::empty_like(left);
  groups.across.then(flat, caller, [within, got, left, nodes, piece, bits]() mutable {
    within.wait();
    left.copy_(pack(sum_of(got, nodes * piece, 8).view({nodes, piece}), bits));
  });
  groups.across.all_to_all(came, left, even(groups.across, bytes), even(groups.across, bytes), caller);
  return groups.across.then(flat, caller, [came, sum, piece, add, bits] {
    const auto whole = sum_of(came, piece, bits);
    add ? sum.add_(whole) : sum.copy_(whole);
  });
}

}  // namespace hyperion::parallel
