#include "hyperion/doctor/comm_job.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/byte_count.h"
#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/device/device.h"
#include "hyperion/host/memory.h"

namespace hyperion::doctor {
namespace {

using base::format;

constexpr int64_t kLargest = int64_t{1} << 36;
constexpr double kTold = 2;  // seconds between log lines
constexpr const char* kAgreement = "agreement";

using base::now;

// NCCL wants a GPU for each rank of a machine; where they share one, tensors go by way of the host.
bool own_gpu(c10::Device device, const host::Launch& launch) {
  return device.is_cuda() && launch.local_world > 0 && launch.local_world <= device::gpu_count();
}

// The GPU of the local rank, or the one that all share.
c10::Device device_of(const std::string& name, const host::Launch& launch) {
  const auto device = device::open_device(name);
  return own_gpu(device, launch) ? c10::Device(device.type(), static_cast<c10::DeviceIndex>(launch.local_rank))
                                 : device;
}

CollectiveRow measure(CommJob& job, KnownCollective& collective, double seconds, uint64_t seed,
                      std::map<int, int64_t>& wrong) {
  const auto look = [&] {
    for (const auto& [from, count] : collective.wrong()) wrong[from] += count;
  };
  collective.fill(seed);
  collective.call();
  look();
  // Sums of sums would grow without end; zeros stay zeros.
  if (collective.name() == "all_reduce") collective.fill_zeros();
  CollectiveRow row{collective.name(), collective.bytes(), {}, {}};
  // All ranks see the time of the slowest, and so repeat as often.
  row.seconds = profile::repeat(
      [&](int64_t calls) {
        job.control->barrier(kAgreement).wait();
        device::synchronize(job.device);
        const double start = now();
        for (int64_t i = 0; i < calls; ++i) collective.call();
        device::synchronize(job.device);
        return job.slowest(now() - start);
      },
      {seconds, std::min(0.01, seconds / 4), 3});
  look();
  return row;
}

// What each rank found wrong: place of the row -> from -> numbers; gathered.
using Wrong = std::map<size_t, std::map<int, int64_t>>;

void share_wrong(CommJob& job, const Wrong& own, std::vector<CollectiveRow>& rows) {
  base::Json list = base::Json::array();
  for (const auto& [place, found] : own)
    for (const auto& [from, count] : found) list.push_back({place, from, count});
  const auto texts = job.told_by_all(list.dump());
  for (size_t rank = 0; rank < texts.size(); ++rank)
    for (const auto& entry : base::parse_json(texts[rank], "what a rank found"))
      rows.at(entry.at(0).get<size_t>()).wrong[static_cast<int>(rank)][entry.at(1)] += entry.at(2).get<int64_t>();
}

}  // namespace

std::string host_name() {
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  return name;
}

CommJob::CommJob(const std::string& device_name, double timeout_seconds) : device(c10::kCPU) {
  const auto launch = host::find_launch();
  base::configure_log({base::LogLevel::info, launch.rank});
  if (!launch.note.empty()) base::log_warn(launch.note);
  device = device_of(device_name, launch);
  world = comm::World::join(launch, {std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000))});
  control = world->group("control");
  group = world->group("measured", own_gpu(device, launch) ? comm::Backend::gpu : comm::Backend::host);
  hosts = told_by_all(host_name());
}

std::string CommJob::text() const {
  const auto count = std::set<std::string>(hosts.begin(), hosts.end()).size();
  return format("{} {} on {} {} over {}, {}", ranks(), ranks() == 1 ? "rank" : "ranks", count,
                count == 1 ? "host" : "hosts", ranks() == 1 ? "nothing" : group->kind(), device::device_text(device));
}

double CommJob::slowest(double seconds) {
  const auto own = at::zeros({1}, at::kDouble), all = at::zeros({ranks()}, at::kDouble);
  own.mutable_data_ptr<double>()[0] = seconds;
  control->all_gather(all, own, kAgreement).wait();
  const double* const values = all.const_data_ptr<double>();
  return *std::max_element(values, values + ranks());
}

std::vector<std::string> CommJob::told_by_all(const std::string& text) {
  return control->gather_text(text, kAgreement);
}

int64_t message_size(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  const auto bytes = base::byte_count(number ? text + "b" : text);
  if (bytes && *bytes >= 1 && *bytes <= kLargest) return *bytes;
  throw base::ConfigError(format("\"{}\" is no size of a message", text),
                          "write it as 8, 64KiB or 16MiB; at most 64GiB");
}

void check_sizes(const std::vector<int64_t>& sizes, int local_ranks) {
  if (sizes.empty()) throw base::ConfigError("no sizes given", "write --sizes 1KiB,1MiB");
  const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
  const auto available = static_cast<double>(host::memory().available);
  const double need = 5.0 * static_cast<double>(largest) * std::max(local_ranks, 1);
  if (available > 0 && need > available)
    throw base::ConfigError(
        format("messages of {} need {} on this machine, and {} is there",
               base::bytes_text(static_cast<uint64_t>(largest)), base::bytes_text(static_cast<uint64_t>(need)),
               base::bytes_text(static_cast<uint64_t>(available))),
        "name a smaller size");
}

int64_t CollectiveRow::all_wrong() const {
  int64_t count = 0;
  for (const auto& [rank, found] : wrong)
    for (const auto& [from, numbers] : found) count += numbers;
  return count;
}

double CollectiveRow::algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.median; }
double CollectiveRow::bus_bandwidth(int ranks) const { return algorithm_bandwidth() * bus_factor(name, ranks); }

std::vector<CollectiveRow> measure_collectives(CommJob& job, const std::vector<std::string>& names,
                                               const std::vector<int64_t>& sizes, double seconds,
                                               const std::function<void(const std::string& what)>& begin) {
  std::vector<CollectiveRow> rows;
  Wrong own;
  uint64_t seed = 1;
  for (const auto& name : names)
    for (const int64_t bytes : name == "barrier" ? std::vector<int64_t>{0} : sizes) {
      begin(name == "barrier" ? name : format("{} {}", name, base::bytes_text(static_cast<uint64_t>(bytes))));
      KnownCollective collective(*job.group, job.device, name, bytes);
      std::map<int, int64_t> wrong;
      rows.push_back(measure(job, collective, seconds, seed++, wrong));
      if (!wrong.empty()) own[rows.size() - 1] = wrong;
    }
  share_wrong(job, own, rows);
  return rows;
}

struct CommProgress::State {
  std::string what;
  base::ProgressLine line;
  double told = 0;
};

CommProgress::CommProgress(const CommJob& job, std::string what) {
  if (!job.first()) return;
  state_ = std::make_unique<State>();
  state_->what = std::move(what), state_->told = now();
}
CommProgress::~CommProgress() = default;
void CommProgress::clear() {
  if (state_) state_->line.clear();
}
void CommProgress::show(const std::string& text) {
  if (!state_) return;
  const auto full = format("{}  {}", state_->what, text);
  state_->line.show(full);
  if (state_->line.live() || now() - state_->told < kTold) return;
  state_->told = now();
  base::log_info(full);
}

std::vector<std::string> wrong_texts(const std::vector<CollectiveRow>& rows, int ranks) {
  std::vector<std::string> texts;
  for (const auto& row : rows) {
    const bool sum = row.name == "all_reduce" || row.name == "reduce_scatter";
    const auto tell = [&](const std::string& who, const std::map<int, int64_t>& found) {
      for (const auto& [from, count] : found)
        texts.push_back(format("{} of {}: {} has {} wrong {} {} rank {}", row.name,
                               base::bytes_text(static_cast<uint64_t>(row.bytes)), who, base::with_commas(count),
                               count == 1 ? "number" : "numbers", sum ? "in the piece summed by" : "from", from));
    };
    const bool same = !row.wrong.empty() && std::all_of(row.wrong.begin(), row.wrong.end(), [&](const auto& entry) {
      return entry.second == row.wrong.begin()->second;
    });
    if (ranks > 1 && same && row.wrong.size() == static_cast<size_t>(ranks)) {
      tell("every rank", row.wrong.begin()->second);
      continue;
    }
    for (const auto& [rank, found] : row.wrong) tell(format("rank {}", rank), found);
  }
  return texts;
}

}  // namespace hyperion::doctor
