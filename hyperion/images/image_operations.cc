#include "hyperion/images/image_operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace hyperion::images {
namespace {

using Table = std::array<uint8_t, 256>;

uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// From `flat` (factor 0) over the value itself (factor 1) and beyond, cut off to whole levels.
uint8_t blend(int flat, int value, float factor) {
  const float mixed = static_cast<float>(flat) + factor * static_cast<float>(value - flat);
  return static_cast<uint8_t>(std::clamp(mixed, 0.0f, 255.0f));
}

void apply(Pixels& image, const std::array<Table, 3>& tables) {
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = tables[i % 3][image.rgb[i]];
}

template <class Map>
void apply_to_all(Pixels& image, Map map) {
  Table table;
  for (int value = 0; value < 256; ++value) table[value] = map(value);
  apply(image, {table, table, table});
}

// One table a channel, from its histogram.
template <class Map>
void apply_by_histogram(Pixels& image, Map table_of) {
  std::array<std::array<int64_t, 256>, 3> counts{};
  for (size_t i = 0; i < image.rgb.size(); ++i) ++counts[i % 3][image.rgb[i]];
  apply(image, {table_of(counts[0]), table_of(counts[1]), table_of(counts[2])});
}

Table unchanged() {
  Table table;
  for (int value = 0; value < 256; ++value) table[value] = static_cast<uint8_t>(value);
  return table;
}

struct Hsv {
  uint8_t hue, saturation, value;
};

Hsv to_hsv(const uint8_t* rgb) {
  const int high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, static_cast<uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const float red = static_cast<float>(high - rgb[0]) / range, green = static_cast<float>(high - rgb[1]) / range,
              blue = static_cast<float>(high - rgb[2]) / range;
  // Rounded to float where Pillow does, so that none falls to the other side of a level.
  const auto sixths = static_cast<float>(rgb[0] == high   ? double{blue - green}
                                         : rgb[1] == high ? 2.0 + red - blue
                                                          : 4.0 + green - red);
  const auto hue = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(high);
  return {static_cast<uint8_t>(hue * 255.0), static_cast<uint8_t>(saturation * 255.0), static_cast<uint8_t>(high)};
}

void to_rgb(const Hsv& hsv, uint8_t* rgb) {
  const float sixths = static_cast<float>(hsv.hue) * 6.0f / 255.0f,
              saturation = static_cast<float>(hsv.saturation) / 255.0f;
  const float whole = std::floor(sixths), part = sixths - whole;
  const auto level = [&](float less) {
    return static_cast<uint8_t>(std::round(hsv.value * (1.0f - saturation * less)));
  };
  const uint8_t v = hsv.value, p = level(1), q = level(part), t = level(1 - part);
  const std::array<std::array<uint8_t, 3>, 6> sectors = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(sectors[static_cast<size_t>(whole) % 6].begin(), 3, rgb);
}

// Where the pixel at (x, y) comes from: (a x + b y + c, d x + e y + f), between pixel centres.
struct Affine {
  double a, b, c, d, e, f;
};

void transform(Pixels& image, const Affine& from) {
  const Pixels before = image;
  const auto [height, width] = image.size;
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536 + 0.5)); };
  const int64_t right_x = fixed(from.a), right_y = fixed(from.d), down_x = fixed(from.b), down_y = fixed(from.e);
  const int64_t begin_x = fixed(from.c + from.a * 0.5 + from.b * 0.5),
                begin_y = fixed(from.f + from.d * 0.5 + from.e * 0.5);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t column = (begin_x + x * right_x + y * down_x) >> 16,
                    line = (begin_y + x * right_y + y * down_y) >> 16;
      uint8_t* out = image.row(y) + 3 * x;
      if (column >= 0 && column < width && line >= 0 && line < height)
        std::copy_n(before.row(line) + 3 * column, 3, out);
      else
        std::fill_n(out, 3, uint8_t{0});
    }
}

}  // namespace

void brighten(Pixels& image, double factor) {
  apply_to_all(image, [&](int value) { return blend(0, value, static_cast<float>(factor)); });
}

void contrast(Pixels& image, double factor) {
  int64_t sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += luma(&image.rgb[i]);
  const auto mean = static_cast<int>(std::lround(static_cast<double>(sum) / static_cast<double>(image.size.pixels())));
  apply_to_all(image, [&](int value) { return blend(mean, value, static_cast<float>(factor)); });
}

void saturate(Pixels& image, double factor) {
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    const int grey = luma(&image.rgb[i]);
    for (size_t c = 0; c < 3; ++c) image.rgb[i + c] = blend(grey, image.rgb[i + c], static_cast<float>(factor));
  }
}

void sharpen(Pixels& image, double factor) {
  const Pixels before = image;
  for (int64_t y = 1; y + 1 < image.size.height; ++y)
    for (int64_t i = 3; i + 3 < 3 * image.size.width; ++i) {
      int sum = 4 * before.row(y)[i];  // its own weight is 5
      for (int64_t line = y - 1; line <= y + 1; ++line)
        for (int64_t side = i - 3; side <= i + 3; side += 3) sum += before.row(line)[side];
      image.row(y)[i] = blend((2 * sum + 13) / 26, before.row(y)[i], static_cast<float>(factor));
    }
}

void turn_hue(Pixels& image, double turns) {
  const int shift = static_cast<int>(turns * 255);
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    Hsv hsv = to_hsv(&image.rgb[i]);
    hsv.hue = static_cast<uint8_t>(hsv.hue + shift);
    to_rgb(hsv, &image.rgb[i]);
  }
}

void posterize(Pixels& image, int bits) {
  apply_to_all(image, [&](int value) { return static_cast<uint8_t>(value & ~((1 << (8 - bits)) - 1)); });
}

void solarize(Pixels& image, double threshold) {
  apply_to_all(image, [&](int value) { return static_cast<uint8_t>(value < threshold ? value : 255 - value); });
}

void stretch_contrast(Pixels& image) {
  apply_by_histogram(image, [](const std::array<int64_t, 256>& counts) {
    int low = 0, high = 255;
    while (low < 255 && counts[low] == 0) ++low;
    while (high > 0 && counts[high] == 0) --high;
    Table table = unchanged();
    if (high <= low) return table;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int value = 0; value < 256; ++value)
      table[value] = static_cast<uint8_t>(std::clamp(value * scale + offset, 0.0, 255.0));
    return table;
  });
}

void equalize(Pixels& image) {
  apply_by_histogram(image, [&](const std::array<int64_t, 256>& counts) {
    int last = 255;
    while (last > 0 && counts[last] == 0) --last;
    const int64_t step = (image.size.pixels() - counts[last]) / 255;
    Table table = unchanged();
    if (step == 0) return table;
    int64_t below = step / 2;
    for (int value = 0; value < 256; ++value) {
      table[value] = static_cast<uint8_t>(std::min<int64_t>(below / step, 255));
      below += counts[value];
    }
    return table;
  });
}

void shear_across(Pixels& image, double slope) { transform(image, {1, slope, 0, 0, 1, 0}); }
void shear_down(Pixels& image, double slope) { transform(image, {1, 0, 0, slope, 1, 0}); }
void shift(Pixels& image, int64_t right, int64_t down) {
  transform(image, {1, 0, -static_cast<double>(right), 0, 1, -static_cast<double>(down)});
}

void rotate(Pixels& image, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(image.size.width) / 2, y = static_cast<double>(image.size.height) / 2;
  transform(image, {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y});
}

void mirror(Pixels& image) {
  for (int64_t y = 0; y < image.size.height; ++y) {
    uint8_t* row = image.row(y);
    for (int64_t left = 0, right = image.size.width - 1; left < right; ++left, --right)
      std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
  }
}

}  // namespace hyperion::images
