#include "hyperion/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hyperion/base/error.h"

namespace hyperion::data {
namespace {

constexpr int kFraction = 22;  // bits after the point of a weight: 8 of the pixel, the sign and one to spare are left

double bilinear(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic with a = -1/2.
double bicubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

// What each output pixel of one axis is made of: `taps` weights (the last ones perhaps 0) from `first` on.
struct Axis {
  int64_t taps = 0;
  std::vector<int64_t> first;
  std::vector<int32_t> weights;
  const int32_t* of(int64_t at) const { return weights.data() + at * taps; }
};

Axis axis_of(int64_t from, int64_t to, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
  const double reach = (filter == Filter::kBilinear ? 1.0 : 2.0) * stretch;
  Axis axis;
  axis.taps = std::min<int64_t>(static_cast<int64_t>(std::ceil(reach)) * 2 + 1, from);
  axis.weights.resize(static_cast<size_t>(to * axis.taps));
  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (int64_t at = 0; at < to; ++at) {
    const double centre = (static_cast<double>(at) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(centre + reach + 0.5), from);
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double x = (static_cast<double>(i) - centre + 0.5) * (1.0 / stretch);
      sum += exact[i - begin] = filter == Filter::kBilinear ? bilinear(x) : bicubic(x);
    }
    // A window at the far edge begins earlier, with weights of 0, so that all taps lie inside.
    axis.first.push_back(std::min(begin, from - axis.taps));
    const int64_t shift = begin - axis.first.back();
    for (int64_t i = 0; i < end - begin; ++i)
      axis.weights[at * axis.taps + shift + i] =
          static_cast<int32_t>(std::round(exact[i] * (1.0 / sum) * (1 << kFraction)));
  }
  return axis;
}

inline uint8_t pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFraction, 0, 255)); }

// One row of the image, made `size` pixels wide.
void across(const uint8_t* row, const Axis& axis, int64_t size, uint8_t* out) {
  for (int64_t x = 0; x < size; ++x) {
    const uint8_t* in = row + 3 * axis.first[x];
    const int32_t* weights = axis.of(x);
    int32_t red = 1 << (kFraction - 1), green = red, blue = red;
    for (int64_t tap = 0; tap < axis.taps; ++tap) {
      red += weights[tap] * in[3 * tap];
      green += weights[tap] * in[3 * tap + 1];
      blue += weights[tap] * in[3 * tap + 2];
    }
    out[3 * x] = pixel(red), out[3 * x + 1] = pixel(green), out[3 * x + 2] = pixel(blue);
  }
}

// One row of `count` bytes from the rows `in`, in blocks whose sums stay in registers.
void down(const uint8_t* const* in, const int32_t* weights, int64_t taps, int64_t count, uint8_t* out) {
  constexpr int64_t kBlock = 32;
  int64_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock) {
    int32_t sums[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) sums[i] = 1 << (kFraction - 1);
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t i = 0; i < kBlock; ++i) sums[i] += weights[tap] * in[tap][begin + i];
    for (int64_t i = 0; i < kBlock; ++i) out[begin + i] = pixel(sums[i]);
  }
  for (; begin < count; ++begin) {
    int32_t sum = 1 << (kFraction - 1);
    for (int64_t tap = 0; tap < taps; ++tap) sum += weights[tap] * in[tap][begin];
    out[begin] = pixel(sum);
  }
}

}  // namespace

void resize_rows(const Pixels& image, const Box& box, ImageSize size, Filter filter, const RowSink& sink) {
  HYPERION_CHECK(box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
                     box.left + box.width <= image.size.width && box.top + box.height <= image.size.height,
                 "the box lies inside the image");
  HYPERION_CHECK(size.height > 0 && size.width > 0, "an image has pixels");
  const auto source = [&](int64_t y) { return image.row(box.top + y) + 3 * box.left; };
  const bool wide = box.width != size.width, high = box.height != size.height;
  const Axis columns = wide ? axis_of(box.width, size.width, filter) : Axis{};
  const Axis lines = high ? axis_of(box.height, size.height, filter) : Axis{1, {}, {}};
  const int64_t bytes = 3 * size.width;

  // Rows made `size.width` wide, in a ring as long as the tallest window; windows only ever move down.
  std::vector<uint8_t> ring(wide ? static_cast<size_t>(lines.taps * bytes) : 0), made(static_cast<size_t>(bytes));
  int64_t next = 0;
  const auto row = [&](int64_t y) -> const uint8_t* {
    if (!wide) return source(y);
    for (; next <= y; ++next) across(source(next), columns, size.width, ring.data() + next % lines.taps * bytes);
    return ring.data() + y % lines.taps * bytes;
  };
  std::vector<const uint8_t*> window(static_cast<size_t>(lines.taps));
  for (int64_t y = 0; y < size.height; ++y) {
    if (!high) {
      sink(y, row(y));
      continue;
    }
    next = std::max(next, lines.first[y]);
    for (int64_t tap = 0; tap < lines.taps; ++tap) window[tap] = row(lines.first[y] + tap);
    down(window.data(), lines.of(y), lines.taps, bytes, made.data());
    sink(y, made.data());
  }
}

Pixels resize(const Pixels& image, const Box& box, ImageSize size, Filter filter) {
  Pixels out(size);
  resize_rows(image, box, size, filter,
              [&](int64_t y, const uint8_t* rgb) { std::memcpy(out.row(y), rgb, static_cast<size_t>(3 * size.width)); });
  return out;
}

}  // namespace hyperion::data
