#include "hyperion/data/source.h"

#include <charconv>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/image_source.h"

namespace hyperion::data {
namespace {

void check_weights(const DataConfig& config) {
  if (config.weights.empty()) return;
  if (config.weights.size() != config.path.size())
    throw base::ConfigError(base::format("data.weights has {} numbers for {} folders of data.path",
                                         config.weights.size(), config.path.size()),
                            "give one for each, in their order");
  weights_of(config);
}

}  // namespace

void describe(base::Settings& settings, DataConfig& config) {
  settings.section("data", "what the model reads")
      .choice("source", config.source,
              "worked sums made from the seed; a text file, a byte a token; folders that `hyperion data prepare` made; "
              "drawn shapes made from the seed; CIFAR's binary files; a folder of JPEG and PNG files")
      .list("path", config.path,
            "the text file, the prepared folder or folders, or the folder of CIFAR's files or of images")
      .list("weights", config.weights, "how often each of several prepared folders is read; empty: by their sizes")
      .choice(
          "packing", config.packing,
          "of prepared documents: one stream cut every train.length tokens; whole documents side by side, fitted by "
          "their lengths; one a sample")
      .choice("too_long", config.too_long,
              "documents longer than train.length, where data.packing is whole or single: go on in samples of their "
              "own; lose what is beyond; are left out")
      .flag("reset", config.reset, "attention and positions restart at each document of a sample")
      .integer("digits", config.digits, {1, 12}, "longest number of a sum", "digits")
      .integer("sums", config.sums, {1, 1'000'000'000'000}, "training samples of sums an epoch")
      .integer("images", config.images, {1, 1'000'000'000'000}, "training images of shapes an epoch")
      .integer("limit", config.limit, {0, 1'000'000'000'000}, "training samples an epoch, the first of them; 0: all")
      .integer("threads", config.threads, {0, 4096}, "that read samples ahead; 0: as many as the data is worth")
      .real("validation", config.validation, {0.0001, 0.5}, "part held out from training");
  describe(settings, config.augment);
}

void check(const DataConfig& config) {
  const bool reads = config.source == SourceKind::text || config.source == SourceKind::cifar ||
                     config.source == SourceKind::prepared || config.source == SourceKind::images;
  const auto shown = [&](const char* what) {
    return base::format("{} is set but data.source is \"{}\"", what, base::word_of(config.source));
  };
  if (reads && config.path.empty())
    throw base::ConfigError(base::format("data.source is \"{}\" but data.path is empty", base::word_of(config.source)),
                            "name the file or folder: --data.path=PATH");
  if (!reads && !config.path.empty())
    throw base::ConfigError(shown("data.path") + ", which reads no file",
                            "add --data.source=text, or leave data.path out");
  check(config.augment);
  if (varies(config.augment) && (!reads || config.source == SourceKind::text))
    throw base::ConfigError(
        base::format("[augment] varies images, and data.source is \"{}\"", base::word_of(config.source)),
        "use data.source = images, cifar or prepared, or leave [augment] out");
  if (config.too_long != TooLong::split && config.source == SourceKind::prepared && config.packing == Packing::stream)
    throw base::ConfigError(
        base::format(
            "data.too_long = \"{}\" is of documents that stand alone, and data.packing = \"stream\" joins them",
            base::word_of(config.too_long)),
        "use data.packing = whole or single, or leave data.too_long out");
  if (config.source == SourceKind::prepared) return check_weights(config);
  if (config.path.size() > 1)
    throw base::ConfigError(base::format("data.path names {} places, and data.source = \"{}\" reads one",
                                         config.path.size(), base::word_of(config.source)),
                            "prepare each with `hyperion data prepare`, then use data.source = prepared");
  for (const auto& [is_set, what] : {std::pair(!config.weights.empty(), "data.weights"),
                                     {config.packing != Packing::stream, "data.packing"},
                                     {config.too_long != TooLong::split, "data.too_long"},
                                     {config.reset, "data.reset"}})
    if (is_set)
      throw base::ConfigError(shown(what) + ", whose samples have no documents",
                              base::format("leave {} out, or use data.source = prepared", what));
}

Split::Split() = default;
Split::Split(Split&&) noexcept = default;
Split& Split::operator=(Split&&) noexcept = default;
Split::~Split() = default;

bool Split::is_of(const std::string& digest_of_checkpoint) const {
  return digest_of_checkpoint == digest || (!older_digest.empty() && digest_of_checkpoint == older_digest);
}

void Split::check_fitted(const std::string& digest_of_checkpoint) const {
  if (!digest.ends_with(kFitted) || digest_of_checkpoint.ends_with(kFitted)) return;
  throw base::ConfigError(
      "this run was begun by a version that put documents into rows in their order; with data.packing = \"whole\" they "
      "are fitted by their lengths now, and its samples would be others",
      "go on with that version; or begin a new run from this one's weights: model.from = RUN");
}

std::vector<double> weights_of(const DataConfig& config) {
  std::vector<double> weights;
  for (const auto& text : config.weights) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value > 0) || !(value < 1e9))
      throw base::ConfigError(base::format("data.weights has \"{}\", which is no number above 0", text),
                              "for example data.weights = [0.7, 0.3]");
    weights.push_back(value);
  }
  return weights;
}

Order Split::order(uint64_t seed) const {
  if (!sets.empty() && limit == 0) return {sets, weights, seed};
  const int64_t all = train ? train->samples() : train_images->samples();
  return {{limit > 0 ? std::min(limit, all) : all}, {}, seed};
}

}  // namespace hyperion::data
