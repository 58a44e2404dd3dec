// Who started this process and which rank it is, from the variables that launchers set.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace hyperion::host {

enum class Launcher { alone, flags, hyperion, torchrun, slurm, open_mpi, pmi, kubernetes };
std::string_view launcher_name(Launcher launcher);  // "flags", "hyperion launch", "torchrun", ...

struct Launch {
  Launcher launcher = Launcher::alone;
  int rank = 0, world = 1;
  int local_rank = 0;
  int local_world = 0;         // processes of this job on this host; 0: not told
  int node = -1;               // -1: not told
  std::string master_address;  // empty: not told
  int master_port = 0;         // 0: not told
  bool agent_store = false;    // the launcher (torchrun's agent) hosts the store, every rank is its client
  int restarts = 0;            // of torchrun's agent
  std::string job;             // the scheduler's name of the job; empty: not told
  std::string note;            // something found that was not used, and why; mostly empty

  std::string text() const;  // "torchrun, rank 3 of 8, local rank 3"
};

// As std::getenv: null where a variable is not set. Tests hand in a table.
using Lookup = std::function<const char*(const char*)>;

// The first complete set, in this order: torchrun (and `hyperion launch`, which uses its names), SLURM, Open MPI, PMI,
// Kubernetes; none of them: alone. Throws ConfigError that names the variable where a set is half there or cannot be
// meant (RANK=abc, RANK not below WORLD_SIZE). Two exceptions follow what schedulers do: processes of mpirun inside a
// SLURM allocation inherit the batch script's SLURM variables, so there Open MPI's win where the two disagree; and a
// batch script itself is no rank of its job.
Launch find_launch(const Lookup& lookup);
// Of this process: what flags told, else its environment.
Launch find_launch();

// Explicit flags beat every variable. Empty texts are flags that were not given; all empty: nothing changes. Throws
// ConfigError where they are half there or cannot be meant.
struct RankFlags {
  std::string rank, world, local_rank;  // local rank: the rank unless given
  std::string master;                   // HOST:PORT, where rank 0 hosts the store
};
void set_rank_flags(const RankFlags& flags);

}  // namespace hyperion::host
