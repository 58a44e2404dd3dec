#include "hyperion/images/image_processing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/printable.h"
#include "hyperion/images/image_decode.h"

namespace hyperion::images {
namespace {

constexpr int kPillowBilinear = 2, kPillowBicubic = 3;
constexpr int64_t kConvNextWarps = 384;  // from this size on the whole image is made to fit

// The decimal number that was meant: 0.485, not what a float makes of it.
base::Json decimals(const std::array<float, 3>& values) {
  base::Json list = base::Json::array();
  for (const float value : values) {
    const std::string digits = base::format("{}", value);
    double decimal = value;
    std::from_chars(digits.data(), digits.data() + digits.size(), decimal);
    list.push_back(decimal);
  }
  return list;
}

constexpr int64_t kMostShorter = 1 << 16;  // of an image before its middle is cut out: only that is made

class ProcessorFields {
 public:
  ProcessorFields(const base::Json& json, const std::string& place) : json_(json), place_(place) {
    if (!json.is_object()) refuse("is not an object");
  }
  bool flag(const char* key, bool absent) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return absent;
    if (!found->is_boolean()) refuse(base::format("{} is neither true nor false", key));
    return found->get<bool>();
  }
  const base::Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  // Of the field `name`, which is a number or has parts: {"height": 224, "width": 224} or the like.
  int64_t side(const char* name, const char* part, int64_t most = kMostImageSide) const {
    const base::Json& owner = json_.at(name);
    const bool has_part = owner.is_object() && owner.contains(part);
    const base::Json& value = has_part ? owner.at(part) : owner;
    if (!value.is_number_integer() || value < 1 || value > most)
      refuse(base::format("{}{} is {}, and the side of an image is 1 to {} pixels", name,
                          has_part ? base::format(".{}", part) : "",
                          value.is_number() ? value.dump() : "no such number", most));
    return value.get<int64_t>();
  }
  int64_t square(const char* name) const {
    const int64_t height = side(name, "height");
    if (json_.at(name).is_object() && side(name, "width") != height)
      refuse("images that are not square are not known here");
    return height;
  }
  std::array<float, 3> three(const char* key, const std::array<float, 3>& absent) const {
    const base::Json* list = find(key);
    if (list == nullptr) return absent;
    std::array<float, 3> values{};
    if (!list->is_array() || list->size() != 3) refuse(base::format("{} is not a list of three", key));
    for (size_t i = 0; i < 3; ++i) {
      if (!(*list)[i].is_number()) refuse(base::format("{} holds something else than numbers", key));
      const auto value = (*list)[i].get<double>();
      if (!(std::abs(value) <= kMostShift))
        refuse(base::format("{} holds {}, which is not in -{} to {}", key, value, kMostShift, kMostShift));
      values[i] = static_cast<float>(value);
    }
    return values;
  }
  std::string text(const char* key) const {
    const base::Json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  // Older files name a feature extractor, and may name nothing.
  std::string type() const {
    const std::string type = text("image_processor_type");
    return type.empty() ? text("feature_extractor_type") : type;
  }
  // Resizes by crop_pct, as the processors of ResNets do.
  bool is_convnext() const { return type().empty() ? find("crop_pct") != nullptr : type().starts_with("ConvNext"); }
  // Others may read the same fields otherwise.
  void check_type() const {
    const std::string type = this->type();
    if (!type.empty() && !type.starts_with("ViT") && !type.starts_with("CLIP") && !type.starts_with("ConvNext"))
      refuse(base::format("a {} is not known here", base::printable(type)));
  }
  double part(const char* key, double absent) const {
    const base::Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_number() || !(value->get<double>() > 0 && value->get<double>() <= 1))
      refuse(base::format("{} is not a part in 0 to 1", key));
    return value->get<double>();
  }
  // Of an image whose middle is seen.
  int64_t shorter_side(int64_t side, double part) const {
    const double shorter = static_cast<double>(side) / part;
    if (!(shorter <= kMostShorter)) refuse(base::format("crop_pct makes images of more than {} pixels", kMostShorter));
    return static_cast<int64_t>(shorter);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::CorruptError(base::format("{}: {}", place_, what),
                             "mend the file: it is read as those of transformers' ViT, CLIP and ConvNext are");
  }

 private:
  const base::Json& json_;
  const std::string& place_;
};

// As ConvNextImageProcessor: a small image is cut out of one that is larger by crop_pct, a large one is made to fit.
void read_convnext(const ProcessorFields& fields, const base::Json* size, ImageProcessing& processing) {
  if (size != nullptr && size->is_object() && !size->contains("shortest_edge"))
    fields.refuse("size has no shortest_edge");
  processing.side = size == nullptr ? kConvNextWarps : fields.side("size", "shortest_edge");
  if (fields.flag("do_center_crop", false)) fields.refuse("do_center_crop beside crop_pct is not known here");
  const double part = fields.part("crop_pct", 224.0 / 256.0);
  if (processing.side < kConvNextWarps) processing.shorter = fields.shorter_side(processing.side, part);
  processing.bicubic = true;
}

}  // namespace

ImageProcessing parse_processor(const std::string& text, const std::string& place) {
  const base::Json json = base::parse_json(text, place);
  const ProcessorFields fields(json, place);
  ImageProcessing processing;
  fields.check_type();
  if (!fields.flag("do_resize", true)) fields.refuse("do_resize = false is not known here");
  const base::Json* size = fields.find("size");
  if (fields.is_convnext()) {
    read_convnext(fields, size, processing);
  } else if (size == nullptr) {
    fields.refuse("it has no size");
  } else if (size->is_object() && size->contains("shortest_edge")) {
    if (!fields.flag("do_center_crop", false))
      fields.refuse(
          "a shortest_edge without do_center_crop makes images that are not square, which are not known here");
    if (fields.find("crop_size") == nullptr) fields.refuse("it has no crop_size");
    processing.side = fields.square("crop_size");
    processing.shorter = fields.side("size", "shortest_edge", kMostShorter);
    if (processing.side > processing.shorter) fields.refuse("crop_size is larger than the image is made");
  } else {
    processing.side = fields.square("size");
    if (fields.flag("do_center_crop", false)) fields.refuse("do_center_crop without a shortest_edge is not known here");
  }
  if (const base::Json* filter = fields.find("resample"); filter != nullptr) {
    if (*filter != kPillowBilinear && *filter != kPillowBicubic)
      fields.refuse("resample is neither bilinear (2) nor bicubic (3)");
    processing.bicubic = *filter == kPillowBicubic;
  }
  if (!fields.flag("do_rescale", true)) fields.refuse("do_rescale = false is not known here");
  if (const base::Json* factor = fields.find("rescale_factor");
      factor != nullptr && (!factor->is_number() || std::abs(factor->get<double>() * 255 - 1) > 1e-3))
    fields.refuse("rescale_factor is not 1 / 255");
  processing.normalisation = kUnchanged;
  if (fields.flag("do_normalize", true))
    processing.normalisation = {fields.three("image_mean", kHalf.mean), fields.three("image_std", kHalf.deviation)};
  for (const float deviation : processing.normalisation.deviation)
    if (!(deviation > 0)) fields.refuse("image_std is not above 0");
  return processing;
}

void process_image(const ImageProcessing& processing, std::string_view bytes, const std::string& name,
                   std::span<float> out) {
  const int64_t side = processing.side;
  HYPERION_CHECK(static_cast<int64_t>(out.size()) == 3 * side * side, "there is room for the image");
  const Pixels image = decode_image(bytes, name);
  const Resize how = resize_for(processing, image.size);
  const auto &mean = processing.normalisation.mean, &deviation = processing.normalisation.deviation;
  resize_rows(image, how, [&](int64_t y, const uint8_t* rgb) {
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t x = 0; x < side; ++x)
        out[(c * side + y) * side + x] = (static_cast<float>(rgb[3 * x + c]) / 255.0f - mean[c]) / deviation[c];
  });
}

Resize resize_for(const ImageProcessing& processing, ImageSize whole) {
  const int64_t side = processing.side;
  Resize how{
      {0, 0, whole.width, whole.height}, {side, side}, processing.bicubic ? Filter::kBicubic : Filter::kBilinear};
  if (processing.shorter == 0) return how;
  const int64_t shorter = std::min(whole.height, whole.width);
  how.size = {whole.height * processing.shorter / shorter, whole.width * processing.shorter / shorter};
  how.shown = {(how.size.width - side) / 2, (how.size.height - side) / 2, side, side};
  return how;
}

std::string processor_json(const ImageProcessing& processing) {
  const base::Json json = {{"image_processor_type", "CLIPImageProcessor"},  // the class that resizes and cuts like this
                           {"do_convert_rgb", true},
                           {"do_resize", true},
                           {"size", {{"shortest_edge", processing.shorter}}},
                           {"resample", processing.bicubic ? kPillowBicubic : kPillowBilinear},
                           {"do_center_crop", true},
                           {"crop_size", {{"height", processing.side}, {"width", processing.side}}},
                           {"do_rescale", true},
                           {"rescale_factor", 1.0 / 255.0},
                           {"do_normalize", true},
                           {"image_mean", decimals(processing.normalisation.mean)},
                           {"image_std", decimals(processing.normalisation.deviation)}};
  return json.dump(2) + "\n";
}

}  // namespace hyperion::images
