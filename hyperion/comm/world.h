// All processes of a job: how this one finds the others, and the groups they form. Free of c10d.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/host/launch.h"

namespace hyperion::comm {

struct WorldOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // of one collective, and of finding one another
  // A collective that waits so long, or half of the timeout where that is less, is told of; 0: none is.
  std::chrono::milliseconds stall = std::chrono::seconds(15);
  // A group of one, too, moves what it moves over the wires it asks for, to try NCCL: HYPERION_WIRES_FOR_ONE is set.
  bool wires_for_one = false;
};

// Host memory, and GPU memory by way of it, over Gloo; or GPU to GPU over NCCL, where this build has it.
enum class Backend { host, gpu };
bool has_gpu_backend();  // this build has

class World {
 public:
  // Meets the other processes of the launch at its master's address and port. A launch of one meets no one. Throws
  // PreflightError where the address is not told or the others do not come.
  static std::unique_ptr<World> join(const host::Launch& launch, WorldOptions options = {});
  ~World();

  int rank() const;
  int size() const;
  bool first() const { return rank() == 0; }
  int local_size() const;  // ranks on this host; 0: not told
  bool wires_for_one() const;

  // A new group of all ranks, or of `members` (this rank among them), with wires of its own. Every rank makes as many
  // groups in the same order, those of the same place with the same name and wires.
  std::unique_ptr<Group> group(const std::string& name, Backend wires = Backend::host, std::vector<int> members = {});

  // What rank 0 makes, told to all. Where it throws there, all throw: rank 0 its own error, the others one that says so
  // and has the same exit code. Each `key` once.
  std::string from_first(const std::string& key, const std::function<std::string()>& make);

 private:
  struct Link;
  explicit World(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

}  // namespace hyperion::comm
