#include "hyperion/data/open_data.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/images.h"
#include "hyperion/data/prepared.h"
#include "hyperion/data/sums.h"
#include "hyperion/data/text.h"

namespace hyperion::data {
namespace {

Split open_all_data(const DataConfig& config, SampleSize size, uint64_t seed) {
  switch (config.source) {
    case SourceKind::sums:
      return open_sums(config, size.length, seed);
    case SourceKind::text:
      return open_text(config, size.length);
    case SourceKind::prepared:
      return open_prepared(config, size, seed);
    case SourceKind::shapes:
      return open_shapes(config, size.side, seed);
    case SourceKind::cifar:
      return open_cifar(config, size.side, seed);
    case SourceKind::images:
      return open_image_files(config, size.side, seed);
  }
  return {};
}

}  // namespace

Split open_data(const DataConfig& config, SampleSize size, uint64_t seed) {
  check(config);
  Split split = open_all_data(config, size, seed);
  if (config.limit > 0 && split.sets.size() > 1)
    throw base::ConfigError(
        base::format("data.limit = {} is of one set, and there are {}", config.limit, split.sets.size()),
        "prepare fewer documents, or leave it out");
  split.limit = config.limit;
  return split;
}

}  // namespace hyperion::data
