#include "hyperion/bench/tune.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr int kSteps = 2;  // the second finds what the first left in another place

TuneRow row_of(const device::TuningKey& key, const device::Tuning& choice, bool measured) {
  return {key.gpu, key.library, key.what, choice.way, choice.microseconds, choice.usual, measured};
}

void sort(std::vector<TuneRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const TuneRow& a, const TuneRow& b) {
    return a.usual - a.microseconds > b.usual - b.microseconds;
  });
}

// An algorithm's bytes say nothing to people.
std::string way_text(const TuneRow& row) {
  return row.way.size() < 16 ? row.way : row.microseconds < row.usual ? "another algorithm" : "the usual";
}

}  // namespace

TuneResult tune(const std::string& name, train::RunConfig config) {
  const auto device = device::open_device(config.train.device);
  if (!device.is_cuda())
    throw base::PreflightError("there is nothing to tune on a CPU",
                               "a GPU's matrix products and attention have several ways; a CPU's have one");
  config.train.optimize = train::Optimize::max;
  config.train.deterministic = false;
  config.parallel = {};
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  {
    RandomTraining training(config, device);
    for (int step = 0; step < kSteps; ++step) training.step();
    device::synchronize(device);
  }
  TuneResult result{name, device::device_text(device), device::tuning_cache().file().string(), {}};
  for (const auto& [key, met] : device::tuning_cache().met())
    result.rows.push_back(row_of(key, met.tuning, met.measured));
  sort(result.rows);
  return result;
}

TuneResult kept_rows() {
  TuneResult result{"", "", device::tuning_cache().file().string(), {}};
  for (const auto& [key, choice] : device::tuning_cache().all()) result.rows.push_back(row_of(key, choice, false));
  return result;
}

std::string tune_table(const TuneResult& result) {
  const bool several = result.device_name.empty();
  std::vector<std::vector<std::string>> cells = {{"what", "usual us", "fastest us", "gain", "taken", ""}};
  for (const auto& row : result.rows)
    cells.push_back({row.what, format("{:.1f}", row.usual), format("{:.1f}", row.microseconds),
                     row.usual > 0 ? format("{:.1f}%", 100 * (1 - row.microseconds / row.usual)) : "", way_text(row),
                     several        ? row.gpu + ", " + row.library
                     : row.measured ? "measured now"
                                    : "known"});
  return aligned(cells, {0, 4, 5}) + "\nkept in " + result.file + "\n";
}

std::string tune_json(const TuneResult& result) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : result.rows)
    rows.push_back({{"gpu", row.gpu},
                    {"library", row.library},
                    {"what", row.what},
                    {"way", row.way},
                    {"us", row.microseconds},
                    {"usual_us", row.usual},
                    {"measured", row.measured}});
  return nlohmann::ordered_json{
             {"tuned", result.name}, {"gpu", result.device_name}, {"file", result.file}, {"choices", rows}}
             .dump(2) +
         "\n";
}

}  // namespace hyperion::bench
