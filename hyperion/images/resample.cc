#include "hyperion/images/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hyperion/base/error.h"

namespace hyperion::images {
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
  const int32_t* of(size_t at) const { return weights.data() + at * taps; }
};

// For output pixels begin .. begin + count - 1 of an axis of `from` pixels made `to` long.
Axis axis_of(int64_t from, int64_t to, int64_t begin, int64_t count, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
  const double reach = (filter == Filter::kBilinear ? 1.0 : 2.0) * stretch;
  const auto centre = [&](int64_t at) { return (static_cast<double>(begin + at) + 0.5) * scale; };
  const auto nearest = [](double place) { return static_cast<int64_t>(std::floor(place + 0.5)); };
  const auto low = [&](int64_t at) { return std::max<int64_t>(nearest(centre(at) - reach), 0); };
  const auto high = [&](int64_t at) { return std::min(nearest(centre(at) + reach), from); };
  Axis axis;
  for (int64_t at = 0; at < count; ++at) axis.taps = std::max(axis.taps, high(at) - low(at));
  axis.first.resize(static_cast<size_t>(count));
  axis.weights.resize(static_cast<size_t>(count * axis.taps));
  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (int64_t at = 0; at < count; ++at) {
    const int64_t first = low(at), seen = high(at) - first;
    double sum = 0;
    for (int64_t i = 0; i < seen; ++i) {
      const double x = (static_cast<double>(first + i) - centre(at) + 0.5) * (1.0 / stretch);
      sum += exact[i] = filter == Filter::kBilinear ? bilinear(x) : bicubic(x);
    }
    // A window at the far edge begins earlier, with weights of 0, so that all taps lie inside.
    axis.first[at] = std::min(first, from - axis.taps);
    int32_t* weights = axis.weights.data() + at * axis.taps + first - axis.first[at];
    for (int64_t i = 0; i < seen; ++i)
      weights[i] = static_cast<int32_t>(std::round(exact[i] * (1.0 / sum) * (1 << kFraction)));
  }
  return axis;
}

inline uint8_t pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFraction, 0, 255)); }

using Four __attribute__((vector_size(16))) = int32_t;
constexpr int32_t kHalf = 1 << (kFraction - 1);

// One row of `from` pixels, made as wide as the axis says. `wide` is room for a row of four numbers a pixel: then a tap
// is one load, one multiplication and one addition of a vector, which the compiler does not find by itself. kTaps:
// where it is known when this is compiled, else 0.
template <int64_t kTaps>
void across(const uint8_t* row, int64_t from, const Axis& axis, Four* wide, uint8_t* out) {
  for (int64_t x = 0; x < from; ++x) wide[x] = Four{row[3 * x], row[3 * x + 1], row[3 * x + 2], 0};
  for (size_t x = 0; x < axis.first.size(); ++x) {
    const Four* in = wide + axis.first[x];
    const int32_t* weights = axis.of(x);
    Four sum = {kHalf, kHalf, kHalf, kHalf};
    for (int64_t tap = 0; tap < (kTaps > 0 ? kTaps : axis.taps); ++tap) sum += weights[tap] * in[tap];
    for (int c = 0; c < 3; ++c) out[3 * x + c] = pixel(sum[c]);
  }
}

// One row of `count` bytes from as many rows as there are taps.
template <int64_t kTaps>
void down(const uint8_t* const* in, const int32_t* weights, int64_t taps, int64_t count, uint8_t* __restrict out) {
  if constexpr (kTaps > 0) {
    const uint8_t* rows[kTaps];
    int32_t factors[kTaps];
    for (int64_t tap = 0; tap < kTaps; ++tap) rows[tap] = in[tap], factors[tap] = weights[tap];
    for (int64_t i = 0; i < count; ++i) {
      int32_t sum = kHalf;
      for (int64_t tap = 0; tap < kTaps; ++tap) sum += factors[tap] * rows[tap][i];
      out[i] = pixel(sum);
    }
  } else {
    constexpr int64_t kBlock = 64;
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t length = std::min(kBlock, count - begin);
      int32_t sums[kBlock];
      std::fill_n(sums, kBlock, kHalf);
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t i = 0; i < length; ++i) sums[i] += weights[tap] * in[tap][begin + i];
      for (int64_t i = 0; i < length; ++i) out[begin + i] = pixel(sums[i]);
    }
  }
}

// Calls work.operator()<taps>() where `taps` is among those compiled, else with 0.
constexpr int64_t kMostKnownTaps = 12;
template <int64_t kTaps = 1, class Work>
void with_taps(int64_t taps, const Work& work) {
  if constexpr (kTaps <= kMostKnownTaps) {
    if (taps == kTaps) return work.template operator()<kTaps>();
    return with_taps<kTaps + 1>(taps, work);
  } else {
    work.template operator()<0>();
  }
}

}  // namespace

void resize_rows(const Pixels& image, const Resize& how, const RowSink& sink) {
  const Box &box = how.box, &shown = how.shown;
  const auto inside = [](const Box& part, ImageSize whole) {
    return part.left >= 0 && part.top >= 0 && part.width > 0 && part.height > 0 &&
           part.left + part.width <= whole.width && part.top + part.height <= whole.height;
  };
  HYPERION_CHECK(inside(box, image.size) && inside(shown, how.size), "boxes lie inside their images");
  const auto source = [&](int64_t y) { return image.row(box.top + y) + 3 * box.left; };
  const bool wide = box.width != how.size.width, high = box.height != how.size.height;
  const Axis columns = wide ? axis_of(box.width, how.size.width, shown.left, shown.width, how.filter) : Axis{};
  const Axis lines = high ? axis_of(box.height, how.size.height, shown.top, shown.height, how.filter) : Axis{1, {}, {}};
  const int64_t bytes = 3 * shown.width;

  // Rows of their new width, in a ring as long as the tallest window; windows only ever move down.
  std::vector<uint8_t> ring(wide ? static_cast<size_t>(lines.taps * bytes) : 0), made(static_cast<size_t>(bytes));
  std::vector<Four> room(wide ? static_cast<size_t>(box.width) : 0);
  int64_t next = 0;
  const auto row = [&](int64_t y) -> const uint8_t* {
    if (!wide) return source(y) + 3 * shown.left;
    for (; next <= y; ++next)
      with_taps(columns.taps, [&]<int64_t kTaps>() {
        across<kTaps>(source(next), box.width, columns, room.data(), ring.data() + next % lines.taps * bytes);
      });
    return ring.data() + y % lines.taps * bytes;
  };
  std::vector<const uint8_t*> window(static_cast<size_t>(lines.taps));
  for (int64_t y = 0; y < shown.height; ++y) {
    const int64_t first = high ? lines.first[y] : shown.top + y;
    next = std::max(next, first);
    for (int64_t tap = 0; tap < lines.taps; ++tap) window[tap] = row(first + tap);
    if (high)
      with_taps(lines.taps,
                [&]<int64_t kTaps>() { down<kTaps>(window.data(), lines.of(y), lines.taps, bytes, made.data()); });
    sink(y, high ? made.data() : window[0]);
  }
}

Pixels resize(const Pixels& image, const Resize& how) {
  Pixels out({how.shown.height, how.shown.width});
  resize_rows(image, how, [&](int64_t y, const uint8_t* rgb) {
    std::memcpy(out.row(y), rgb, static_cast<size_t>(3 * how.shown.width));
  });
  return out;
}

}  // namespace hyperion::images
