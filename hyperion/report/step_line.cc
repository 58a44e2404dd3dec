#include "hyperion/report/step_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "hyperion/base/format.h"

namespace hyperion::report {
namespace {

using base::format;

// Three figures that matter: 315, 85.3, 1.25.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// Fixed decimals in the everyday range, an exponent outside it.
std::string everyday(double value, int decimals, double smallest, double largest) {
  const double size = std::abs(value);
  if (std::isfinite(value) && value != 0 && (size < smallest || size >= largest)) return short_scientific(value);
  return format("{:.{}f}", value, decimals);
}

std::optional<int64_t> memory_of(const StepRecord& record) {
  return record.memory_peak ? record.memory_peak : record.memory_allocated;
}

}  // namespace

std::string short_scientific(double value) {
  if (value == 0) return "0";
  std::string text = format("{:.1e}", value);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  size_t digits = exponent + 2;
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1), --digits;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

std::string rate_text(double tflops) {
  if (tflops >= 0.9995) return three_digits(tflops) + " TFLOP/s";
  if (tflops >= 0.9995e-3) return three_digits(tflops * 1e3) + " GFLOP/s";
  return three_digits(tflops * 1e6) + " MFLOP/s";
}

std::string milliseconds_text(double ms) {
  if (ms >= 999.95) return format("{:.2f} s", ms / 1e3);
  return format("{:.{}f} ms", ms, ms < 0.995 ? 2 : 1);
}

std::string step_line(const StepRecord& record, int64_t total_steps, std::optional<double> eta_seconds,
                      const char* rate_unit) {
  std::vector<std::string> parts;
  parts.push_back(total_steps > 0 ? format("step {}/{}", record.step, total_steps) : format("step {}", record.step));
  parts.push_back("loss " + everyday(record.loss, 3, 9.5e-3, 1e5));
  if (record.accuracy) parts.push_back(format("acc {:.1f}%", *record.accuracy * 100));
  parts.push_back("grad " + everyday(record.grad_norm, 2, 9.5e-3, 1e4));
  parts.push_back("lr " + short_scientific(record.lr));
  if (record.step_ms > 0) parts.push_back(milliseconds_text(record.step_ms));
  if (record.tokens_per_s > 0) parts.push_back(base::with_commas(std::llround(record.tokens_per_s)) + " " + rate_unit);
  if (record.tflops) parts.push_back(rate_text(*record.tflops));
  if (record.mfu) parts.push_back(format("mfu {:.1f}%", *record.mfu * 100));
  if (const auto memory = memory_of(record)) {
    parts.push_back("mem " + base::bytes_text(static_cast<uint64_t>(std::max<int64_t>(*memory, 0))));
  }
  if (record.step_ms > 0) parts.push_back(format("data {:.1f}%", record.data_wait_ms / record.step_ms * 100));
  if (eta_seconds) parts.push_back("eta " + base::duration_text(*eta_seconds));

  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : "  ") + part;
  return line;
}

}  // namespace hyperion::report
