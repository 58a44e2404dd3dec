// Ranks that load together: every byte is read by one of them, whoever saved it in whatever parts.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/checkpoint/manifest.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::format;
using base::real_files;
using Parameters = std::vector<nn::Parameter>;

// How a tensor is held by `ranks`: all of it by each, a stretch, columns, or of two boxes of rows stretches.
enum class Cut { none, stretch, columns, both };
constexpr Cut kCuts[] = {Cut::none, Cut::stretch, Cut::columns, Cut::both};

// What `rank` holds of `whole`; nothing where it is too small to be cut.
std::optional<nn::Parameter> part_of(const std::string& name, const at::Tensor& whole, Cut cut, int rank, int ranks) {
  nn::Parameter part{.name = name, .tensor = whole.clone()};
  if (whole.numel() == 0 && rank > 0) return {};
  if (cut == Cut::none || whole.numel() == 0) return part;
  part.placement.whole = whole.sizes().vec();
  int64_t index = rank, count = ranks;
  at::Tensor box = whole;
  if (cut != Cut::stretch) {
    const int64_t dim = cut == Cut::columns ? whole.dim() - 1 : 0, boxes = cut == Cut::columns ? ranks : 2;
    if (whole.dim() == 0 || whole.size(dim) < boxes || (cut == Cut::both && ranks % 2 != 0)) {
      if (rank > 0) return {};
      part.placement = {};
      return part;
    }
    const int64_t which = cut == Cut::columns ? rank : rank % 2;
    const int64_t from = whole.size(dim) * which / boxes, to = whole.size(dim) * (which + 1) / boxes;
    part.placement.offset.assign(static_cast<size_t>(whole.dim()), 0);
    part.placement.offset[static_cast<size_t>(dim)] = from;
    box = whole.narrow(dim, from, to - from);
    part.placement.size = box.sizes().vec();
    part.tensor = box.clone();
    if (cut == Cut::columns) return part;
    index = rank / 2, count = ranks / 2;
  }
  const int64_t begin = box.numel() * index / count, end = box.numel() * (index + 1) / count;
  if (begin == end) return {};
  part.placement.begin = begin;
  part.tensor = box.reshape(-1).narrow(0, begin, end - begin).clone();
  return part;
}

class LoadTensors : public testing::Test {
 protected:
  LoadTensors() {
    std::mt19937 random(5);
    const auto add = [&](const char* name, const std::vector<int64_t>& shape, at::ScalarType type) {
      wholes_.emplace_back(name, random_tensor(random, shape, type));
      bytes_ += static_cast<int64_t>(wholes_.back().second.nbytes());
    };
    add("model.large", {1201, 1013}, at::kFloat);  // of two blocks
    add("model.narrow", {17, 24}, at::kBFloat16);
    add("model.odd", {3, 5, 7}, at::kHalf);
    add("optimizer.bias", {11}, at::kFloat);
    add("optimizer.count", {}, at::kLong);
    add("optimizer.none", {0, 4}, at::kFloat);
  }

  Parameters held(Cut cut, int rank, int ranks) const {
    Parameters list;
    for (const auto& [name, whole] : wholes_)
      if (auto part = part_of(name, whole, cut, rank, ranks)) list.push_back(std::move(*part));
    return list;
  }

  void save(Cut cut, int ranks, int64_t step = 3) {
    const auto errors = on_ranks(ranks, [&](int rank, comm::Group& group) {
      Snapshot snapshot;
      snapshot.step = step;
      if (cut != Cut::none || rank == 0) snapshot.tensors = held(cut, rank, ranks);
      save_checkpoint(real_files(), folder_, snapshot, 2, &group);
    });
    for (const auto& error : errors) ASSERT_EQ(error, "");
  }

  // Into memory of zeros; every rank opens the checkpoint for itself.
  std::vector<LoadTraffic> load(Cut cut, int ranks) {
    std::vector<LoadTraffic> traffic(static_cast<size_t>(ranks));
    const auto errors = on_ranks(ranks, [&](int rank, comm::Group& group) {
      const auto expected = held(cut, rank, ranks);
      Parameters into = expected;
      for (auto& item : into) item.tensor = at::zeros(item.tensor.sizes(), item.tensor.options());
      const auto from = open_checkpoint(real_files(), step_);
      traffic[static_cast<size_t>(rank)] = load_tensors(from, into, group);
      for (size_t i = 0; i < into.size(); ++i)
        EXPECT_TRUE(same_bits(into[i].tensor, expected[i].tensor)) << into[i].name << ", rank " << rank;
    });
    for (const auto& error : errors) EXPECT_EQ(error, "");
    return traffic;
  }

  // All that the manifest says, but in the format of the time before blocks.
  void make_old() const {
    const base::Path path = step_ / "manifest.json";
    Manifest manifest = parse_manifest(real_files().read(path), "m");
    manifest.format = 1;
    for (auto& file : manifest.files) file.hashes.header = base::hash_hex(real_files().read(step_ / file.name));
    write_bytes(path, manifest_text(manifest));
  }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints", step_ = folder_ / "step-3";
  std::vector<std::pair<std::string, at::Tensor>> wholes_;
  int64_t bytes_ = 0;
};

LoadTraffic sum(const std::vector<LoadTraffic>& all) {
  LoadTraffic total;
  for (const auto& one : all) total.read += one.read, total.sent += one.sent, total.received += one.received;
  return total;
}

TEST_F(LoadTensors, each_byte_is_read_once_in_all_whatever_the_layouts) {
  for (const Cut saved : kCuts)
    for (const int writers : {1, 2, 3, 4, 8}) {
      save(saved, writers);
      for (const Cut wanted : kCuts)
        for (const int ranks : {1, 2, 4, 8}) {
          SCOPED_TRACE(format("cut {} by {}, loaded cut {} by {}", static_cast<int>(saved), writers,
                              static_cast<int>(wanted), ranks));
          const auto total = sum(load(wanted, ranks));
          EXPECT_EQ(total.read, bytes_);
          EXPECT_EQ(total.sent, total.received);
          if (wanted == Cut::none) {
            EXPECT_EQ(total.sent, (ranks - 1) * bytes_) << "to each of the others";
          }
        }
    }
}

TEST_F(LoadTensors, what_a_rank_alone_holds_it_reads_itself) {
  for (const int ranks : {2, 4, 8}) {
    save(Cut::stretch, ranks);
    const auto traffic = load(Cut::stretch, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t own = 0;
      for (const auto& part : held(Cut::stretch, rank, ranks)) own += static_cast<int64_t>(part.tensor.nbytes());
      EXPECT_EQ(traffic[static_cast<size_t>(rank)].read, own) << rank;
      EXPECT_EQ(traffic[static_cast<size_t>(rank)].sent, 0) << rank;
    }
  }
}

TEST_F(LoadTensors, what_all_hold_is_read_in_equal_shares) {
  save(Cut::none, 1);
  for (const auto& one : load(Cut::none, 2)) EXPECT_GT(one.read, bytes_ / 8);
}

TEST_F(LoadTensors, checkpoints_from_before_blocks_are_read) {
  for (const Cut saved : {Cut::none, Cut::stretch}) {
    save(saved, 4);
    make_old();
    for (const int ranks : {1, 4}) load(Cut::stretch, ranks);
    flip_bit(step_ / "shard-0.safetensors", real_files().size(step_ / "shard-0.safetensors") - 1);
    EXPECT_NE(error_of([&] { open_checkpoint(real_files(), step_); }).find("has the hash"), std::string::npos);
  }
}

TEST_F(LoadTensors, a_bad_block_is_told_on_all_ranks_and_only_where_it_is_needed) {
  save(Cut::none, 1);
  const base::Path shard = step_ / "shard-0.safetensors";
  const std::string content = real_files().read(shard);
  const auto large = wholes_.front().second;
  const size_t at = content.find({static_cast<const char*>(large.const_data_ptr()) + kBlockBytes, 64});
  ASSERT_NE(at, content.npos);
  flip_bit(shard, at);
  for (const int ranks : {1, 3}) {
    const auto errors = on_ranks(ranks, [&](int rank, comm::Group& group) {
      load_tensors(open_checkpoint(real_files(), step_), held(Cut::stretch, rank, ranks), group);
    });
    for (const auto& error : errors)
      EXPECT_NE(error.find("shard-0.safetensors, tensor \"model.large\", block 1 has the hash"), error.npos) << error;
  }
  const auto opened = open_checkpoint(real_files(), step_);
  EXPECT_NO_THROW(opened.verify("optimizer."));
  EXPECT_NO_THROW(opened.tensor("model.narrow"));
  EXPECT_NO_THROW(opened.copy_stretch("model.large", 5, at::zeros({100})));
  EXPECT_THROW(opened.verify("model."), base::CorruptError);
  EXPECT_THROW(opened.tensor("model.large"), base::CorruptError);
}

TEST_F(LoadTensors, a_stretch_reads_its_blocks_once_and_no_other) {
  save(Cut::none, 1);
  const auto opened = open_checkpoint(real_files(), step_);
  const auto& shard = *opened.entry("model.large").pieces.front().shard;
  EXPECT_EQ(shard.verified(), 0);
  const auto out = at::zeros({7});
  for (int i = 0; i < 3; ++i) opened.copy_stretch("model.large", 1000, out);
  EXPECT_EQ(shard.verified(), static_cast<int64_t>(kBlockBytes));
  EXPECT_TRUE(same_bits(out, wholes_.front().second.view(-1).narrow(0, 1000, 7)));
}

TEST_F(LoadTensors, memory_of_any_order_is_filled) {
  save(Cut::none, 1);
  on_ranks(2, [&](int, comm::Group& group) {
    const auto turned = at::zeros({1013, 1201}).t();
    load_tensors(open_checkpoint(real_files(), step_), {{"model.large", turned}}, group);
    EXPECT_TRUE(same_bits(turned, wholes_.front().second));
  });
}

TEST_F(LoadTensors, another_shape_type_or_step_is_refused) {
  save(Cut::none, 1);
  save(Cut::none, 1, 4);
  const auto refusal = [&](const at::Tensor& tensor, int64_t second = 3) {
    return on_ranks(2, [&](int rank, comm::Group& group) {
      const auto step = folder_ / format("step-{}", rank == 0 ? 3 : second);
      load_tensors(open_checkpoint(real_files(), step), {{"model.narrow", tensor.clone()}}, group);
    });
  };
  for (const auto& error : refusal(at::zeros({24, 17}, at::kBFloat16)))
    EXPECT_NE(error.find("model.narrow"), error.npos);
  for (const auto& error : refusal(at::zeros({17, 24}))) EXPECT_NE(error.find("another shape or type"), error.npos);
  for (const auto& error : refusal(at::zeros({17, 24}, at::kBFloat16), 4))
    EXPECT_NE(error.find("rank 0 finds the checkpoint of step 3, rank 1 that of step 4"), error.npos) << error;
  for (const auto& error : refusal(at::zeros({17, 24}, at::kBFloat16))) EXPECT_EQ(error, "");
  const auto errors = on_ranks(2, [&](int rank, comm::Group& group) {
    const Parameters none, absent{{"absent", at::zeros({1})}};
    load_tensors(open_checkpoint(real_files(), step_), rank == 0 ? none : absent, group);
  });
  for (const auto& error : errors) EXPECT_NE(error.find("holds no tensor \"absent\""), error.npos) << error;
}

TEST_F(LoadTensors, boxes_that_leave_their_tensor_are_refused) {
  const auto refused = [&](const strategy::Placement& placement, const std::string& words) {
    Snapshot snapshot;
    snapshot.step = 3;
    snapshot.tensors.push_back({.name = "cut", .tensor = at::zeros({6}), .placement = placement});
    const auto error = error_of([&] { save_checkpoint(real_files(), folder_, snapshot, 2); });  // which opens it
    EXPECT_NE(error.find(words), error.npos) << error;
  };
  refused({{4, 3}, -1, {3, 0}, {2, 3}}, "not inside its tensor");
  refused({{4, 3}, -1, {0}, {6}}, "not inside its tensor");
  refused({{4, 3}, -1, {0, 0}, {1, 3}}, "reaches beyond its tensor");
  refused({{4, 3}, 7}, "reaches beyond its tensor");
  refused({{4, 3}, -1, {2, 0}, {2, 3}}, "leave a hole or overlap at element 0");
  save(Cut::none, 1);
  const auto shard = step_ / "shard-0.safetensors", manifest = step_ / "manifest.json";
  const auto described = [&](const std::string& origin, const std::string& words) {
    Manifest written = parse_manifest(real_files().read(manifest), "m");
    written.files[0].hashes = write_safetensors(real_files(), shard, {{"cut@0", at::zeros({6})}}, {{"cut@0", origin}});
    write_bytes(manifest, manifest_text(written));
    const auto error = error_of([&] { open_checkpoint(real_files(), step_); });
    EXPECT_NE(error.find(words), error.npos) << error;
  };
  described(R"({"of":"cut","begin":-1,"shape":[6]})", "begins before its tensor");
  described(R"({"of":"cut","begin":0,"shape":[-6]})", "impossible shape");
  described(R"({"of":"cut","begin":0,"shape":[4611686018427387904,4]})", "impossible shape");
  described(R"({"of":"cut","begin":0,"shape":[6],"offset":[0]})", "does not say what it is a slice of");
  described(R"({"of":"cut","begin":0,"shape":[6],"offset":[0],"size":[0]})", "not inside its tensor");
  described("[]", "does not say what it is a slice of");
  described("nonsense", "not JSON");
}

}  // namespace
}  // namespace hyperion::checkpoint::test
