#include "hyperion/report/axis.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/format.h"

namespace hyperion::report {
namespace {

constexpr double kSmallestSpan = 1e-290;  // below it a step has no exact power of ten
constexpr double kSlack = 1e-9;           // of a step: rounding must not lose the tick at the end

double nice_step(double span, int wanted) {
  const double raw = span / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double times : {1.0, 2.0, 5.0}) {
    if (raw <= times * power * (1 + kSlack)) return times * power;
  }
  return 10 * power;
}

std::string without_trailing_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// 0.00015 -> "1.5e-4": how people write a learning rate.
std::string scientific(double value) {
  if (value == 0) return "0";
  int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + kSlack));
  std::string mantissa = without_trailing_zeros(base::format("{:.3f}", value / std::pow(10.0, exponent)));
  return mantissa + base::format("e{}", exponent);
}

struct Suffix {
  double scale;
  const char* text;
};

Suffix suffix_for(double largest) {
  if (largest >= 1e12) return {1e12, "T"};
  if (largest >= 1e9) return {1e9, "G"};
  if (largest >= 1e6) return {1e6, "M"};
  if (largest >= 1e4) return {1e3, "k"};
  return {1, ""};
}

bool needs_exponent(double largest) { return largest >= 1e15 || largest < 1e-2; }

std::string linear_label(double value, double step, double largest) {
  if (std::abs(value) < step / 2) return "0";
  if (needs_exponent(largest)) return scientific(value);
  const Suffix suffix = suffix_for(largest);
  const double scaled_step = step / suffix.scale;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(scaled_step) - kSlack)), 0, 9);
  return base::format("{:.{}f}{}", value / suffix.scale, decimals, suffix.text);
}

std::string log_label(double value) {
  if (value >= 1e15 || value < 1e-3) return scientific(value);
  const bool exact_count =
      value < 1e6 && std::abs(value - std::round(value)) < kSlack && std::fmod(std::round(value), 100) != 0;
  if (exact_count) return base::format("{:.0f}", value);  // 16384 is better known than 16.384k
  const Suffix suffix = suffix_for(value);
  return without_trailing_zeros(base::format("{:.4f}", value / suffix.scale)) + suffix.text;
}

std::vector<Tick> linear_ticks(double low, double high, double step) {
  std::vector<Tick> ticks;
  const double largest = std::max(std::abs(low), std::abs(high));
  const double last = std::floor(high / step + kSlack);
  for (double i = std::ceil(low / step - kSlack); i <= last && ticks.size() < 100; ++i) {
    const double value = std::clamp(i * step, low, high);
    ticks.push_back({value, linear_label(value, step, largest)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int wanted) {
  const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
  const int last = static_cast<int>(std::ceil(std::log10(high) - kSlack));
  const int decades = last - first;
  const int stride = std::max(1, static_cast<int>(std::lround(static_cast<double>(decades) / wanted)));
  const bool between = 3 * std::log10(high / low) <= wanted + 2;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; exponent += stride) {
    for (double times : {1.0, 2.0, 5.0}) {
      const double value = times * std::pow(10.0, exponent);
      const bool inside = value >= low * (1 - kSlack) && value <= high * (1 + kSlack);
      if (inside && (between || times == 1.0)) ticks.push_back({std::clamp(value, low, high), log_label(value)});
    }
  }
  return ticks;
}

void widen_single_value(Axis& axis) {
  const double value = axis.low;
  if (axis.log) {
    axis.low = value / 2;
    axis.high = value * 2;
  } else {
    const double around = std::abs(value) < kSmallestSpan ? 1 : std::abs(value) * 0.1;
    axis.low = value - around;
    axis.high = value + around;
  }
}

// The nearest of 1, 2, 5 times a power of ten at or below `value`.
double nice_below(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value) + kSlack));
  for (double times : {5.0, 2.0}) {
    if (value >= times * power * (1 - kSlack)) return times * power;
  }
  return power;
}

void round_out_log(Axis& axis) {
  const double span = std::log10(axis.high / axis.low);
  // Round figures at both ends would leave a short range in a corner of the picture.
  if (span > 0.7) {
    axis.low = nice_below(axis.low);
    axis.high = 10 / nice_below(10 / axis.high);
  } else {
    const double margin = std::pow(10.0, std::max(span * 0.08, 0.01));
    axis.low /= margin;
    axis.high *= margin;
  }
}

}  // namespace

double Axis::fraction(double value) const {
  if (log) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

void tick_at(Axis& axis, const std::vector<double>& values) {
  axis.ticks.clear();
  for (double value : values) axis.ticks.push_back({value, log_label(value)});
}

Axis make_axis(double low, double high, bool log, int wanted_ticks, bool round_out) {
  Axis axis{low, high, log, {}};
  const double smallest_span = std::max(std::max(std::abs(low), std::abs(high)) * 1e-12, kSmallestSpan);
  const bool single = log ? !(high > low * (1 + 1e-12)) : !(high - low > smallest_span);
  if (single) widen_single_value(axis);
  if (log && round_out) round_out_log(axis);
  if (log) axis.ticks = log_ticks(axis.low, axis.high, wanted_ticks);
  if (axis.ticks.size() >= 2) return axis;
  if (!log && axis.low > 0 && axis.low < (round_out ? 0.3 : 0.05) * axis.high) axis.low = 0;
  const double step = nice_step(axis.high - axis.low, wanted_ticks);
  if (!log && round_out) {
    axis.low = std::floor(axis.low / step + kSlack) * step;
    axis.high = std::ceil(axis.high / step - kSlack) * step;
  }
  axis.ticks = linear_ticks(axis.low, axis.high, step);
  return axis;
}

}  // namespace hyperion::report
