#include "hyperion/data/source.h"

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/data/sums.h"
#include "hyperion/data/text.h"

namespace hyperion::data {

void describe(base::Settings& settings, DataConfig& config) {
  settings.section("data", "what the model reads")
      .choice("source", config.source, {"sums", "text"},
              "worked sums made from the seed, or a text file, a byte a token")
      .text("path", config.path, "the text file, when source is text")
      .integer("digits", config.digits, {1, 12}, "longest number of a sum", "digits")
      .integer("sums", config.sums, {1, 1'000'000'000'000}, "training samples of sums an epoch")
      .real("validation", config.validation, {0.0001, 0.5}, "part held out from training");
}

void check(const DataConfig& config) {
  if (config.source == "text" && config.path.empty())
    throw base::ConfigError("data.source is \"text\" but data.path is empty", "name the file: --data.path=FILE");
  if (config.source == "sums" && !config.path.empty())
    throw base::ConfigError("data.path is set but data.source is \"sums\", which reads no file",
                            "add --data.source=text, or leave data.path out");
}

Split open_data(const DataConfig& config, int64_t length, uint64_t seed) {
  check(config);
  return config.source == "text" ? open_text(config, length) : open_sums(config, length, seed);
}

}  // namespace hyperion::data
