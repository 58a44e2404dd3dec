#include "tests/support/image_files.h"

#include <cstddef>
#include <cstdio>
// jpeglib.h needs both of those before it.
#include <jpeglib.h>
#include <png.h>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace hyperion::testing {

using images::ImageSize;
using images::Pixels;

Pixels picture(ImageSize size, std::mt19937& random) {
  Pixels image(size);
  std::uniform_real_distribution<double> unit(0, 1);
  double wave[3][3];
  for (auto& channel : wave)
    for (double& value : channel) value = unit(random) * 6;
  const double disc_x = unit(random), disc_y = unit(random);
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x) {
      const double u = static_cast<double>(x) / static_cast<double>(size.width),
                   v = static_cast<double>(y) / static_cast<double>(size.height);
      const bool inside = std::hypot(u - disc_x, v - disc_y) < 0.2;
      for (int c = 0; c < 3; ++c) {
        const double smooth = 128 + 90 * std::sin(wave[c][0] + wave[c][1] * u) * std::cos(wave[c][2] * v);
        image.row(y)[3 * x + c] = static_cast<uint8_t>((inside ? 255 - smooth : smooth) + unit(random) * 12);
      }
    }
  return image;
}

std::string jpeg_file(const Pixels& image, const JpegForm& form) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // ends the program on an error
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.input_components = form.channels;
  info.in_color_space = form.channels == 1 ? JCS_GRAYSCALE : form.channels == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  if (form.channels == 3) info.comp_info[0].h_samp_factor = form.across, info.comp_info[0].v_samp_factor = form.down;
  if (form.progressive) jpeg_simple_progression(&info);
  info.restart_in_rows = form.restart_rows;
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> line(static_cast<size_t>(image.size.width) * form.channels);
  for (int64_t y = 0; y < image.size.height; ++y) {
    for (int64_t x = 0; x < image.size.width; ++x)
      for (int c = 0; c < form.channels; ++c) line[x * form.channels + c] = c < 3 ? image.row(y)[3 * x + c] : 255;
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), count);
  std::free(bytes);
  return file;
}

std::string png_file(const Pixels& image, const PngForm& form) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, png_size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  const int types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.size.width), static_cast<png_uint_32>(image.size.height),
               form.bits, form.palette ? PNG_COLOR_TYPE_PALETTE : types[form.channels - 1],
               form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colors(256);
  for (int i = 0; i < 256; ++i) colors[i].red = colors[i].green = colors[i].blue = static_cast<png_byte>(i);
  if (form.palette) png_set_PLTE(png, info, colors.data(), 256);
  const int channels = form.palette ? 1 : form.channels;
  const bool alpha = channels == 2 || channels == 4;
  std::vector<std::vector<uint8_t>> rows;
  std::vector<png_bytep> pointers;
  for (int64_t y = 0; y < image.size.height; ++y) {
    auto& row = rows.emplace_back();
    for (int64_t x = 0; x < image.size.width; ++x)
      for (int c = 0; c < channels; ++c) {
        const uint8_t value = alpha && c == channels - 1 ? static_cast<uint8_t>(x * 7) : image.row(y)[3 * x + c];
        const auto place = static_cast<size_t>(x) * form.bits;
        if (form.bits < 8) {
          row.resize(place / 8 + 1);
          row[place / 8] |= static_cast<uint8_t>(value >> (8 - form.bits) << (8 - form.bits - place % 8));
        } else {
          row.insert(row.end(), form.bits / 8, value);
        }
      }
  }
  for (auto& row : rows) pointers.push_back(row.data());
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace hyperion::testing
