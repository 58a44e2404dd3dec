#include "hyperion/parallel/pipeline_wires.h"

namespace hyperion::parallel {
namespace {

// Links of one colour have no process in common, so that all processes can make them at the same time: from even
// places, from odd ones and, of an odd number in a ring, from the last.
constexpr int64_t kColors = 3;
int64_t color_of(int64_t from, int64_t count) { return count % 2 == 1 && from == count - 1 ? 2 : from % 2; }

}  // namespace

PipelineWires::PipelineWires(comm::World& world, const strategy::Mesh& mesh, strategy::PipelineSchedule schedule,
                             int64_t chunks, comm::Backend wires) {
  const bool v = strategy::is_v(schedule);
  connect(world, mesh, /*ring=*/chunks > 1 && !v, /*upwards=*/false, wires);
  if (!v) return;
  connect(world, mesh, /*ring=*/false, /*upwards=*/true, wires);
  links_.turn = mesh.size(strategy::Axis::pp);
}

// Of stages each of which lies a process further than the one before, or a process back.
void PipelineWires::connect(comm::World& world, const strategy::Mesh& mesh, bool ring, bool upwards,
                            comm::Backend wires) {
  const auto peers = mesh.peers(strategy::Axis::pp);
  const auto count = static_cast<int64_t>(peers.size()), own = mesh.index(strategy::Axis::pp);
  if (count == 1) return;
  auto& links = upwards ? links_.up : links_.down;
  for (const bool states : {true, false})
    for (int64_t color = 0; color < kColors; ++color) {
      std::vector<int> ends = {mesh.rank()};  // of a link that this process has no end of: every process makes as many
      comm::Group** held = nullptr;
      const bool further = states != upwards;  // from a process to the next one
      for (int64_t from = 0; from < (ring ? count : count - 1); ++from) {
        const int64_t to = (from + 1) % count;
        if (color_of(from, count) != color || (from != own && to != own)) continue;
        const int before = peers[static_cast<size_t>(from)], after = peers[static_cast<size_t>(to)];
        ends = further ? std::vector<int>{before, after} : std::vector<int>{after, before};
        const bool sends = (from == own) == further;
        held = states ? (sends ? &links.states_out : &links.states_in)
                      : (sends ? &links.gradients_out : &links.gradients_in);
      }
      auto group = world.group(states ? "hidden states" : "hidden gradients", wires, ends);
      if (held == nullptr) continue;
      *held = group.get();
      groups_.push_back(std::move(group));
    }
}

std::vector<comm::Group*> PipelineWires::groups() const {
  std::vector<comm::Group*> list;
  for (const auto& group : groups_) list.push_back(group.get());
  return list;
}

}  // namespace hyperion::parallel
