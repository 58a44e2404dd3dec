#include "hyperion/comm/world.h"

#include <c10/util/Flags.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/gloo_transport.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/comm/nccl_transport.h"
#include "hyperion/comm/store.h"
#include "hyperion/comm/waiting.h"

C10_DECLARE_int(caffe2_log_level);

namespace hyperion::comm {
namespace {

using base::format;

using base::first_line;

// Under which of its addresses this host is seen from the master's side: what a socket towards it is bound to.
std::string own_address(const std::string& master) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(master.c_str(), "9", &hints, &found) != 0) return master;
  std::string address = master;
  const int socket = ::socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST];
  if (socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
    address = text;
  if (socket >= 0) ::close(socket);
  ::freeaddrinfo(found);
  return address;
}

// c10d tells of every lost connection with its call stack; we say it in our own words.
void quieten_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 2;
}

c10::intrusive_ptr<c10d::Store> open_store(const host::Launch& launch, std::chrono::milliseconds timeout) {
  // Of torchrun's agent, whose store stays; our launchers have a new one with each start, and count for themselves.
  const int start = launch.launcher == host::Launcher::hyperion ? 0 : launch.restarts;
  return c10::make_intrusive<c10d::PrefixStore>(format("hyperion/{}", start), connect_store(launch, timeout));
}

// Whoever could not join says so; who stays silent is gone, stands still or never came.
std::string who_is_silent(c10d::Store& store, int own, const std::vector<int>& members) {
  try {
    const auto key_of = [](int member) { return format("could not join/{}", member); };
    store.set(key_of(own), "");
    std::this_thread::sleep_for(std::chrono::seconds(2));
    std::string silent;
    for (const int member : members)
      if (!store.check({key_of(member)})) silent += format("{}{}", silent.empty() ? "" : ", ", member);
    return silent.empty() ? "" : "; no word from rank " + silent;
  } catch (const std::exception&) {
    return "; the store does not answer";
  }
}

// Rank 0 failed, and says why: whoever started the ranks shall hear it first, and then asks this one to stop.
void leave_after_first() {
  constexpr std::chrono::milliseconds kMost{2000}, kLook{20};
  for (std::chrono::milliseconds waited{0}; waited < kMost && base::stop_signal() == 0; waited += kLook)
    std::this_thread::sleep_for(kLook);
}

}  // namespace

struct World::Link {
  int rank = 0, size = 1;
  std::string address;
  std::chrono::milliseconds timeout, stall;
  c10::intrusive_ptr<c10d::Store> store;
  int groups = 0;  // made so far
  int local_size = 0;
  bool wires_for_one = false;
};

bool has_gpu_backend() { return has_nccl(); }

World::World(std::unique_ptr<Link> link) : link_(std::move(link)) {}
World::~World() = default;
int World::rank() const { return link_->rank; }
int World::size() const { return link_->size; }
int World::local_size() const { return link_->local_size; }
bool World::wires_for_one() const { return link_->wires_for_one; }

std::unique_ptr<World> World::join(const host::Launch& launch, WorldOptions options) {
  auto link = std::make_unique<Link>();
  link->rank = launch.rank, link->size = launch.world, link->timeout = options.timeout;
  link->wires_for_one = options.wires_for_one || std::getenv("HYPERION_WIRES_FOR_ONE") != nullptr;
  link->stall = std::min(options.stall, options.timeout / 2);
  link->local_size = launch.world == 1 ? 1 : launch.local_world;
  if (launch.world == 1) {
    link->store = c10::make_intrusive<c10d::HashStore>();
    return std::unique_ptr<World>(new World(std::move(link)));
  }
  base::OperationScope scope("meeting the other processes");
  const Waiting here("the meeting of all ranks");
  const InterruptibleWait heed;
  quieten_c10d();
  try {
    link->store = open_store(launch, options.timeout);
    link->address = own_address(launch.master_address.empty() ? "127.0.0.1" : launch.master_address);
    auto world = std::unique_ptr<World>(new World(std::move(link)));
    return world;
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw base::PreflightError(format("rank {} of {} could not meet the others at {}:{}: {}", launch.rank, launch.world,
                                      launch.master_address, launch.master_port, first_line(error.what())),
                               "check that rank 0 runs there and that the port is free and open");
  }
}

std::unique_ptr<Group> World::group(const std::string& name, Backend wires, std::vector<int> members) {
  if (members.empty())
    for (int i = 0; i < size(); ++i) members.push_back(i);
  const auto found = std::find(members.begin(), members.end(), rank());
  HYPERION_CHECK(found != members.end(), "a rank makes only groups that it belongs to");
  const int own = static_cast<int>(found - members.begin()), count = static_cast<int>(members.size());
  const std::string prefix = format("group/{}/{}/{}", link_->groups++, name, members.front());
  if (count == 1 && !(link_->wires_for_one && wires == Backend::gpu))
    return std::make_unique<Group>(name, std::move(make_local_transports(1, link_->timeout).front()));
  const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, link_->store);
  const Waiting here(format("joining group {}", name));
  const InterruptibleWait heed;
  try {
    auto transport = wires == Backend::gpu ? make_nccl_transport(store, own, count, link_->timeout) : nullptr;
    if (transport == nullptr) transport = make_gloo_transport(store, own, count, link_->address, link_->timeout);
    transport->name_ranks(members);
    auto group = std::make_unique<Group>(name, std::move(transport));
    if (link_->stall.count() > 0) group->watch(link_->stall);
    return group;
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw base::PreflightError(format("rank {} failed joining the {} ranks of group {}{}: {}", rank(), count, name,
                                      who_is_silent(*store, rank(), members), first_line(error.what())),
                               "see that all ranks were started, and what the others say");
  }
}

std::string World::from_first(const std::string& key, const std::function<std::string()>& make) {
  const std::string name = "first/" + key;
  if (first()) {
    try {
      const std::string text = make();
      link_->store->set(name, "=" + text);
      return text;
    } catch (const base::Error& error) {
      link_->store->set(name, format("{} {}", error.exit_code(), error.what()));
      throw;
    }
  }
  std::string text;
  const Waiting here(format("waiting for rank 0 to say {}", key));
  const InterruptibleWait heed;
  try {
    text = link_->store->get_to_str(name);
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw base::Error(format("rank {} waited for rank 0 to say {}: {}", rank(), key, first_line(error.what())),
                      "look at the log of rank 0");
  }
  if (text.starts_with("=")) return text.substr(1);
  const size_t space = text.find(' ');
  leave_after_first();
  throw base::Interrupted("rank 0 could not start: " + text.substr(space + 1), std::stoi(text.substr(0, space)));
}

}  // namespace hyperion::comm
