#include "hyperion/models/image_classes.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::models {

using base::format;
using base::Json;

ImageClasses read_classes(const ConfigReader& reader) {
  reader.expect("problem_type", {"single_label_classification"});
  ImageClasses classes;
  classes.count = reader.size_or("num_labels", 2, kMostVocabulary);
  if (const Json* labels = reader.object("id2label"); labels != nullptr) {
    const auto count = static_cast<int64_t>(labels->size());
    reader.check(reader.size_or("num_labels", count, kMostVocabulary) == count, "num_labels is not id2label's number");
    reader.check(count <= kMostVocabulary, format("id2label has {} classes, too many", count));
    for (int64_t i = 0; i < count; ++i) {
      const auto found = labels->find(std::to_string(i));
      reader.check(found != labels->end() && found->is_string(), format("id2label names no class {}", i));
      classes.names.push_back(found->get<std::string>());
    }
    classes.count = count;
  }
  reader.check(classes.count > 1, "fewer than two classes are no classification");
  return classes;
}

void write_classes(Json& json, int64_t count, const std::vector<std::string>& names) {
  if (!names.empty() && static_cast<int64_t>(names.size()) != count)
    throw base::ConfigError(format("{} names for {} classes", names.size(), count), "name every class, or none");
  Json to_name = Json::object(), to_class = Json::object();
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = names.empty() ? format("LABEL_{}", i) : names[static_cast<size_t>(i)];
    to_name[std::to_string(i)] = name;
    to_class[name] = i;
  }
  json["id2label"] = std::move(to_name);
  json["label2id"] = std::move(to_class);
}

void check_images(const at::Tensor& images, int64_t channels, int64_t height, int64_t width) {
  if (images.dim() != 4)
    throw base::ConfigError(format("the images have {} dimensions", images.dim()),
                            "give them as [batch, channels, height, width]");
  if (images.size(1) != channels)
    throw base::ConfigError(format("the images have {} channels, and the model takes {}", images.size(1), channels));
  if (images.size(2) < height || images.size(3) < width)
    throw base::ConfigError(
        format("images of {} x {} pixels are smaller than {} x {}", images.size(2), images.size(3), height, width),
        "the model needs at least that");
}

}  // namespace hyperion::models
