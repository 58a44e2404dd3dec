#include "hyperion/host/launch.h"

#include <climits>
#include <cstdlib>
#include <map>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/host/addresses.h"
#include "hyperion/host/host_list.h"
#include "hyperion/host/ports.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

// The variables of one environment, read with complaint.
class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value == nullptr ? std::string() : std::string(trimmed(value));
  }
  bool has(const char* name) const { return !text(name).empty(); }

  std::optional<int> number(const char* name, int least = 0) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    const auto number = whole_number(value);
    if (!number || *number < least || *number > INT_MAX)
      throw base::ConfigError(base::format("{}={} is not a whole number of at least {}", name, value, least),
                              base::format("unset {} to train alone, or start through the launcher again", name));
    return static_cast<int>(*number);
  }

  // `other` is the variable whose presence made this one needed.
  int needed(const char* name, const char* other, int least = 0) const {
    const auto value = number(name, least);
    if (!value)
      throw base::ConfigError(base::format("{} is set but {} is not", other, name),
                              base::format("set {} too, or unset {} to train alone", name, other));
    return *value;
  }

 private:
  const Lookup& lookup_;
};

constexpr int kMostRanks = 65536;  // as `launch -n` allows: all that they tell each other is held in memory

// The names that one launcher uses; null where it has none.
struct Names {
  Launcher launcher;
  const char *rank, *world, *local_rank, *local_world, *node;
};
constexpr Names kTorchrun{Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"};
constexpr Names kSlurm{Launcher::slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_NODEID"};
constexpr Names kSlurmStep{Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                           "SLURM_LOCALID", nullptr,        "SLURM_NODEID"};
constexpr Names kOpenMpi{Launcher::open_mpi,           "OMPI_COMM_WORLD_RANK",       "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr};
constexpr Names kFlags{Launcher::flags, "--rank", "--world-size", "--local-rank", nullptr, nullptr};
constexpr Names kPmi{Launcher::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr};

void check_below(const char* low_name, int low, const char* high_name, int high) {
  if (low >= high)
    throw base::ConfigError(base::format("{}={} is not below {}={}", low_name, low, high_name, high),
                            base::format("ranks count from 0 to {} less 1", high_name));
}

// A job of one process, or of one process a pod, need not tell its local rank; elsewhere two ranks would take one GPU.
int local_rank(const Variables& variables, const Names& names, int world) {
  if (const auto told = variables.number(names.local_rank)) return *told;
  if (world == 1 || variables.has("KUBERNETES_SERVICE_HOST")) return 0;
  return variables.needed(names.local_rank, names.rank);
}

Launch read_set(const Variables& variables, const Names& names) {
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = variables.needed(names.rank, variables.has(names.world) ? names.world : names.local_rank);
  launch.world = variables.needed(names.world, names.rank, 1);
  if (launch.world > kMostRanks)
    throw base::ConfigError(base::format("{}={} is more ranks than a job may have", names.world, launch.world),
                            base::format("at most {}", kMostRanks));
  check_below(names.rank, launch.rank, names.world, launch.world);
  launch.local_rank = local_rank(variables, names, launch.world);
  if (names.local_world != nullptr) launch.local_world = variables.number(names.local_world, 1).value_or(0);
  if (launch.local_world > 0) check_below(names.local_rank, launch.local_rank, names.local_world, launch.local_world);
  if (names.node != nullptr) launch.node = variables.number(names.node).value_or(-1);
  return launch;
}

void read_master(const Variables& variables, const char* address, const char* port, Launch& launch) {
  if (variables.has(address)) launch.master_address = variables.text(address);
  launch.master_port = variables.number(port, 1).value_or(launch.master_port);
  if (launch.master_port > 65535)
    throw base::ConfigError(base::format("{}={} is no TCP port", port, launch.master_port), "ports end at 65535");
}

std::optional<Launch> torchrun(const Variables& variables) {
  const bool any = variables.has("RANK") || variables.has("WORLD_SIZE") || variables.has("LOCAL_RANK");
  // An indexed Job of Kubernetes often gives the size only and counts by JOB_COMPLETION_INDEX.
  if (!any || (!variables.has("RANK") && variables.has("JOB_COMPLETION_INDEX"))) return std::nullopt;
  Launch launch = read_set(variables, kTorchrun);
  read_master(variables, "MASTER_ADDR", "MASTER_PORT", launch);
  if (launch.world > 1 && launch.master_address.empty())
    throw base::ConfigError("RANK and WORLD_SIZE are set but MASTER_ADDR is not",
                            "set MASTER_ADDR and MASTER_PORT to where rank 0 runs, or start through torchrun");
  launch.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.restarts = variables.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  launch.job = variables.text("TORCHELASTIC_RUN_ID");
  if (variables.has("HYPERION_JOB")) {
    launch.launcher = Launcher::hyperion;
    launch.agent_store = true;
    launch.job = variables.text("HYPERION_JOB");
  }
  return launch;
}

// Where a launcher that hosts no store lets its ranks meet unless told: on this machine where all of them are here, at
// a port from the job's name, so that two jobs do not meet, below those that systems give out by themselves.
void fill_meeting_place(Launch& launch) {
  if (launch.world == 1) return;
  if (launch.master_address.empty() && launch.local_world == launch.world) launch.master_address = "127.0.0.1";
  if (launch.master_port == 0)
    launch.master_port =
        launch.job.empty() ? kDefaultPort : 20000 + static_cast<int>(base::hash_64(launch.job) % 10000);
}

std::optional<Launch> slurm(const Variables& variables) {
  if (!variables.has("SLURM_PROCID")) return std::nullopt;
  const bool in_step = variables.has("SLURM_STEP_NUM_TASKS");
  const bool batch_script = !in_step && variables.text("ENVIRONMENT") == "BATCH";
  if (batch_script) return std::nullopt;
  Launch launch = read_set(variables, in_step ? kSlurmStep : kSlurm);
  if (variables.has("SLURM_JOB_NODELIST"))
    launch.master_address = expand_hosts(variables.text("SLURM_JOB_NODELIST")).front();
  launch.job = variables.text("SLURM_JOB_ID");
  // Steps of one job may run side by side.
  if (variables.has("SLURM_STEP_ID")) launch.job += "." + variables.text("SLURM_STEP_ID");
  read_master(variables, "MASTER_ADDR", "MASTER_PORT", launch);
  fill_meeting_place(launch);
  return launch;
}

std::optional<Launch> message_passing(const Variables& variables, const Names& names) {
  if (!variables.has(names.rank) && !variables.has(names.world)) return std::nullopt;
  Launch launch = read_set(variables, names);
  launch.job = variables.text("PMIX_NAMESPACE");
  read_master(variables, "MASTER_ADDR", "MASTER_PORT", launch);
  fill_meeting_place(launch);
  return launch;
}

std::optional<Launch> kubernetes(const Variables& variables) {
  const char* rank = variables.has("PET_NODE_RANK") ? "PET_NODE_RANK" : "JOB_COMPLETION_INDEX";
  const char* world = variables.has("PET_NNODES") ? "PET_NNODES" : "WORLD_SIZE";
  if (!variables.has(rank) || !variables.has(world)) return std::nullopt;
  const std::string processes = variables.text("PET_NPROC_PER_NODE");
  if (!processes.empty() && processes != "1")
    throw base::ConfigError(base::format("PET_NPROC_PER_NODE={} asks for several processes a pod", processes),
                            "start them with: torchrun --no-python hyperion train ..., or set it to 1");
  Launch launch = read_set(variables, {Launcher::kubernetes, rank, world, "LOCAL_RANK", nullptr, rank});
  launch.local_world = 1;
  read_master(variables, "MASTER_ADDR", "MASTER_PORT", launch);
  read_master(variables, "PET_MASTER_ADDR", "PET_MASTER_PORT", launch);
  launch.job = variables.text("JOB_NAME");
  return launch;
}

std::optional<Launch>& told_by_flags() {
  static std::optional<Launch> launch;
  return launch;
}

Launch alone(const Variables& variables) {
  Launch launch;
  if (variables.has("JOB_COMPLETION_INDEX"))
    launch.note = "JOB_COMPLETION_INDEX is set but neither PET_NNODES nor WORLD_SIZE: each pod trains alone";
  else if (variables.has("SLURM_PROCID"))
    launch.note = "inside a SLURM batch script but not under srun: this process trains alone";
  return launch;
}

}  // namespace

std::string_view launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::flags:
      return "flags";
    case Launcher::hyperion:
      return "hyperion launch";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::slurm:
      return "SLURM";
    case Launcher::open_mpi:
      return "Open MPI";
    case Launcher::pmi:
      return "PMI";
    case Launcher::kubernetes:
      return "Kubernetes";
    case Launcher::alone:
      break;
  }
  return "alone";
}

std::string Launch::text() const {
  if (launcher == Launcher::alone) return "alone, no launcher's variables are set";
  return base::format("{}, rank {} of {}, local rank {}", launcher_name(launcher), rank, world, local_rank);
}

Launch find_launch(const Lookup& lookup) {
  const Variables variables(lookup);
  if (const auto found = torchrun(variables)) return *found;
  const auto by_slurm = slurm(variables);
  const auto by_open_mpi = message_passing(variables, kOpenMpi);
  if (by_slurm && by_open_mpi)
    return by_slurm->rank == by_open_mpi->rank && by_slurm->world == by_open_mpi->world ? *by_slurm : *by_open_mpi;
  if (by_slurm) return *by_slurm;
  if (by_open_mpi) return *by_open_mpi;
  if (const auto found = message_passing(variables, kPmi)) return *found;
  if (const auto found = kubernetes(variables)) return *found;
  return alone(variables);
}

Launch find_launch() {
  if (told_by_flags()) return *told_by_flags();
  return find_launch([](const char* name) { return std::getenv(name); });
}

void set_rank_flags(const RankFlags& flags) {
  if (flags.rank.empty() && flags.world.empty() && flags.local_rank.empty() && flags.master.empty()) return;
  // Read as variables are, so that one place knows what can be meant.
  const auto master = parse_host_port(flags.master);
  if (!flags.master.empty() && !master)
    throw base::ConfigError(base::format("--master {} is not HOST:PORT", flags.master),
                            "write --master 127.0.0.1:29500");
  const std::string local = flags.local_rank.empty() ? flags.rank : flags.local_rank;
  const std::map<std::string, const std::string*> table = {
      {"--rank", &flags.rank}, {"--world-size", &flags.world}, {"--local-rank", &local}};
  const Lookup lookup = [&](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second->c_str();
  };
  const Variables variables(lookup);
  Launch launch = read_set(variables, kFlags);
  if (master) launch.master_address = master->host, launch.master_port = master->port;
  if (launch.world > 1 && !master)
    throw base::ConfigError("--rank and --world-size are given but not --master HOST:PORT",
                            "say where rank 0 hosts the store: --master 127.0.0.1:29500");
  told_by_flags() = launch;
}

}  // namespace hyperion::host
