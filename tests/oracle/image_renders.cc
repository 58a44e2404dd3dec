// Changes images for image_test.py. Reads lines "OPERATION NUMBER... | IN | OUT" and writes each OUT as height and
// width, 8 bytes each, and the pixels.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "hyperion/base/files.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/images/image_operations.h"
#include "hyperion/images/resample.h"

namespace {

using namespace hyperion::images;
using Numbers = std::vector<double>;

Box box_of(const Numbers& n) {
  return {static_cast<int64_t>(n[0]), static_cast<int64_t>(n[1]), static_cast<int64_t>(n[2]),
          static_cast<int64_t>(n[3])};
}

Pixels resized(const Pixels& image, const Numbers& n, Filter filter) {
  return resize(image, {box_of(n), {static_cast<int64_t>(n[5]), static_cast<int64_t>(n[4])}, filter});
}

const std::map<std::string, void (*)(Pixels&, const Numbers&)>& operations() {
  static const std::map<std::string, void (*)(Pixels&, const Numbers&)> list = {
      {"decode", [](Pixels&, const Numbers&) {}},
      {"bilinear", [](Pixels& image, const Numbers& n) { image = resized(image, n, Filter::kBilinear); }},
      {"bicubic", [](Pixels& image, const Numbers& n) { image = resized(image, n, Filter::kBicubic); }},
      {"brighten", [](Pixels& image, const Numbers& n) { brighten(image, n[0]); }},
      {"contrast", [](Pixels& image, const Numbers& n) { contrast(image, n[0]); }},
      {"saturate", [](Pixels& image, const Numbers& n) { saturate(image, n[0]); }},
      {"sharpen", [](Pixels& image, const Numbers& n) { sharpen(image, n[0]); }},
      {"turn_hue", [](Pixels& image, const Numbers& n) { turn_hue(image, n[0]); }},
      {"posterize", [](Pixels& image, const Numbers& n) { posterize(image, static_cast<int>(n[0])); }},
      {"solarize", [](Pixels& image, const Numbers& n) { solarize(image, n[0]); }},
      {"stretch_contrast", [](Pixels& image, const Numbers&) { stretch_contrast(image); }},
      {"equalize", [](Pixels& image, const Numbers&) { equalize(image); }},
      {"shear_across", [](Pixels& image, const Numbers& n) { shear_across(image, n[0]); }},
      {"shear_down", [](Pixels& image, const Numbers& n) { shear_down(image, n[0]); }},
      {"shift",
       [](Pixels& image, const Numbers& n) { shift(image, static_cast<int64_t>(n[0]), static_cast<int64_t>(n[1])); }},
      {"rotate", [](Pixels& image, const Numbers& n) { rotate(image, n[0]); }},
      {"mirror", [](Pixels& image, const Numbers&) { mirror(image); }},
  };
  return list;
}

}  // namespace

int main() {
  for (std::string what, in, out;
       std::getline(std::cin, what, '|') && std::getline(std::cin, in, '|') && std::getline(std::cin, out);) {
    std::istringstream words(what);
    std::string name;
    Numbers numbers;
    words >> name;
    for (double number = 0; words >> number;) numbers.push_back(number);
    Pixels image = decode_image(hyperion::base::real_files().read(in), in);
    operations().at(name)(image, numbers);
    std::ofstream file(out, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&image.size.height), 8);
    file.write(reinterpret_cast<const char*>(&image.size.width), 8);
    file.write(reinterpret_cast<const char*>(image.rgb.data()), static_cast<std::streamsize>(image.rgb.size()));
  }
}
