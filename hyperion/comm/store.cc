#include "hyperion/comm/store.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/heartbeat.h"
#include "hyperion/comm/job_secret.h"
#include "hyperion/comm/store_process.h"
#include "hyperion/comm/waiting.h"
#include "hyperion/host/addresses.h"
#include "hyperion/host/ports.h"

namespace hyperion::comm {
namespace {

using base::format;
using host::Launch;
using host::Launcher;
using std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr milliseconds kBeat{1000};

// torchrun's own workers put their keys there too, one prefix for each restart.
StorePointer agents_store(const Launch& launch, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.timeout = timeout;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
    return c10::make_intrusive<c10d::PrefixStore>(format("/worker/attempt_{}", launch.restarts), std::move(store));
  } catch (const std::exception& error) {
    const std::string words = error.what();  // and behind the first line its call stack
    throw StoreLost(format("torchrun's store at {}:{} cannot be reached: {}", launch.master_address, launch.master_port,
                           words.substr(0, words.find('\n'))),
                    "see whether torchrun's agent still runs there");
  }
}

std::atomic<bool> beating = false, told = false;  // this rank has a heartbeat; it brought why the job is over

// A launcher that stops the ranks says why with the next beat: who waits for others waits for that too.
void hear_why() {
  if (base::stop_signal() == 0 || !beating) return;
  for (milliseconds waited{0}; !told && waited < kBeat + kBeat / 4; waited += milliseconds(50))
    std::this_thread::sleep_for(milliseconds(50));
}

void begin_heartbeat(const StoreAddress& address, int rank) {
  // The job is over without its launcher: ask this rank to save what it can. It lives as long as the process.
  const auto stop = [](const std::string& why) {
    base::log_warn(format("{}; stopping", why));
    ::kill(::getpid(), SIGTERM);
  };
  // It stops this rank too; where it stood is worth knowing.
  const auto over = [](const std::string& why) {
    base::log_warn(format("the job is over: {}; meanwhile this rank waited {}", why, waiting_text()));
    told = true;
  };
  beating = true;
  static auto* const heartbeat = new std::unique_ptr<Heartbeat>();
  *heartbeat = std::make_unique<Heartbeat>(address, rank, kBeat, stop, over);
}

StoreAddress meeting_place(const Launch& launch) {
  StoreAddress place{launch.master_address, launch.master_port, find_job_key(launch.job)};
  if (place.port == 0) place.port = host::kDefaultPort;
  if (place.host.empty())
    throw base::ConfigError(format("{} does not tell where rank 0 runs", launcher_name(launch.launcher)),
                            "set MASTER_ADDR (mpirun -x MASTER_ADDR=host) to the host of rank 0");
  return place;
}

// Where told, but for two cases that are said aloud: a pod's service name may be an address that the pod itself does
// not have, and a machine's own name may lead only back into it.
std::string address_to_listen_on(const StoreAddress& place) {
  const bool pod = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr, back = host::leads_back(place.host);
  if (!pod && !back) return place.host;
  base::log_warn(
      format("the store listens on all addresses of this {}", pod ? "pod" : "machine: its name is 127.0.1.1 here"));
  return "0.0.0.0";
}

thread_local int heeding = 0;

// Waits a little at a time where this thread heeds stops.
class RanksStore final : public c10d::PrefixStore {
 public:
  explicit RanksStore(StorePointer store) : PrefixStore("ranks", std::move(store)) {}
  StorePointer clone() override { return c10::make_intrusive<RanksStore>(store_->clone()); }
  std::vector<uint8_t> get(const std::string& key) override {
    if (heeding > 0) wait({key});
    return PrefixStore::get(key);
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    if (heeding > 0) wait(keys);
    return PrefixStore::multiGet(keys);
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    constexpr milliseconds kLook{250};
    for (milliseconds waited{0}; heeding > 0 && (timeout.count() <= 0 || waited + kLook < timeout); waited += kLook) {
      hear_why();
      base::throw_if_stopped("waiting for the other ranks");
      try {
        return PrefixStore::wait(keys, kLook);
      } catch (const c10::DistStoreError&) {  // not yet
      }
    }
    try {
      PrefixStore::wait(keys, heeding > 0 ? std::min(timeout, kLook) : timeout);
    } catch (const c10::DistStoreError&) {
      std::string missing;
      for (const auto& key : keys)
        if (!check({key})) missing += (missing.empty() ? "" : ", ") + key;
      C10_THROW_ERROR(DistStoreError, format("after {} ms nobody has set {}", timeout.count(), missing));
    }
  }
};

}  // namespace

InterruptibleWait::InterruptibleWait() { ++heeding; }
InterruptibleWait::~InterruptibleWait() { --heeding; }

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, milliseconds timeout) {
  if (launch.launcher == Launcher::alone || (launch.world == 1 && !launch.agent_store))
    return c10::make_intrusive<c10d::HashStore>();
  const bool agents = launch.launcher == Launcher::torchrun && launch.agent_store;
  const StoreAddress place =
      agents ? StoreAddress{launch.master_address, launch.master_port, {}} : meeting_place(launch);
  if (launch.rank == 0) base::log_info(format("{} ranks meet at {} ({})", launch.world, place.text(), launch.text()));
  if (agents) return c10::make_intrusive<RanksStore>(agents_store(launch, timeout));
  const bool hosts = launch.rank == 0 && !launch.agent_store;
  if (hosts) {
    StoreServerOptions options;
    options.address = address_to_listen_on(place);
    options.port = place.port;
    options.secret = place.secret;
    fork_store(options);
  }
  auto store = store_client(place, timeout);
  if (launch.agent_store) begin_heartbeat(place, launch.rank);
  return c10::make_intrusive<RanksStore>(std::move(store));
}

}  // namespace hyperion::comm
