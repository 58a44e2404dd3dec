#include "hyperion/dash/curves.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"

namespace hyperion::dash {
namespace {

constexpr float kGap = std::numeric_limits<float>::quiet_NaN();

// Of the points that are there; fmin and fmax pass over gaps.
struct Gathered {
  double sum = 0;
  size_t count = 0;
  float low = kGap, high = kGap;

  void take(float mean, float lowest, float highest) {
    if (std::isnan(mean)) return;
    sum += mean, ++count;
    low = std::fmin(low, lowest), high = std::fmax(high, highest);
  }
  float mean() const { return count == 0 ? kGap : static_cast<float>(sum / static_cast<double>(count)); }
};

template <class Number>
void append_number(std::string& out, Number number) {
  if (!std::isfinite(static_cast<double>(number))) {
    out += "null";
    return;
  }
  std::array<char, 32> text;
  out.append(text.data(), std::to_chars(text.begin(), text.end(), number).ptr);
}

template <class NumberOf>
void append_array(std::string& out, const char* key, size_t count, NumberOf&& number_of) {
  out += base::format("\"{}\":[", key);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    append_number(out, number_of(i));
  }
  out += ']';
}

}  // namespace

// By the clock, so that pages do not take those of a server before this one for ours.
int64_t Curves::new_generation(int64_t last) {
  return std::max(last + 1, static_cast<int64_t>(base::real_clock().unix_seconds() * 1e3));
}

void Curves::clear() {
  const int64_t next = new_generation(generation_);
  *this = Curves();
  generation_ = next;
}

Curves::Column& Curves::column(const std::string& name) {
  const auto at = std::find_if(columns_.begin(), columns_.end(), [&](const Column& one) { return one.name == name; });
  if (at != columns_.end()) return *at;
  columns_.push_back({name, std::vector<float>(rows(), kGap), {}, {}});
  if (stride_ > 1) columns_.back().low = columns_.back().high = columns_.back().mean;
  return columns_.back();
}

void Curves::add(int64_t step, double seconds, const std::vector<report::NamedValue>& values) {
  if (rows() == kMostRows && in_last_ == stride_) fold();
  const bool begins = rows() == 0 || in_last_ == stride_;
  if (begins) {
    steps_.push_back(step), seconds_.push_back(seconds);
    for (auto& column : columns_) {
      column.mean.push_back(kGap);
      if (stride_ > 1) column.low.push_back(kGap), column.high.push_back(kGap);
    }
    in_last_ = 0;
  }
  ++in_last_;
  steps_.back() = step, seconds_.back() = seconds;
  for (size_t i = 0; i < values.size(); ++i) {
    // Records have the same fields one after the other, so the column is mostly that of the same place.
    const bool in_place = i < columns_.size() && columns_[i].name == values[i].name;
    if (in_place || columns_.size() < kMostColumns)
      put(in_place ? columns_[i] : column(values[i].name), values[i].value);
  }
}

void Curves::put(Column& column, double value) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number)) return;
  const auto held = static_cast<float>(in_last_ - 1);
  float& mean = column.mean.back();
  mean = std::isnan(mean) ? number : (mean * held + number) / (held + 1);
  if (stride_ == 1) return;
  column.low.back() = std::fmin(column.low.back(), number);
  column.high.back() = std::fmax(column.high.back(), number);
}

Curves::Point Curves::point(const Column& column, size_t begin, size_t end) const {
  Gathered gathered;
  for (size_t i = begin; i < end; ++i) {
    const float mean = column.mean[i];
    gathered.take(mean, stride_ > 1 ? column.low[i] : mean, stride_ > 1 ? column.high[i] : mean);
  }
  return {gathered.mean(), gathered.low, gathered.high};
}

void Curves::fold() {
  const size_t half = rows() / 2;
  for (auto& column : columns_) {
    std::vector<float> mean(half), low(half), high(half);
    for (size_t i = 0; i < half; ++i) {
      const Point both = point(column, 2 * i, 2 * i + 2);
      mean[i] = both.mean, low[i] = both.low, high[i] = both.high;
    }
    column.mean = std::move(mean), column.low = std::move(low), column.high = std::move(high);
  }
  for (size_t i = 0; i < half; ++i) steps_[i] = steps_[2 * i + 1], seconds_[i] = seconds_[2 * i + 1];
  steps_.resize(half), seconds_.resize(half);
  stride_ *= 2, in_last_ = stride_;
  generation_ = new_generation(generation_);
}

Curves::View Curves::between(int64_t from, int64_t to, size_t width) const {
  const auto begin = std::lower_bound(steps_.begin(), steps_.end(), from);
  auto end = std::upper_bound(begin, steps_.end(), to);
  if (end != steps_.end()) ++end;  // a line leads on to what is beside
  const auto first = begin == steps_.begin() ? begin : std::prev(begin);
  return {static_cast<size_t>(first - steps_.begin()), static_cast<size_t>(end - steps_.begin()), width};
}

std::string Curves::members(const View& view) const {
  const size_t count = view.end - view.begin;
  const size_t group = view.width == 0 ? 1 : std::max<size_t>(1, (count + view.width - 1) / view.width);
  const size_t points = (count + group - 1) / group;
  const auto begin_of = [&](size_t i) { return view.begin + i * group; };
  const auto end_of = [&](size_t i) { return std::min(view.end, begin_of(i) + group); };

  std::string out =
      base::format("\"generation\":{},\"rows\":{},\"begin\":{},\"end\":{},", generation_, rows(), view.begin, view.end);
  append_array(out, "steps", points, [&](size_t i) { return steps_[end_of(i) - 1]; });
  out += ',';
  append_array(out, "seconds", points, [&](size_t i) { return static_cast<float>(seconds_[end_of(i) - 1]); });
  out += ",\"curves\":{";
  std::vector<Point> drawn(points);
  for (const auto& column : columns_) {
    for (size_t i = 0; i < points; ++i) drawn[i] = point(column, begin_of(i), end_of(i));
    if (&column != columns_.data()) out += ',';
    out += base::Json(column.name).dump(-1, ' ', false, base::Json::error_handler_t::replace) + ":{";
    append_array(out, "mean", points, [&](size_t i) { return drawn[i].mean; });
    if (group > 1 || stride_ > 1) {
      out += ',';
      append_array(out, "low", points, [&](size_t i) { return drawn[i].low; });
      out += ',';
      append_array(out, "high", points, [&](size_t i) { return drawn[i].high; });
    }
    out += '}';
  }
  return out + "}";
}

}  // namespace hyperion::dash
