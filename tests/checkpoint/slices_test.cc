// Tensors that several ranks hold together: each writes its slice, anyone reads the whole.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/save.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::real_files;

class Slices : public testing::Test {
 protected:
  // Every rank's snapshot is made by `make`; what each threw, or "".
  std::vector<std::string> save(int ranks, const std::function<Snapshot(int rank)>& make) {
    return on_ranks(
        ranks, [&](int rank, comm::Group& group) { save_checkpoint(real_files(), folder_, make(rank), 2, &group); });
  }

  // 35 numbers of shape [5, 7], in pieces of 12.
  Snapshot third(int rank) {
    const int64_t begin = int64_t{12} * rank, count = std::min<int64_t>(12, 35 - begin);
    Snapshot snapshot;
    snapshot.step = 3;
    if (rank == 0) snapshot.tensors.push_back({"whole", at::full({2}, 7.0f)});
    snapshot.tensors.push_back(
        {.name = "cut", .tensor = whole_.view(-1).narrow(0, begin, count), .placement = {{5, 7}, begin}});
    return snapshot;
  }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints";
  at::Tensor whole_ = at::arange(35).to(at::kFloat).view({5, 7});
};

TEST_F(Slices, are_read_back_as_whole_tensors) {
  for (const auto& error : save(3, [&](int rank) { return third(rank); })) EXPECT_EQ(error, "");
  const auto loaded = open_newest(real_files(), folder_);
  EXPECT_EQ(loaded.tensors.size(), 2u);
  EXPECT_TRUE(loaded.tensor("cut").equal(whole_));
  EXPECT_TRUE(loaded.tensor("whole").eq(7).all().item<bool>());
}

TEST_F(Slices, that_leave_a_hole_or_overlap_or_disagree_are_refused) {
  const auto refused = [&](const std::function<void(nn::Parameter&)>& spoil, const std::string& words) {
    const auto errors = save(3, [&](int rank) {  // a save opens what it wrote, as a reader would
      Snapshot snapshot = third(rank);
      if (rank == 1) spoil(snapshot.tensors.back());
      return snapshot;
    });
    for (const auto& error : errors) EXPECT_NE(error.find(words), error.npos) << error;
    EXPECT_FALSE(real_files().exists(folder_ / "step-3"));
  };
  refused([](nn::Parameter& slice) { slice.placement.begin = 11; }, "leave a hole or overlap at element 11");
  refused([](nn::Parameter& slice) { slice.tensor = slice.tensor.narrow(0, 0, 5); }, "at element 17");
  refused([](nn::Parameter& slice) { slice.placement.whole = {7, 5}; }, "not of the tensor that the others are of");
  refused([](nn::Parameter& slice) { slice.name = "other"; }, "leave a hole");
  refused([](nn::Parameter& slice) { slice.placement = {}; }, "is there whole and in slices");
}

TEST_F(Slices, a_rank_that_fails_fails_all_and_nothing_is_left) {
  const auto errors = save(3, [&](int rank) {
    Snapshot snapshot = third(rank);
    if (rank == 2)
      snapshot.tensors.push_back(nn::Parameter(snapshot.tensors.back()));  // the same name twice cannot be written
    return snapshot;
  });
  for (const auto& error : errors) EXPECT_NE(error, "");
  EXPECT_NE(errors[0].find("by rank 2"), std::string::npos) << errors[0];
  EXPECT_TRUE(!real_files().exists(folder_) || real_files().list(folder_).empty());
}

}  // namespace
}  // namespace hyperion::checkpoint::test
