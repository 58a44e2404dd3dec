#include "hyperion/strategy/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "hyperion/base/error.h"

namespace hyperion::strategy {
namespace {

using Ranks = std::vector<int>;

std::vector<Axes> all_sets_of_axes() {
  std::vector<Axes> list;
  for (int bits = 0; bits < 1 << kAxes; ++bits) {
    Axes axes;
    for (int place = 0; place < kAxes; ++place)
      if ((bits >> place & 1) != 0) axes = axes | static_cast<Axis>(place);
    list.push_back(axes);
  }
  return list;
}

TEST(Mesh, of_one_has_itself_alone_along_every_axis) {
  const Mesh mesh;
  for (const Axes axes : all_sets_of_axes()) {
    EXPECT_EQ(mesh.size(axes), 1);
    EXPECT_EQ(mesh.index(axes), 0);
    EXPECT_EQ(mesh.peers(axes), Ranks{0});
  }
  EXPECT_EQ(mesh.expert_peers(), Ranks{0});
}

TEST(Mesh, puts_tensor_parallel_neighbours_beside_each_other_and_stages_far_apart) {
  const Mesh mesh(parse_layout("pp=2,dp=2x2,tp=2"), 5);  // stage 0, replica 1, shard 0, the second of its tp
  EXPECT_EQ(mesh.peers(Axis::tp), (Ranks{4, 5}));
  EXPECT_EQ(mesh.peers(Axis::dp_shard), (Ranks{5, 7}));
  EXPECT_EQ(mesh.peers(Axis::dp_replicate), (Ranks{1, 5}));
  EXPECT_EQ(mesh.peers(Axis::pp), (Ranks{5, 13}));
  EXPECT_EQ(mesh.peers(kBatchAxes), (Ranks{1, 3, 5, 7}));
  EXPECT_EQ(mesh.index(kBatchAxes), 2);
  EXPECT_EQ(mesh.size(kBatchAxes), 4) << "of 16 processes, for others have the same samples";
}

// For every layout of up to 24 processes, every rank and every set of axes.
TEST(Mesh, groups_partition_the_processes_and_agree_about_their_members) {
  for (const char* text : {"dp=1", "dp=6", "dp=2x3", "tp=4", "pp=3,dp=2", "dp=2,cp=2,tp=2", "pp=2,dp=2x3,tp=2",
                           "pp=2,dp=3,cp=2,tp=2", "dp=2x2,cp=3,tp=2"}) {
    const Layout layout = parse_layout(text);
    for (const Axes axes : all_sets_of_axes()) {
      std::set<int> met;
      for (int rank = 0; rank < layout.processes(); ++rank) {
        const Mesh mesh(layout, rank);
        const auto peers = mesh.peers(axes);
        ASSERT_EQ(static_cast<int64_t>(peers.size()), mesh.size(axes)) << text;
        EXPECT_TRUE(std::is_sorted(peers.begin(), peers.end()));
        EXPECT_EQ(peers[static_cast<size_t>(mesh.index(axes))], rank) << text;
        for (const int peer : peers) EXPECT_EQ(Mesh(layout, peer).peers(axes), peers) << text;
        if (mesh.index(axes) != 0) continue;
        for (const int peer : peers) EXPECT_TRUE(met.insert(peer).second) << text;
      }
      EXPECT_EQ(static_cast<int64_t>(met.size()), layout.processes()) << text;
    }
  }
}

TEST(Mesh, experts_lie_among_those_that_share_batch_and_sequence) {
  const Layout layout = parse_layout("pp=2,dp=4,cp=2,tp=2,ep=4");
  const Mesh mesh(layout, 12);  // stage 0, shard 3, cp 0, tp 0
  EXPECT_EQ(mesh.expert_peers(), (Ranks{8, 10, 12, 14}));
  EXPECT_EQ(mesh.expert_copies(), (Ranks{4, 12}));
  for (int rank = 0; rank < layout.processes(); ++rank)
    for (const int peer : Mesh(layout, rank).expert_peers())
      EXPECT_EQ(Mesh(layout, peer).expert_peers(), Mesh(layout, rank).expert_peers());
}

TEST(Mesh, refuses_experts_that_do_not_divide) {
  EXPECT_THROW(Mesh(parse_layout("dp=4,ep=3"), 0), base::ConfigError);
  EXPECT_THROW(Mesh(parse_layout("dp=2x2,ep=4"), 0), base::ConfigError) << "not carved out of replicas";
  EXPECT_NO_THROW(Mesh(parse_layout("dp=2,cp=2,ep=4"), 0));
}

}  // namespace
}  // namespace hyperion::strategy
