// What is shown, compared, verified and gathered of checkpoints.
#include "hyperion/checkpoint/tensor_set.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/damage.h"
#include "hyperion/checkpoint/difference.h"
#include "hyperion/checkpoint/gather.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::real_files;

TEST(TensorFactsTest, are_of_the_finite_elements_and_count_the_others) {
  const auto facts = facts_of(at::tensor({3.0F, -1.0F, NAN, 0.0F, INFINITY, 4.0F}));
  EXPECT_EQ(facts.elements, 6);
  EXPECT_EQ(facts.not_finite, 2);
  EXPECT_DOUBLE_EQ(facts.norm, std::sqrt(26.0));
  EXPECT_DOUBLE_EQ(facts.mean, 1.5);
  EXPECT_EQ(facts.low, -1);
  EXPECT_EQ(facts.high, 4);
  std::vector<int64_t> bins(TensorFacts::kBins);
  ++bins[0], ++bins[3], ++bins[12], ++bins[15];
  EXPECT_EQ(facts.histogram, bins);
}

TEST(TensorFactsTest, of_equal_elements_and_of_none) {
  const auto facts = facts_of(at::full({2, 3}, 2, at::kBFloat16));
  EXPECT_EQ(facts.histogram[0], 6);
  EXPECT_EQ(facts_of(at::empty({0, 4})).histogram.size(), 0u);
  EXPECT_EQ(facts_of(at::tensor({NAN})).not_finite, 1);
}

class Stored : public testing::Test {
 protected:
  // Of two ranks: `model.cut` in halves, the rest whole.
  void save(int64_t step, double cut_begins = 0) {
    const auto errors = on_ranks(2, [&](int rank, comm::Group& group) {
      Snapshot part;
      part.step = step;
      part.tensors.push_back({.name = "model.cut", .tensor = at::arange(6).add(cut_begins + rank * 6).to(at::kFloat)});
      part.tensors.back().placement = {.whole = {4, 3}, .begin = rank * 6};
      if (rank == 1) part.tensors.push_back({.name = "optimizer.first.cut", .tensor = at::arange(12, at::kFloat)});
      save_checkpoint(real_files(), folder_, part, 5, &group);
    });
    for (const auto& error : errors) ASSERT_EQ(error, "");
  }
  OpenedCheckpoint open(int64_t step) const {
    return open_checkpoint(real_files(), folder_ / base::format("step-{}", step));
  }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints", file_ = scratch_.path() / "one.safetensors";
};

TEST_F(Stored, a_set_knows_shapes_shards_and_bytes_and_reads_whole_tensors) {
  save(1);
  const auto set = tensors_of(open(1));
  ASSERT_EQ(set.tensors.size(), 2u);
  const auto& cut = set.tensors.at("model.cut");
  EXPECT_EQ(cut.shards, 2u);
  EXPECT_EQ(cut.bytes, 48u);
  EXPECT_EQ(cut.shape, (std::vector<int64_t>{4, 3}));
  EXPECT_TRUE(same_bits(cut.read(), at::arange(12, at::kFloat).view({4, 3})));
  EXPECT_EQ(set.tensors.at("optimizer.first.cut").shards, 1u);
  EXPECT_EQ(set.bytes(), 96u);
}

TEST_F(Stored, differences_are_named_with_their_size) {
  save(1), save(2), save(3, 0.5);
  EXPECT_TRUE(differences(tensors_of(open(1)), tensors_of(open(2))).empty());
  const auto found = differences(tensors_of(open(1)), tensors_of(open(3)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "cut");
  EXPECT_EQ(found[0].elements, 12);
  EXPECT_DOUBLE_EQ(found[0].largest, 0.5);
  EXPECT_NEAR(found[0].relative, std::sqrt(12 * 0.25 / 506), 1e-12);
}

TEST_F(Stored, tensors_of_other_shapes_types_or_on_one_side_differ) {
  const auto set_of = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    const auto path = scratch_.path() / name;
    write_safetensors(real_files(), path, tensors);
    TensorSet set{name, false, {}};
    add_tensors(set, std::make_shared<const SafetensorsFile>(path));
    return set;
  };
  const auto a =
      set_of("a", {{"same", at::arange(3, at::kFloat)}, {"shape", at::empty({2})}, {"left", at::empty({1})}});
  const auto b = set_of("b", {{"same", at::arange(3, at::kFloat).to(at::kBFloat16)}, {"shape", at::empty({1, 2})}});
  const auto found = differences(a, b);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].mismatch, "only in a");
  EXPECT_EQ(found[1].mismatch, "F32 and BF16");
  EXPECT_EQ(found[1].elements, 0) << "the values are the same";
  EXPECT_EQ(found[2].mismatch, "[2] and [1, 2]");
}

TEST_F(Stored, one_file_holds_the_weights_and_where_asked_the_rest) {
  save(7);
  auto gathered = gather_into_file(real_files(), open(7), file_, /*optimizer=*/false);
  EXPECT_EQ(gathered.tensors, 1u);
  EXPECT_EQ(gathered.bytes, real_files().size(file_));
  EXPECT_TRUE(same_bits(SafetensorsFile(file_).tensor("cut"), at::arange(12, at::kFloat).view({4, 3})));
  EXPECT_EQ(SafetensorsFile(file_).metadata().at("hyperion.step"), "7");
  gathered = gather_into_file(real_files(), open(7), file_, /*optimizer=*/true);
  EXPECT_EQ(SafetensorsFile(file_).names(), (std::vector<std::string>{"cut", "optimizer.first.cut"}));
  TensorSet set{"file", false, {}};
  add_tensors(set, std::make_shared<const SafetensorsFile>(file_));
  EXPECT_TRUE(differences(tensors_of(open(7)), set).empty());
}

TEST_F(Stored, a_gather_that_fails_leaves_the_old_file_and_nothing_else) {
  save(1);
  gather_into_file(real_files(), open(1), file_, false);
  const std::string before = real_files().read(file_);
  for (int64_t room = 0; room < 60; room += 20) {
    base::FaultyFileSystem full;
    full.set_capacity(room);
    EXPECT_THROW(gather_into_file(full, open(1), file_, true), base::FileError);
    EXPECT_EQ(real_files().read(file_), before);
    EXPECT_EQ(real_files().list(scratch_.path()).size(), 2u);
  }
  const base::Path shard = folder_ / "step-1" / "shard-0.safetensors";
  flip_bit(shard, real_files().size(shard) - 1);
  EXPECT_THROW(gather_into_file(real_files(), open(1), file_, true), base::CorruptError);
  EXPECT_EQ(real_files().read(file_), before);
  EXPECT_THROW(gather_into_file(real_files(), open(1), scratch_.path() / "x.bin", true), base::ConfigError);
}

TEST_F(Stored, all_damage_is_named_file_by_file) {
  save(1);
  const base::Path step = folder_ / "step-1";
  EXPECT_EQ(verify_checkpoint(real_files(), step).damage, std::vector<std::string>{});
  for (const char* shard : {"shard-0.safetensors", "shard-1.safetensors"})
    flip_bit(step / shard, real_files().size(step / shard) - 1);
  auto damage = verify_checkpoint(real_files(), step).damage;
  ASSERT_EQ(damage.size(), 2u);
  EXPECT_NE(damage[0].find("shard-0.safetensors, tensor \"model.cut@0\", block 0"), std::string::npos) << damage[0];
  EXPECT_NE(damage[1].find("shard-1.safetensors, tensor"), std::string::npos) << damage[1];
  real_files().remove_all(step / "shard-0.safetensors");
  damage = verify_checkpoint(real_files(), step).damage;
  ASSERT_EQ(damage.size(), 2u);
  EXPECT_NE(damage[0].find("shard-0.safetensors"), std::string::npos) << damage[0];
  flip_bit(step / "manifest.json", 5);
  damage = verify_checkpoint(real_files(), step).damage;
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_NE(damage[0].find("its own checksum"), std::string::npos) << damage[0];
}

}  // namespace
}  // namespace hyperion::checkpoint::test
