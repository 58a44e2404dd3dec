#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/meter.h"
#include "hyperion/command/recipe_paths.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/usage.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/inspect.h"
#include "hyperion/data/prepare.h"
#include "hyperion/data/prepared.h"
#include "hyperion/hub/cache.h"
#include "hyperion/interop/text.h"
#include "hyperion/records/input_files.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::cli {
namespace {

using base::format;
using base::Json;

void print(const std::string& text) { std::printf("%s\n", text.c_str()); }

struct SetFolder {
  base::Path path;
  Json record;
  std::unique_ptr<const tokenizers::Tokenizer> tokenizer;  // null: bytes, or images

  bool images() const { return record.value("kind", "") == "images"; }
};

SetFolder open_set(const std::string& folder) {
  auto& files = base::real_files();
  SetFolder set{folder, data::read_set_record(files, folder), nullptr};
  data::check_set_files(files, folder);
  const base::Path tokenizer = set.path / data::kSetTokenizer;
  if (files.exists(tokenizer)) set.tokenizer = tokenizers::open_tokenizer(tokenizer);
  return set;
}

// What a terminal should not have to obey, or cannot show, escaped; line ends shown as such.
std::string shown_text(const std::string& text) {
  const bool is_text = interop::valid_utf8(text) == text;
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f || (!is_text && static_cast<unsigned char>(c) > 0x7f))
      out += format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

std::string bar(int64_t value, int64_t most, int width) {
  const auto filled = most > 0 ? (value * width + most - 1) / most : 0;
  std::string out;
  for (int64_t i = 0; i < filled; ++i) out += "█";
  return out;
}

Json figures_json(const data::TokenFigures& figures) {
  Json json = {{"documents", figures.documents}, {"tokens", figures.tokens},           {"learned", figures.learned},
               {"shortest", figures.shortest},   {"median", figures.median},           {"mean", figures.mean},
               {"longest", figures.longest},     {"distinct_tokens", figures.distinct}};
  for (const auto& bar : figures.lengths) json["lengths"].push_back({bar.from, bar.to, bar.documents});
  for (const auto& count : figures.frequent) json["frequent"].push_back({count.token, count.times});
  return json;
}

std::string token_text(const SetFolder& set, tokenizers::TokenId token) {
  return "\"" +
         shown_text(set.tokenizer ? set.tokenizer->decode({{token}}) : std::string(1, static_cast<char>(token))) + "\"";
}

void print_figures(const SetFolder& folder, const data::TokenSet& set, const data::TokenFigures& figures,
                   int64_t samples) {
  using base::with_commas;
  print(format("  {} documents, {} tokens ({} of {} ids occur), {}", with_commas(figures.documents),
               with_commas(figures.tokens), with_commas(figures.distinct), with_commas(set.vocabulary()),
               base::bytes_text(set.file().bytes())));
  if (set.masked())
    print(format(
        "  learned: {} tokens, {:.1f}%", with_commas(figures.learned),
        100.0 * static_cast<double>(figures.learned) / static_cast<double>(std::max<int64_t>(figures.tokens, 1))));
  print(format("  tokens a document: {} to {}, median {}, mean {:.1f}", with_commas(figures.shortest),
               with_commas(figures.longest), with_commas(figures.median), figures.mean));
  int64_t most = 0;
  for (const auto& bin : figures.lengths) most = std::max(most, bin.documents);
  for (const auto& bin : figures.lengths)
    print(format("  {:>9} - {:<9} {:>11}  {}", with_commas(bin.from), with_commas(bin.to - 1),
                 with_commas(bin.documents), bar(bin.documents, most, 40)));
  std::string frequent;
  for (const auto& count : figures.frequent)
    frequent += format("{}{} {:.1f}%", frequent.empty() ? "" : ", ", token_text(folder, count.token),
                       100.0 * static_cast<double>(count.times) / static_cast<double>(figures.tokens));
  print(format("  most frequent: {}", frequent));
  for (int64_t i = 0; i < std::min(samples, set.documents()); ++i) {
    const int64_t document = data::sampled(i, set.documents());
    print(format("  document {}: {}", document,
                 shown_text(data::document_text(set, document, folder.tokenizer.get(), 60))));
  }
}

Json look_at_tokens(const SetFolder& folder, const char* name, const InspectOptions& options) {
  const data::TokenSet set(folder.path / name);
  Meter meter;
  const auto figures = data::inspect_tokens(set, 20, [&](int64_t tokens) {
    base::throw_if_stopped("inspecting");
    meter.show("reading", static_cast<uint64_t>(tokens), static_cast<uint64_t>(set.tokens()), "");
  });
  meter.clear();
  if (!options.json) print_figures(folder, set, figures, options.samples);
  return figures_json(figures);
}

Json look_at_images(const SetFolder& folder, const char* name, const InspectOptions& options) {
  using base::with_commas;
  const data::ImageSet set(folder.path / name);
  const auto figures = data::inspect_images(set, [](int64_t) { base::throw_if_stopped("inspecting"); });
  const auto [fewest, most] = std::minmax_element(figures.by_class.begin(), figures.by_class.end());
  const auto size = [](const images::ImageSize& of) { return format("{}x{}", of.width, of.height); };
  if (!options.json) {
    print(format("  {} images of {} classes, {} ({} each); {} to {} pixels", with_commas(figures.images),
                 with_commas(static_cast<int64_t>(set.classes().size())), base::bytes_text(set.file().bytes()),
                 base::bytes_text(static_cast<uint64_t>(figures.mean_bytes)), size(figures.smallest),
                 size(figures.largest)));
    const size_t shown_classes = std::min<size_t>(figures.by_class.size(), 20);
    for (size_t i = 0; i < shown_classes; ++i)
      print(format("  {:>20} {:>9}  {}", shown_text(set.classes()[i]), with_commas(figures.by_class[i]),
                   bar(figures.by_class[i], *most, 40)));
    if (shown_classes < figures.by_class.size())
      print(format("  ... and {} classes more, with {} to {} images", figures.by_class.size() - shown_classes,
                   with_commas(*fewest), with_commas(*most)));
  }
  if (!options.grid.empty() && std::string(name) == data::kTrainSet) {
    base::write_atomically(base::real_files(), base::output_file(options.grid, ".png"),
                           data::image_grid(set, 8, 5, 128));
    if (!options.json) print(format("  some of them: {}", options.grid));
  }
  return {{"images", figures.images},
          {"classes", set.classes()},
          {"by_class", figures.by_class},
          {"smallest", {figures.smallest.width, figures.smallest.height}},
          {"largest", {figures.largest.width, figures.largest.height}}};
}

}  // namespace

std::string prepare_help() {
  data::PrepareConfig config;
  base::Settings settings;
  describe(settings, config);
  return settings.help();
}

int prepare_command(const PrepareOptions& options) {
  train::RunConfig all;
  const auto settings = resolve(all, options.recipe, options.overrides, /*checked=*/false);
  data::PrepareConfig& config = all.prepare;
  data::check(config);
  require_paths(settings, options.recipe,
                {"prepare.files", "prepare.validation_files", "prepare.tokenizer", "prepare.chat_template"});
  if (config.tokenizer != "bytes") config.tokenizer = hub::locate(base::real_files(), config.tokenizer);
  if (options.dry_run) {
    for (const auto& setting : settings.all())
      if (setting.section == "prepare")
        print(format("{:<52} # {}", setting.key + " = " + setting.text(), setting.origin));
    print("would read:");
    for (const auto& list : {config.files, config.validation_files})
      if (!list.empty())
        for (const auto& path : records::input_files(list)) print("  " + path.string());
    return 0;
  }
  Meter meter;
  const double begun = base::real_clock().seconds();
  const auto summary = data::prepare(base::real_files(), config, [&](const data::PrepareProgress& done) {
    meter.show(done.doing, done.bytes, done.bytes_in_all,
               done.tokens > 0 ? format("  {} tokens", base::with_commas(done.tokens)) : "");
  });
  meter.clear();
  for (const auto& bad : summary.bad) base::log_warn("left out: " + bad);
  const auto count = [](int64_t records, int64_t tokens) {
    return tokens > 0 ? format("{} documents, {} tokens", base::with_commas(records), base::with_commas(tokens))
                      : format("{} records", base::with_commas(records));
  };
  print(format("{}: {}; validation: {}{}{}", summary.output.string(), count(summary.records, summary.tokens),
               count(summary.validation_records, summary.validation_tokens),
               summary.bad.empty() ? "" : format("; {} left out", summary.bad.size()),
               summary.was_there ? "; it was there already"
                                 : format("; {}", base::duration_text(base::real_clock().seconds() - begun))));
  if (summary.validation_records == 0)
    base::log_warn("nothing was held out for validation: raise prepare.validation, or name prepare.validation_files");
  return 0;
}

int inspect_command(const InspectOptions& options) {
  const SetFolder folder = open_set(options.folder);
  if (!options.grid.empty() && !folder.images())
    throw base::ConfigError(format("--grid draws images, and {} holds tokens", options.folder), "leave --grid out");
  Json all;
  for (const char* name : {data::kTrainSet, data::kValidationSet}) {
    if (!options.json) print((folder.path / name).string());
    all[name] = folder.images() ? look_at_images(folder, name, options) : look_at_tokens(folder, name, options);
  }
  if (options.json) print(all.dump(2));
  return 0;
}

int verify_command(const InspectOptions& options) {
  const SetFolder folder = open_set(options.folder);
  Meter meter;
  const auto verify = [&](const auto& set, const std::string& holds) {
    set.verify([&](uint64_t bytes) {
      base::throw_if_stopped("verifying");
      meter.show("verifying", bytes, set.file().bytes(), "");
    });
    meter.clear();
    print(format("{}: {} blocks, {} are as they were written", set.file().path().string(),
                 base::with_commas(static_cast<int64_t>(set.file().bytes() / data::kSetBlockBytes + 1)), holds));
  };
  for (const char* name : {data::kTrainSet, data::kValidationSet}) {
    if (folder.images()) {
      const data::ImageSet set(folder.path / name);
      verify(set, format("{} images and their labels", base::with_commas(set.images())));
    } else {
      const data::TokenSet set(folder.path / name);
      verify(set,
             format("{} documents and {} tokens", base::with_commas(set.documents()), base::with_commas(set.tokens())));
    }
  }
  return 0;
}

void add_set_commands(Commands& data) {
  const auto prepare_flags = [](CLI::App* prepare, PrepareOptions& options) {
    prepare->add_option("RECIPE", options.recipe, "a TOML file with [prepare], such as recipes/wikitext.toml")
        ->required();
    prepare->add_option("--output", options.given.output, "same as --prepare.output: the folder to make");
    prepare->add_option("--on-bad", options.given.on_bad, "same as --prepare.on_bad: fail or skip");
    prepare->add_flag("--dry-run", options.dry_run, "show the settings and the files; write nothing");
    prepare->allow_extras();
    prepare->footer(
        "\nExamples:\n  hyperion data prepare recipes/wikitext.toml --output sets/wikitext\n  hyperion data prepare "
        "mine.toml --on-bad skip --prepare.files='data/*.jsonl.gz'\n\nStopped or killed, the same command goes on "
        "where "
        "it was. The same inputs and settings again find the set that is there.\n\nSettings (recipe < "
        "HYPERION_PREPARE__KEY < flag):\n" +
        prepare_help());
  };
  const auto inspect_flags = [](CLI::App* inspect, InspectOptions& options) {
    inspect->add_option("FOLDER", options.folder, "a prepared set")->required();
    inspect->add_option("--samples", options.samples, "decoded documents to show (default 3)")
        ->check(whole_number(0, 1000));
    inspect->add_option("--grid", options.grid, "of images: write some of them as one picture, a PNG file");
    inspect->add_flag("--json", options.json, "as JSON");
    inspect->footer(
        "\nExamples:\n  hyperion data inspect sets/wikitext\n  hyperion data inspect sets/food101 --grid food.png");
  };
  const auto verify_flags = [](CLI::App* verify, InspectOptions& options) {
    verify->add_option("FOLDER", options.folder, "a prepared set")->required();
    verify->footer("\nExample:\n  hyperion data verify sets/wikitext");
  };
  data.add<PrepareOptions>("prepare", "make a set to train on from files: tokenized, indexed, hashed", prepare_flags,
                           prepare_command);
  data.add<InspectOptions>("inspect", "what a prepared set holds: counts, lengths, samples", inspect_flags,
                           inspect_command);
  data.add<InspectOptions>("verify", "check every hash, index, token and label of a prepared set", verify_flags,
                           verify_command);
}

}  // namespace hyperion::cli
