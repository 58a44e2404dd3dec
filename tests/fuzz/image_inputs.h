// Good images of every form, and what to break them with.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/images/image_decode.h"
#include "tests/support/image_files.h"

namespace hyperion::testing {

inline const std::vector<std::string>& good_images() {
  static const std::vector<std::string> list = [] {
    std::mt19937 random(1);
    const images::Pixels image = picture({37, 45}, random);
    std::vector<std::string> files;
    for (const bool progressive : {false, true})
      for (const JpegForm& form : {JpegForm{80, 3, 2, 2}, {80, 3, 1, 1}, {80, 3, 2, 1}, {80, 1, 1, 1}, {80, 4, 1, 1}}) {
        JpegForm each = form;
        each.progressive = progressive, each.restart_rows = files.size() % 2 == 0 ? 1 : 0;
        files.push_back(jpeg_file(image, each));
      }
    for (const bool interlaced : {false, true})
      for (const PngForm& form : {PngForm{3, 8}, {4, 16}, {1, 2}, {2, 8}, {1, 8, true}}) {
        PngForm each = form;
        each.interlaced = interlaced;
        files.push_back(png_file(image, each));
      }
    return files;
  }();
  return list;
}

// JPEG's markers, PNG's chunks, and sizes that are none.
inline const std::vector<std::string>& image_words() {
  using namespace std::string_literals;
  static const std::vector<std::string> list = {"\xff\xd8"s,
                                                "\xff\xd9"s,
                                                "\xff\xda"s,
                                                "\xff\xc0"s,
                                                "\xff\xc2"s,
                                                "\xff\xc4"s,
                                                "\xff\xdb"s,
                                                "\xff\xdd"s,
                                                "\xff\xd0"s,
                                                "\xff\xd7"s,
                                                "\xff\xe1"s,
                                                "\xff\xee"s,
                                                "\xff\xfe"s,
                                                "\xff\xc9"s,
                                                "\xff\0"s,
                                                "\0\0\0\0"s,
                                                "\xff\xff\xff\xff"s,
                                                "\x7f\xff\xff\xff"s,
                                                "\0\1"s,
                                                "\x10\0"s,
                                                "IHDR"s,
                                                "IDAT"s,
                                                "IEND"s,
                                                "PLTE"s,
                                                "tRNS"s,
                                                "iCCP"s,
                                                "zTXt"s,
                                                "gAMA"s,
                                                "\x11\x22\x44"s,
                                                "Adobe"s};
  return list;
}

constexpr int64_t kFuzzPixels = 1 << 18;

// Whether the image was decoded, whole or in the part that `place` picks. A CorruptError means it was not; anything
// else is thrown on.
inline bool reads_image(std::string_view bytes, uint32_t place) {
  try {
    if (place % 2 == 0) {
      images::decode_image(bytes, "x", kFuzzPixels);
      return true;
    }
    const images::ImageSize size = images::image_size(bytes, "x", kFuzzPixels);
    images::Box box;
    box.left = place / 2 % size.width, box.top = place / 64 % size.height;
    box.width = 1 + place / 4096 % (size.width - box.left), box.height = 1 + place / 65536 % (size.height - box.top);
    const images::ImagePart part = images::decode_part(bytes, "x", box, int64_t{1} << (place / 8 % 4), kFuzzPixels);
    const images::Box found = part.find(box);
    HYPERION_CHECK(found.left >= 0 && found.top >= 0 && found.left + found.width <= part.pixels.size.width &&
                       found.top + found.height <= part.pixels.size.height,
                   "the part holds the box");
    return true;
  } catch (const base::CorruptError&) {
    return false;
  }
}

}  // namespace hyperion::testing
