#include "hyperion/data/source.h"

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/images.h"
#include "hyperion/data/sums.h"
#include "hyperion/data/text.h"

namespace hyperion::data {

void describe(base::Settings& settings, DataConfig& config) {
  settings.section("data", "what the model reads")
      .choice("source", config.source, {"sums", "text", "shapes", "cifar"},
              "worked sums made from the seed; a text file, a byte a token; drawn shapes made from the seed; CIFAR's "
              "binary files")
      .text("path", config.path, "the text file, or the folder of CIFAR's files")
      .integer("digits", config.digits, {1, 12}, "longest number of a sum", "digits")
      .integer("sums", config.sums, {1, 1'000'000'000'000}, "training samples of sums an epoch")
      .integer("images", config.images, {1, 1'000'000'000'000}, "training images of shapes an epoch")
      .real("validation", config.validation, {0.0001, 0.5}, "part held out from training");
  describe(settings, config.augment);
}

void check(const DataConfig& config) {
  const bool reads = config.source == "text" || config.source == "cifar";
  if (reads && config.path.empty())
    throw base::ConfigError(base::format("data.source is \"{}\" but data.path is empty", config.source),
                            "name the file or folder: --data.path=PATH");
  if (!reads && !config.path.empty())
    throw base::ConfigError(
        base::format("data.path is set but data.source is \"{}\", which reads no file", config.source),
        "add --data.source=text, or leave data.path out");
  check(config.augment);
  if (varies(config.augment) && config.source != "cifar")
    throw base::ConfigError(base::format("[augment] varies images, and data.source is \"{}\"", config.source),
                            "use data.source = cifar, or leave [augment] out");
}

Split::Split() = default;
Split::Split(Split&&) noexcept = default;
Split& Split::operator=(Split&&) noexcept = default;
Split::~Split() = default;

bool has_images(const DataConfig& config) { return config.source == "shapes" || config.source == "cifar"; }

Split open_data(const DataConfig& config, SampleSize size, uint64_t seed) {
  check(config);
  if (config.source == "shapes") return open_shapes(config, size.side, seed);
  if (config.source == "cifar") return open_cifar(config, seed);
  return config.source == "text" ? open_text(config, size.length) : open_sums(config, size.length, seed);
}

}  // namespace hyperion::data
