#include "hyperion/resilience/launcher.h"

#include <algorithm>
#include <cstdlib>

#include "hyperion/base/format.h"
#include "hyperion/comm/job_secret.h"
#include "hyperion/comm/store_server.h"
#include "hyperion/host/cores.h"
#include "hyperion/host/cpu.h"
#include "hyperion/resilience/guardian.h"
#include "hyperion/resilience/local_ranks.h"

namespace hyperion::resilience {
namespace {

using base::format;

// Of a launcher around this one: they would contradict what the ranks are told here.
const std::vector<std::string> kDropped = {"TORCHELASTIC_*", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*", "PET_*"};

std::vector<LocalRank> local_ranks(const LaunchPlan& plan, const std::string& secret, int port) {
  std::vector<std::vector<int>> shares;
  if (plan.bind_cores && plan.ranks > 1) shares = host::share_cores("/", host::allowed_cores(), plan.ranks);
  const int threads = std::max(1, host::this_cpu().usable_cores() / plan.ranks);
  std::vector<LocalRank> ranks;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    LocalRank one{rank, {}, shares.empty() ? std::vector<int>{} : shares[static_cast<size_t>(rank)]};
    one.environment = {format("RANK={}", rank),
                       format("WORLD_SIZE={}", plan.ranks),
                       format("LOCAL_RANK={}", rank),
                       format("LOCAL_WORLD_SIZE={}", plan.ranks),
                       format("MASTER_ADDR={}", plan.listen),
                       format("MASTER_PORT={}", port),
                       format("HYPERION_JOB={}", plan.job),
                       format("{}={}", comm::kSecretVariable, secret)};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) one.environment.push_back(format("OMP_NUM_THREADS={}", threads));
    ranks.push_back(std::move(one));
  }
  return ranks;
}

}  // namespace

int launch(const LaunchPlan& plan) {
  Guardian guardian;
  StopSignals signals;
  RankOutput output(base::real_files(), plan.logs, plan.ranks, plan.show);
  const std::string secret = comm::new_job_secret();
  comm::StoreServer store({plan.listen, plan.port, comm::job_key(secret, plan.job)});
  store.start();
  std::vector<std::unique_ptr<Ranks>> machines;
  machines.push_back(start_local_ranks(local_ranks(plan, secret, store.port()), plan.command, kDropped, guardian));
  const Pulse pulse{[&](double seconds) { return store.silent(seconds); }};
  return Job(std::move(machines), output, signals, plan.ranks, plan.limits, pulse).run();
}

}  // namespace hyperion::resilience
