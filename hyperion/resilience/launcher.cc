#include "hyperion/resilience/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/job_secret.h"
#include "hyperion/comm/store_connection.h"
#include "hyperion/comm/store_server.h"
#include "hyperion/host/addresses.h"
#include "hyperion/host/programs.h"
#include "hyperion/host/system_files.h"
#include "hyperion/resilience/guardian.h"
#include "hyperion/resilience/launcher_board.h"
#include "hyperion/resilience/node_plan.h"
#include "hyperion/resilience/remote_ranks.h"
#include "hyperion/resilience/supervisor.h"

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kMostSlots = 4096;
constexpr double kLastWait = 10, kDeadSilence = 30;     // seconds
constexpr double kOtherLaunchers = 600, kLongWait = 2;  // seconds
constexpr std::chrono::seconds kReach{5};

std::string own_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// How others reach what listens there.
std::string reachable(const std::string& listen) { return listen == "0.0.0.0" || listen == "::" ? own_name() : listen; }

std::vector<Node> nodes_of(const LaunchPlan& plan) {
  if (plan.nodes.empty()) return {{"localhost", std::max(plan.ranks, 1)}};
  auto nodes = plan.nodes;
  const int slots =
      std::accumulate(nodes.begin(), nodes.end(), 0, [](int sum, const Node& node) { return sum + node.slots; });
  if (plan.ranks > slots)
    throw base::ConfigError(format("{} ranks do not fit into the {} slots of --nodes", plan.ranks, slots),
                            "name more hosts or slots: host:slots,host:slots");
  int left = plan.ranks == 0 ? slots : plan.ranks;
  for (auto& node : nodes) node.slots = std::min(node.slots, left), left -= node.slots;
  std::erase_if(nodes, [](const Node& node) { return node.slots == 0; });
  return nodes;
}

std::string place_to_listen(const LaunchPlan& plan, const std::vector<Node>& nodes) {
  const auto elsewhere = std::find_if(nodes.begin(), nodes.end(), [](const Node& node) { return !node.here(); });
  if (elsewhere != nodes.end() && host::leads_back(plan.listen))
    throw base::ConfigError(format("{} is 127.0.1.1 here, which {} cannot reach", plan.listen, elsewhere->host),
                            "name this machine's address in place of its name: --listen 10.0.0.7");
  if (!plan.listen.empty()) return plan.listen;
  if (elsewhere == nodes.end()) return "127.0.0.1";
  throw base::ConfigError(format("ranks on {} need an address of this machine to meet at", elsewhere->host),
                          format("say on which one to listen: --listen {}", own_name()));
}

}  // namespace

bool Node::here() const { return host == "localhost" || host == "127.0.0.1" || host == own_name(); }

std::vector<Node> parse_nodes(const std::string& text) {
  std::vector<Node> nodes;
  for (const std::string& part : host::split(text, ',')) {
    const size_t colon = part.rfind(':');
    const auto slots = colon == part.npos ? 1 : host::whole_number(part.substr(colon + 1)).value_or(0);
    const std::string host = part.substr(0, colon);
    if (host.empty() || host.starts_with('-') || slots < 1 || slots > kMostSlots)
      throw base::ConfigError(format("--nodes: {} cannot be read", part), "write host:slots,host:slots");
    nodes.push_back({host, static_cast<int>(slots)});
  }
  if (nodes.empty()) throw base::ConfigError("--nodes names no host", "write host:slots,host:slots");
  return nodes;
}

namespace {

// What listens here must be reached from here; the ranks would look for it for minutes.
void check_reachable(comm::StoreAddress place) {
  if (place.host == "0.0.0.0" || place.host == "::") return;
  try {
    const comm::StoreConnection reached(std::move(place), kReach);
  } catch (const comm::StoreLost& lost) {
    throw base::PreflightError(
        format("what this machine listens on cannot be reached from it: {}", lost.what()),
        "see that the network interface of that address is up (ip link set lo up, for 127.0.0.1)");
  }
}

// The fewest that the launcher can do with: the logs and pipes of each rank here, and the connections of all.
void check_descriptors(int ranks_here, int world) {
  const int64_t needed = 12 + 5 * int64_t{ranks_here} + 2 * int64_t{world};
  if (base::descriptor_limit() < needed)
    throw base::PreflightError(format("the launcher of {} ranks needs {} descriptors at least", world, needed),
                               base::descriptor_hint());
}

// One launcher that starts all ranks, here and elsewhere.
JobEnd launch_all(const LaunchPlan& plan, const StartedAgain& again) {
  const auto nodes = nodes_of(plan);
  const std::string listen = place_to_listen(plan, nodes);
  NodePlan node;
  node.world = 0;
  int ranks_here = 0;
  for (const Node& one : nodes) node.world += one.slots, ranks_here += one.here() ? one.slots : 0;
  check_descriptors(ranks_here, node.world);
  Guardian guardian;
  StopSignals signals;
  node.secret = comm::new_job_secret();
  RankOutput output(base::real_files(), plan.logs, node.world, plan.show);
  comm::StoreServerOptions options{listen, plan.port, comm::job_key(node.secret, plan.job)};
  options.ranks = node.world;
  comm::StoreServer store(options);
  store.start();
  check_reachable({listen, store.port(), options.secret});
  node.master = reachable(listen), node.port = store.port(), node.job = plan.job;
  node.command = plan.command, node.bind = plan.bind, node.again = again;
  std::vector<std::unique_ptr<Ranks>> machines;
  for (size_t i = 0; i < nodes.size(); ++i) {
    node.node = static_cast<int>(i), node.ranks = nodes[i].slots;
    if (nodes[i].here()) {
      machines.push_back(start_node(node, guardian));
    } else {
      node.environment = travelling_environment();
      machines.push_back(start_remote_ranks(
          {nodes[i].host, plan.remote_shell, host::own_program(), std::filesystem::current_path().string()}, node,
          guardian));
      node.environment.clear();
    }
    node.first_rank += node.ranks;
  }
  const Liveness pulse{[&] { return store.seen(); }, [&](double seconds) { return store.silent(seconds); },
                       [&](const std::string& why) { store.tell_end(why); }};
  Job job(std::move(machines), output, signals, {node.world, plan.limits, pulse, {}, plan.slow_step, plan.resumable});
  job.run();
  return job.end();
}

std::string lost_text(const std::vector<int>& launchers) {
  return format("the launcher of node {} was lost: it was killed, or its machine is down", launchers.front());
}

// One that was lost is started again by whoever started it, or by hand; only then has it sense to start ranks.
void meet_launchers(LauncherBoard& board, int launchers, const std::function<void()>& heed) {
  const auto say = [&](int here) {
    std::fprintf(stderr, "launch: %d of %d launchers are here; waiting up to %.0f minutes for the others\n", here,
                 launchers, kOtherLaunchers / 60);
  };
  if (board.meet(kOtherLaunchers, heed, say)) return;
  throw base::PreflightError("not all launchers of the job have come",
                             "start `hyperion launch` on the other machines, with the same command");
}

// One launcher of several, each of which starts the ranks of its own machine.
JobEnd launch_share(const LaunchPlan& plan, const StartedAgain& again) {
  if (plan.ranks % plan.node_count != 0)
    throw base::ConfigError(format("{} ranks cannot be shared alike by {} machines", plan.ranks, plan.node_count),
                            "let -n, the ranks of the whole job, be a multiple of --node-count");
  check_descriptors(plan.ranks / plan.node_count, plan.ranks);
  Guardian guardian;
  StopSignals signals;
  NodePlan node;
  node.node = plan.node, node.world = plan.ranks, node.ranks = plan.ranks / plan.node_count;
  node.first_rank = plan.node * node.ranks;
  node.master = plan.master, node.port = plan.port;
  // Not by the address: a pod may know its own under another name.
  node.job = format("{} ranks at port {}", plan.ranks, plan.port);
  node.secret = comm::find_job_secret();
  node.command = plan.command, node.bind = plan.bind, node.again = again;
  const comm::StoreAddress place{node.master, node.port, comm::job_key(node.secret, node.job)};
  RankOutput output(base::real_files(), plan.logs, node.world, plan.show);
  std::unique_ptr<comm::StoreServer> store;
  if (plan.node == 0) {
    comm::StoreServerOptions options{plan.listen.empty() ? plan.master : plan.listen, plan.port, place.secret};
    options.ranks = node.world, options.launchers = plan.node_count;
    store = std::make_unique<comm::StoreServer>(options);
    store->start();
  }
  const auto heed_signals = [&] {
    if (const int signal = signals.next())
      throw base::Interrupted("stopped while waiting for the launchers of the other machines at " + place.text(),
                              plan.resumable ? base::stop_exit_code(signal) : 128 + signal);
  };
  bool wait_told = false;
  const auto heed = [&, begun = base::now()] {
    if (plan.restarts.most > 0 && base::now() - begun > kLongWait && !std::exchange(wait_told, true))
      std::fprintf(stderr, "launch: waiting for the launcher of the first machine at %s\n", place.text().c_str());
    heed_signals();
  };
  LauncherBoard board(place, node.world + plan.node, plan.node_count, heed);
  if (plan.restarts.most > 0) meet_launchers(board, plan.node_count, heed_signals);
  std::vector<std::unique_ptr<Ranks>> machines;
  machines.push_back(start_node(node, guardian));
  Liveness pulse;
  if (store)
    pulse = {[&] { return store->seen(); }, [&](double seconds) { return store->silent(seconds); },
             [&](const std::string& why) { store->tell_end(why); }};
  const auto lost = [&] { return store ? store->lost_launchers() : std::vector<int>{}; };
  bool lost_told = false;
  const auto failure = [&] {
    lost_told = !lost().empty();
    if (lost_told) board.tell(lost_text(lost()));
    return board.failure();
  };
  const PeerLaunchers neighbours{failure,
                                 [&](const std::string& why) { board.tell(format("node {}: {}", plan.node, why)); }};
  Job job(std::move(machines), output, signals,
          {node.world, plan.limits, pulse, neighbours, plan.slow_step, plan.resumable});
  const int code = job.run();
  JobEnd end = job.end();
  board.leave();
  if (!store) return end;
  // The others need the store until their ranks have ended. One that died without a word is not waited for.
  const double since = base::real_clock().seconds();
  const auto over = [&] {
    const auto present = store->present();
    const bool all_silent = !present.empty() && store->silent(kDeadSilence).size() == present.size();
    return signals.next() != 0 || ((code != 0 || all_silent) && base::real_clock().seconds() - since > kLastWait);
  };
  board.wait_for_all([&] { return static_cast<int>(lost().size()); }, over);
  if (lost().empty()) return end;
  if (!lost_told) std::fprintf(stderr, "launch: %s\n", lost_text(lost()).c_str());
  return {std::max(code, 1), true, end.why.empty() ? lost_text(lost()) : end.why};
}

JobEnd launch_once(const LaunchPlan& plan, const StartedAgain& again) {
  return plan.node_count > 1 ? launch_share(plan, again) : launch_all(plan, again);
}

}  // namespace

int launch(const LaunchPlan& plan) {
  if (plan.restarts.most == 0) return launch_once(plan, {}).code;
  return supervise({plan.restarts, plan.resumable, plan.standing, [&](int number, const std::string& why) {
                      LaunchPlan start = plan;
                      if (number > 0) start.logs /= format("restart-{}", number);
                      return launch_once(start, {number, why});
                    }});
}

}  // namespace hyperion::resilience
