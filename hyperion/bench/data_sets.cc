#include "hyperion/bench/data_sets.h"

#include <algorithm>
#include <vector>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/prepared.h"
#include "hyperion/data/set_file.h"
#include "hyperion/data/token_set.h"
#include "hyperion/train/feed.h"

namespace hyperion::bench {

using base::format;

SetResult run_set_bench(const std::string& folder, int64_t threads, double seconds) {
  SetResult result;
  result.folder = folder, result.threads = static_cast<int>(threads);
  train::RunConfig config;
  config.data.source = data::SourceKind::prepared, config.data.path = {folder}, config.data.threads = threads;
  strategy::ModelShape shape;
  shape.image = 224;  // small images are taken as they are
  if (const base::Path train = base::Path(folder) / data::kTrainSet; data::SetFile(train).kind() == data::kImages) {
    if (const data::ImageSet set(train); set.images() > 0)
      shape.image = std::min({shape.image, set.size(0).height, set.size(0).width});
  } else {
    for (const char* name : {data::kTrainSet, data::kValidationSet})
      for (const data::TokenSet set(base::Path(folder) / name); result.length > 1 && set.tokens() <= result.length;)
        result.length /= 2;
  }
  config.train.length = result.length, config.train.batch = 32;
  const base::Clock& clock = base::real_clock();
  std::vector<double> opened;
  for (int i = 0; i < 5; ++i) {
    const double begun = clock.seconds();
    train::open_split(config, shape);
    opened.push_back((clock.seconds() - begun) * 1e3);
  }
  std::sort(opened.begin(), opened.end());
  result.open_ms = opened[opened.size() / 2];
  for (const char* name : {data::kTrainSet, data::kValidationSet}) {
    const data::SetFile set(base::Path(folder) / name);
    result.bytes += set.bytes(), result.images = set.kind() == data::kImages;
  }
  if (result.images) {
    result.length = shape.image;
    config.data.augment.crop = shape.image < 224 ? images::Crop::padded : images::Crop::resized,
    config.data.augment.flip = true;
  }
  const data::Split split = train::open_split(config, shape);
  train::Feed feed(split, config, {});
  for (int i = 0; i < 4; ++i) feed.next();  // what was read ahead before the clock runs
  const double begun = clock.seconds();
  int64_t samples = 0;
  while (clock.seconds() - begun < seconds) {
    base::throw_if_stopped("measuring");
    samples += feed.next().rows();
  }
  result.samples_per_s = static_cast<double>(samples) / (clock.seconds() - begun);
  return result;
}

std::string set_bench_text(const SetResult& result) {
  const std::string rate = result.images
                               ? format("{:.0f} images/s of {} pixels a side, cut at random, mirrored, normalised",
                                        result.samples_per_s, result.length)
                               : format("{} samples/s of {} tokens, {:.1f} million tokens/s",
                                        base::with_commas(static_cast<int64_t>(result.samples_per_s)), result.length,
                                        result.samples_per_s * static_cast<double>(result.length) / 1e6);
  return format("{} ({}): opened in {:.2f} ms; batches of 32: {}; {}", result.folder, base::bytes_text(result.bytes),
                result.open_ms, rate,
                result.threads == 0 ? "threads as training takes them" : format("{} threads", result.threads));
}

}  // namespace hyperion::bench
