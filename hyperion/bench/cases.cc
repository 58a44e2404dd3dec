#include "hyperion/bench/cases.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hyperion/base/format.h"

namespace hyperion::bench {
namespace {

constexpr double kLongestProduct = 60, kLongestQuickProduct = 3;  // seconds of a single one
constexpr int64_t kMostQuickElements = 100'000'000;
constexpr std::array<int64_t, 3> kTransferBytes = {1 << 20, 16 << 20, 256 << 20};

// Whether fp32 products on the GPU may round their inputs to tf32, until the end of the scope.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool allow) : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(allow);
  }
  ~Tf32Scope() { at::globalContext().setAllowTF32CuBLAS(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool before_;
};

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "fp16") return at::kHalf;
  if (dtype == "bf16") return at::kBFloat16;
  if (dtype == "fp8") return at::kFloat8_e4m3fn;
  return at::kFloat;
}

std::function<void()> product(const TimedDevice& device, const std::string& dtype, int64_t n) {
  const at::TensorOptions place = at::TensorOptions().device(device.place());
  const at::ScalarType type = scalar_type(dtype);
  at::Tensor a = at::randn({n, n}, place).to(type), b = at::randn({n, n}, place).to(type);
  if (dtype == "fp8") {
    at::Tensor scale = at::ones({}, place), out = at::empty({n, n}, place.dtype(at::kBFloat16));
    // The second factor is stored by columns, the only order the hardware multiplies fp8 in.
    return [=, columns = b.t()]() mutable {
      at::_scaled_mm_out(out, a, columns, scale, scale, {}, {}, at::kBFloat16, /*use_fast_accum=*/true);
    };
  }
  at::Tensor out = at::empty({n, n}, place.dtype(type));
  return [=]() mutable { at::mm_out(out, a, b); };
}

profile::Budget budget_of(const HardwareOptions& options) {
  return {.seconds = options.quick ? std::min(options.seconds_per_case, 0.2) : options.seconds_per_case};
}

void leave_out(const CaseContext& context, const std::string& what, const std::string& why) {
  context.result.notes.push_back(what + " left out: " + why);
}

bool fits(const CaseContext& context, int64_t bytes, const std::string& what) {
  const uint64_t free = context.device.free_bytes();
  if (static_cast<uint64_t>(bytes) <= free / 2) return true;
  leave_out(context, what,
            base::format("its {} do not fit in half of the {} of free memory",
                         base::bytes_text(static_cast<uint64_t>(bytes)), base::bytes_text(free)));
  return false;
}

// Seconds that a product of size n is likely to take: at best, so that a busy moment does not leave it out.
double predicted_seconds(const CaseContext& context, const std::string& dtype, int64_t n) {
  const auto cubed = [](int64_t from, int64_t to) {
    return std::pow(static_cast<double>(to) / static_cast<double>(from), 3);
  };
  const int64_t small = std::min<int64_t>(n, 256);
  const profile::Block block = context.device.timed(product(context.device, dtype, small));
  double best = block(1);
  for (int probe = 0; probe < 4; ++probe) best = std::min(best, block(1));
  best *= cubed(small, n);
  for (const HardwareRow& row : context.result.rows) {
    if (row.kind == "matmul" && row.name == dtype) best = std::min(best, row.seconds.low * cubed(row.size, n));
  }
  return best;
}

void measure_product(const CaseContext& context, const std::string& dtype, int64_t n) {
  const std::string what = base::format("{} product of {}", dtype, n);
  context.begin(what);
  if (dtype == "fp8" && n % 16 != 0) {
    return leave_out(context, what, "fp8 needs a multiple of 16");
  }
  // Two factors and a result, and what making the factors needs beside them in fp32.
  if (!fits(context, 4 * n * n * 4, what)) return;
  const Tf32Scope scope(dtype == "tf32");
  const double longest = context.options.quick ? kLongestQuickProduct : kLongestProduct;
  if (const double likely = predicted_seconds(context, dtype, n); likely > longest) {
    return leave_out(context, what, base::format("one would take about {:.0f} s", likely));
  }
  const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const profile::Spread seconds =
      profile::repeat(context.device.timed(product(context.device, dtype, n)), budget_of(context.options));
  context.result.rows.push_back({"matmul", dtype, n, seconds, operations, context.device.peaks().of(dtype)});
}

// Random, but cheaply so: a million numbers over and over. Written whole first, so that on several NUMA nodes each page
// lies with the thread that will use it.
at::Tensor random_vector(const at::TensorOptions& place, int64_t elements) {
  constexpr int64_t kPiece = 1 << 20;
  at::Tensor vector = at::ones({elements}, place), piece = at::rand({std::min(elements, kPiece)}, place);
  for (int64_t start = 0; start < elements; start += kPiece) {
    const int64_t length = std::min(kPiece, elements - start);
    vector.narrow(0, start, length).copy_(piece.narrow(0, 0, length));
  }
  return vector;
}

std::function<void()> copy_work(const at::TensorOptions& place, int64_t elements) {
  at::Tensor from = random_vector(place, elements), to = at::ones({elements}, place);
  return [=]() mutable { to.copy_(from); };
}

std::function<void()> triad_work(const at::TensorOptions& place, int64_t elements) {
  at::Tensor b = random_vector(place, elements), c = random_vector(place, elements), a = at::ones({elements}, place);
  return [=]() mutable { at::add_out(a, b, c, 3); };
}

void measure_vectors(const CaseContext& context, const std::string& name, int64_t elements, int64_t vectors,
                     std::function<void()> (*work)(const at::TensorOptions&, int64_t)) {
  const std::string what = base::format("{} of {} elements", name, base::with_commas(elements));
  context.begin(what);
  if (context.options.quick && elements > kMostQuickElements)
    return leave_out(context, what, "too long for a quick look");
  const int64_t bytes = elements * vectors * 4;
  if (!fits(context, bytes, what)) return;
  const at::TensorOptions place = at::TensorOptions().device(context.device.place());
  const profile::Spread seconds =
      profile::repeat(context.device.timed(work(place, elements)), budget_of(context.options));
  context.result.rows.push_back(
      {"bandwidth", name, elements, seconds, static_cast<double>(bytes), context.device.peaks().bandwidth});
}

void measure_transfer(const CaseContext& context, bool pinned, int64_t bytes) {
  const at::TensorOptions type = at::TensorOptions().dtype(at::kByte);
  at::Tensor host = at::empty({bytes}, type.pinned_memory(pinned)).fill_(1);
  at::Tensor device = at::ones({bytes}, type.device(context.device.place()));
  const auto add = [&](const std::string& direction, std::function<void()> work) {
    const std::string name = direction + (pinned ? " pinned" : " pageable");
    context.begin(name);
    const profile::Spread seconds = profile::repeat(context.device.timed(std::move(work)), budget_of(context.options));
    context.result.rows.push_back({"transfer", name, bytes, seconds, static_cast<double>(bytes), 0});
  };
  add("host to device", [=]() mutable { device.copy_(host, /*non_blocking=*/true); });
  add("device to host", [=]() mutable { host.copy_(device, /*non_blocking=*/true); });
}

}  // namespace

int64_t count_cases(const TimedDevice& device, const HardwareOptions& options) {
  const auto wanted = [&](const char* kind) {
    return options.only.empty() || std::find(options.only.begin(), options.only.end(), kind) != options.only.end();
  };
  size_t count = 0;
  if (wanted("matmul")) count += options.dtypes.size() * options.sizes.size();
  if (wanted("bandwidth")) count += 2 * options.elements.size();
  if (wanted("transfer") && device.has_transfers()) count += 4 * kTransferBytes.size();
  if (wanted("latency")) count += device.latencies().size();
  return static_cast<int64_t>(count);
}

void measure_products(const CaseContext& context) {
  for (const std::string& dtype : context.options.dtypes) {
    for (int64_t n : context.options.sizes) measure_product(context, dtype, n);
  }
}

void measure_bandwidth(const CaseContext& context) {
  for (int64_t elements : context.options.elements) measure_vectors(context, "copy", elements, 2, copy_work);
  for (int64_t elements : context.options.elements) measure_vectors(context, "triad", elements, 3, triad_work);
}

void measure_transfers(const CaseContext& context) {
  if (!context.device.has_transfers()) return;
  for (bool pinned : {true, false}) {
    for (int64_t bytes : kTransferBytes) measure_transfer(context, pinned, bytes);
  }
}

void measure_latencies(const CaseContext& context) {
  for (const LatencyCase& latency : context.device.latencies()) {
    context.begin(latency.name);
    const profile::Spread seconds = profile::repeat(latency.block, budget_of(context.options));
    context.result.rows.push_back({"latency", latency.name, 0, seconds, 0, 0});
  }
}

}  // namespace hyperion::bench
