// The links of a pipeline between real processes.
#pragma once
#include <memory>
#include <vector>

#include "hyperion/comm/world.h"
#include "hyperion/parallel/pipeline_runner.h"
#include "hyperion/strategy/mesh.h"

namespace hyperion::parallel {

class PipelineWires {
 public:
  PipelineWires() = default;  // none
  // Every rank of the world makes one, of the same pipeline. Where stages of a process lie apart, the last process
  // sends to the first one too.
  PipelineWires(comm::World& world, const strategy::Mesh& mesh, strategy::PipelineSchedule schedule, int64_t chunks,
                comm::Backend wires = comm::Backend::host);
  const PipelineLinks& links() const { return links_; }
  std::vector<comm::Group*> groups() const;

 private:
  void connect(comm::World& world, const strategy::Mesh& mesh, bool ring, bool upwards, comm::Backend wires);
  std::vector<std::unique_ptr<comm::Group>> groups_;
  PipelineLinks links_;
};

}  // namespace hyperion::parallel
