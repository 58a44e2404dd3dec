#include "hyperion/comm/meeting.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/comm/gloo_transport.h"
#include "hyperion/comm/store.h"
#include "hyperion/host/cores.h"

namespace hyperion::comm {
namespace {

using base::format;

std::string key_of(int rank) { return format("member/{}", rank); }

std::string card_of(const host::Launch& launch) {
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  return base::Json{{"rank", launch.rank},
                    {"local_rank", launch.local_rank},
                    {"host", name},
                    {"process", ::getpid()},
                    {"cores", host::allowed_cores()}}
      .dump();
}

Member member_of(const std::string& card) {
  const auto json = base::parse_json(card, "a rank's introduction");
  return {json.at("rank"), json.at("local_rank"), json.at("host"), json.at("process"), json.at("cores")};
}

std::vector<Member> wait_for_all(c10d::Store& store, int world, std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world; ++rank) keys.push_back(key_of(rank));
  try {
    store.wait(keys, timeout);
  } catch (const c10::DistStoreError&) {
    std::string missing;
    for (int rank = 0; rank < world; ++rank)
      if (!store.check({key_of(rank)})) missing += format("{}{}", missing.empty() ? "" : ", ", rank);
    throw base::Error(format("after {} s these ranks have not come: {}", timeout.count() / 1000, missing),
                      "their own logs say why; a slow start needs a longer --timeout");
  }
  std::vector<Member> members;
  for (const auto& key : keys) members.push_back(member_of(store.get_to_str(key)));
  return members;
}

float sum_of_ranks(const c10::intrusive_ptr<c10d::Store>& store, const host::Launch& launch, bool one_host,
                   std::chrono::milliseconds timeout) {
  const auto group = make_gloo_group(store, launch.rank, launch.world, one_host ? "127.0.0.1" : "", timeout);
  std::vector<at::Tensor> numbers{at::full({1024}, static_cast<float>(launch.rank))};
  group->allreduce(numbers)->wait();
  // Nobody leaves before all have what they came for: a wire that closes early is an error at its other end.
  group->barrier()->wait();
  return numbers[0].max().item<float>();
}

}  // namespace

Meeting meet(const host::Launch& launch, std::chrono::milliseconds timeout) {
  const double start = base::real_clock().seconds();
  base::fault_point("comm.meet");
  const InterruptibleWait heed;
  const auto store = connect_store(launch, timeout);
  store->set(key_of(launch.rank), card_of(launch));
  Meeting meeting;
  meeting.members = wait_for_all(*store, launch.world, timeout);
  const auto& first = meeting.members.front().host;
  const bool one_host = std::all_of(meeting.members.begin(), meeting.members.end(),
                                    [&](const Member& member) { return member.host == first; });
  const auto wires = c10::make_intrusive<c10d::PrefixStore>("wires", store);
  const float sum = sum_of_ranks(wires, launch, one_host, timeout), right = launch.world * (launch.world - 1) / 2.0f;
  if (sum != right) throw base::Error(format("the sum of all ranks came out as {}, not {}", sum, right));
  meeting.seconds = base::real_clock().seconds() - start;
  return meeting;
}

}  // namespace hyperion::comm
