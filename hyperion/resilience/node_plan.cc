#include "hyperion/resilience/node_plan.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/job_secret.h"
#include "hyperion/host/cores.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/restart.h"

extern char** environ;

namespace hyperion::resilience {
namespace {

using base::format;

// Of a launcher around this one: they would contradict what the ranks are told here.
const std::vector<std::string> kDropped = {"TORCHELASTIC_*", "GROUP_WORLD_SIZE", "ROLE_*", "PET_*",
                                           host::kRestartedAfterVariable};

bool sets(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

// Cores a rank; empty: nobody is bound.
std::vector<std::vector<int>> shares_of(const NodePlan& plan) {
  if (plan.bind == "none" || plan.ranks < 2) return {};
  const auto cores = host::allowed_cores();
  if (plan.bind != "cores") {
    auto nodes = host::gpu_nodes("/", host::visible_devices());
    if (std::ssize(nodes) >= plan.ranks) {  // the GPU of a rank is that of its local rank
      nodes.resize(static_cast<size_t>(plan.ranks));
      if (auto shares = host::share_cores_by_node("/", cores, nodes); !shares.empty()) return shares;
    }
    if (plan.bind == "gpu")
      base::log_warn("--bind gpu: the NUMA nodes of the ranks' GPUs are not known here, or too small; bound by cores");
  }
  return host::share_cores("/", cores, plan.ranks);
}

// JSON holds characters, and words of a command line any bytes: each byte is sent as the character of its number.
std::string as_characters(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      text += c;
    else
      text += {static_cast<char>(0xc0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3f))};
  }
  return text;
}

std::string as_bytes(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0x80) == 0 || i + 1 == text.size())
      bytes += text[i];
    else
      bytes += static_cast<char>(text[i] << 6 | (text[i + 1] & 0x3f)), ++i;
  return bytes;
}

std::vector<std::string> each(std::string (*change)(const std::string&), std::vector<std::string> words) {
  for (auto& word : words) word = change(word);
  return words;
}

// Settings of this process alone: they break a rank or slow it down, for tests.
bool is_for_tests(std::string_view variable) {
  return variable.starts_with("HYPERION_FAULTS=") || variable.starts_with("HYPERION_SLOW_LINK=");
}

}  // namespace

base::Json to_json(const NodePlan& plan) {
  return {{"node", plan.node},
          {"first_rank", plan.first_rank},
          {"ranks", plan.ranks},
          {"world", plan.world},
          {"master", plan.master},
          {"port", plan.port},
          {"job", plan.job},
          {"secret", plan.secret},
          {"bind", plan.bind},
          {"restarts", plan.again.times},
          {"restarted_after", as_characters(plan.again.why)},
          {"command", each(as_characters, plan.command)},
          {"environment", each(as_characters, plan.environment)}};
}

NodePlan node_plan_from_json(const base::Json& json) {
  return {json.at("node"),
          json.at("first_rank"),
          json.at("ranks"),
          json.at("world"),
          json.at("master"),
          json.at("port"),
          json.at("job"),
          json.at("secret"),
          each(as_bytes, json.at("command")),
          each(as_bytes, json.at("environment")),
          json.at("bind"),
          {json.at("restarts"), as_bytes(json.at("restarted_after"))}};
}

std::unique_ptr<Ranks> start_node(const NodePlan& plan, Guardian& guardian) {
  const auto shares = shares_of(plan);
  const int threads = std::max(1, host::this_cpu().usable_cores() / plan.ranks);
  const bool threads_told = std::getenv("OMP_NUM_THREADS") != nullptr || sets(plan.environment, "OMP_NUM_THREADS");
  std::vector<LocalRank> ranks;
  for (int local = 0; local < plan.ranks; ++local) {
    const int rank = plan.first_rank + local;
    LocalRank one{rank, plan.environment, shares.empty() ? std::vector<int>{} : shares[static_cast<size_t>(local)]};
    for (const std::string& variable :
         {format("RANK={}", rank), format("WORLD_SIZE={}", plan.world), format("LOCAL_RANK={}", local),
          format("LOCAL_WORLD_SIZE={}", plan.ranks), format("GROUP_RANK={}", plan.node),
          format("MASTER_ADDR={}", plan.master), format("MASTER_PORT={}", plan.port),
          format("HYPERION_JOB={}", plan.job), format("{}={}", comm::kSecretVariable, plan.secret)})
      one.environment.push_back(variable);
    if (plan.again.times > 0) {
      one.environment.push_back(format("TORCHELASTIC_RESTART_COUNT={}", plan.again.times));
      one.environment.push_back(format("{}={}", host::kRestartedAfterVariable, plan.again.why));
    }
    if (!threads_told) one.environment.push_back(format("OMP_NUM_THREADS={}", threads));
    ranks.push_back(std::move(one));
  }
  return start_local_ranks(ranks, plan.command, kDropped, guardian);
}

std::vector<std::string> travelling_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(comm::kSecretVariable) || text.starts_with(kLaunchersVariable) || is_for_tests(text)) continue;
    for (const char* prefix : {"HYPERION_", "NCCL_", "RCCL_", "TORCH_NCCL_", "GLOO_", "OMP_"})
      if (text.starts_with(prefix)) environment.emplace_back(text);
  }
  return environment;
}

}  // namespace hyperion::resilience
