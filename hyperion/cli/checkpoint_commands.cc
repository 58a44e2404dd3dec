#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/damage.h"
#include "hyperion/checkpoint/difference.h"
#include "hyperion/checkpoint/gather.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/find_model.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/weight_files.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;
using base::Path;

struct CheckpointOptions {
  std::string name, other, output;
  bool json = false, optimizer = false;
};

constexpr const char* kCheckpointMeaning = "RUN (its newest), RUN@STEP, RUN@best, RUN@last, or a step-N folder";

// Of a run the newest there is, good or not.
Path checkpoint_at(base::FileSystem& files, const std::string& word) {
  if (const auto named = interop::named_checkpoint(files, word)) return *named;
  if (files.exists(Path(word) / checkpoint::kManifestName)) return word;
  const Path run = interop::find_run(files, word);
  const auto entries = checkpoint::list_checkpoints(files, run / "checkpoints");
  if (entries.empty())
    throw ConfigError(format("no checkpoint in {}", (run / "checkpoints").string()), "it has saved none yet");
  return entries.front().path;
}

// Also of a Hugging Face folder, or of one safetensors file.
checkpoint::TensorSet tensors_at(base::FileSystem& files, const std::string& word) {
  checkpoint::TensorSet set{word, false, {}};
  std::error_code ignored;
  if (Path(word).extension() == ".safetensors" && std::filesystem::is_regular_file(word, ignored)) {
    checkpoint::add_tensors(set, std::make_shared<const checkpoint::SafetensorsFile>(word));
    return set;
  }
  const std::string place = interop::find_model(files, word);
  if (!interop::names_folder(files, place))
    return checkpoint::tensors_of(checkpoint::open_checkpoint(files, checkpoint_at(files, place)));
  const auto weights = std::make_shared<const interop::WeightFiles>(files, place);
  for (const auto& name : weights->names()) {
    const auto& file = weights->file(name);
    set.tensors[name] = {file.shape(name), file.dtype(name), 1, file.bytes(name).size(),
                         [weights, name] { return weights->file(name).tensor(name); }};
  }
  return set;
}

struct Listed {
  int64_t step = 0;
  uint64_t bytes = 0;
  std::string created, layout, wrong, folder;
  size_t shards = 0;
  bool best = false;
};

// "dp=2,tp=2, zero 3" of the settings it was saved under; "zero 0" is not worth a word.
std::string layout_of(const std::string& state) {
  const auto json = base::Json::parse(state, nullptr, /*allow_exceptions=*/false);
  const auto settings = json.is_object() ? json.value("settings", base::Json::object()) : base::Json::object();
  const auto text = [&](const char* name) {
    const auto found = settings.find(name);
    return found == settings.end() ? "" : found->is_string() ? found->get<std::string>() : found->dump();
  };
  const std::string layout = text("parallel.layout"), zero = text("parallel.zero");
  const std::string cut = zero.empty() || zero == "0" ? "" : "zero " + zero;
  return layout + (layout.empty() || cut.empty() ? "" : ", ") + cut;
}

// Quick: manifest, sizes and headers, not every byte.
Listed listed(base::FileSystem& files, const checkpoint::CheckpointEntry& entry) {
  Listed row{.step = entry.step,
             .bytes = entry.bytes,
             .created = entry.created,
             .layout = {},
             .wrong = {},
             .folder = entry.path.string()};
  try {
    const Path place = entry.path / checkpoint::kManifestName;
    const auto manifest = checkpoint::parse_manifest(base::read_description(files, place), place.string());
    row.layout = layout_of(manifest.state), row.shards = manifest.files.size();
    checkpoint::open_checkpoint(files, entry.path);
  } catch (const base::Error& error) {
    row.wrong = error.what();
  }
  return row;
}

std::string age_text(const std::string& created) {
  const auto then = base::unix_seconds_of(created);
  if (!then) return "-";
  const double seconds = std::max(0.0, base::real_clock().unix_seconds() - *then);
  if (seconds < 120) return format("{:.0f} s", seconds);
  if (seconds < 7200) return format("{:.0f} min", seconds / 60);
  if (seconds < 172800) return format("{:.0f} h", seconds / 3600);
  return format("{:.0f} days", seconds / 86400);
}

int list_command(const CheckpointOptions& options) {
  auto& files = base::real_files();
  const Path run = interop::find_run(files, options.name);
  Path best;
  try {
    if (const auto named = interop::named_checkpoint(files, options.name + "@best")) best = *named;
  } catch (const ConfigError&) {  // it has none
  }
  std::vector<Listed> rows;
  for (const auto& entry : checkpoint::list_checkpoints(files, run / "checkpoints")) {
    rows.push_back(listed(files, entry));
    rows.back().best = entry.path == best;
  }
  if (options.json) {
    auto list = base::Json::array();
    for (const auto& row : rows)
      list.push_back({{"step", row.step},
                      {"bytes", row.bytes},
                      {"created", row.created},
                      {"complete", row.wrong.empty()},
                      {"wrong", row.wrong},
                      {"best", row.best},
                      {"shards", row.shards},
                      {"layout", row.layout},
                      {"folder", row.folder}});
    std::printf("%s\n", list.dump(2, ' ', false, base::Json::error_handler_t::replace).c_str());
    return 0;
  }
  if (rows.empty()) {
    std::printf("no checkpoints in %s yet\n", (run / "checkpoints").c_str());
    return 0;
  }
  std::printf("%10s %10s  %-9s %-5s %-8s %6s  %s\n", "step", "size", "state", "", "age", "shards", "layout");
  std::string wrong;
  for (const auto& row : rows) {
    std::printf("%10s %10s  %-9s %-5s %-8s %6zu  %s\n", base::with_commas(row.step).c_str(),
                row.bytes > 0 ? base::bytes_text(row.bytes).c_str() : "-", row.wrong.empty() ? "complete" : "damaged",
                row.best ? "best" : "", age_text(row.created).c_str(), row.shards,
                base::printable_line(row.layout).c_str());
    if (!row.wrong.empty()) wrong += format("step {}: {}\n", row.step, row.wrong);
  }
  std::printf("%s", base::printable(wrong).c_str());
  return 0;
}

std::string bars_of(const std::vector<int64_t>& histogram) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const int64_t most = histogram.empty() ? 0 : *std::max_element(histogram.begin(), histogram.end());
  std::string bars;
  for (const int64_t count : histogram)
    bars += count == 0 ? " " : kBars[std::min<int64_t>(7, count * 8 / std::max<int64_t>(most, 1))];
  return bars;
}

int show_command(const CheckpointOptions& options) {
  auto& files = base::real_files();
  const auto set = tensors_at(files, options.name);
  checkpoint::ReadingLine progress("reading " + set.place);
  const auto all = static_cast<int64_t>(set.bytes());
  size_t widest = 6, widest_shape = 5;
  for (const auto& [name, stored] : set.tensors)
    widest = std::max(widest, name.size()),
    widest_shape = std::max(widest_shape, checkpoint::shape_words(stored.shape).size());
  auto list = base::Json::array();
  std::string text = format("{}: {} tensors, {}\n{:<{}}  {:<{}}  {:<8} {:>6} {:>11} {:>11} {:>11}  histogram\n",
                            set.place, set.tensors.size(), base::bytes_text(set.bytes()), "tensor", widest, "shape",
                            widest_shape, "type", "shards", "norm", "low", "high");
  int64_t done = 0;
  for (const auto& [name, stored] : set.tensors) {
    const auto facts = checkpoint::facts_of(stored.read());
    progress.show(done += static_cast<int64_t>(stored.bytes), all);
    if (options.json) {
      list.push_back({{"name", name},
                      {"shape", stored.shape},
                      {"dtype", checkpoint::type_words(stored.type)},
                      {"shards", stored.shards},
                      {"bytes", stored.bytes},
                      {"elements", facts.elements},
                      {"not_finite", facts.not_finite},
                      {"norm", facts.norm},
                      {"mean", facts.mean},
                      {"low", facts.low},
                      {"high", facts.high},
                      {"histogram", facts.histogram}});
      continue;
    }
    text += format("{:<{}}  {:<{}}  {:<8} {:>6} {:>11.4g} {:>11.4g} {:>11.4g}  {}{}\n", name, widest,
                   checkpoint::shape_words(stored.shape), widest_shape, checkpoint::type_words(stored.type),
                   stored.shards, facts.norm, facts.low, facts.high, bars_of(facts.histogram),
                   facts.not_finite > 0 ? format("  {} not finite", base::with_commas(facts.not_finite)) : "");
  }
  if (options.json) text = list.dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n";
  std::printf("%s", (options.json ? text : base::printable(text)).c_str());
  return 0;
}

// Of a run all its checkpoints.
std::vector<Path> checkpoints_at(base::FileSystem& files, const std::string& word) {
  const bool one =
      interop::named_checkpoint(files, word).has_value() || files.exists(Path(word) / checkpoint::kManifestName);
  if (one) return {checkpoint_at(files, word)};
  checkpoint_at(files, word);  // refuses where there is none
  std::vector<Path> all;
  for (const auto& entry : checkpoint::list_checkpoints(files, interop::find_run(files, word) / "checkpoints"))
    all.push_back(entry.path);
  return all;
}

int verify_checkpoints_command(const CheckpointOptions& options) {
  auto& files = base::real_files();
  auto list = base::Json::array();
  bool damaged = false;
  for (const auto& path : checkpoints_at(files, options.name)) {
    const auto found = checkpoint::verify_checkpoint(files, path);
    damaged = damaged || !found.damage.empty();
    if (options.json) {
      list.push_back({{"folder", path.string()}, {"bytes", found.bytes}, {"damage", found.damage}});
      continue;
    }
    std::printf("%s: %s\n", path.c_str(),
                found.damage.empty() ? format("whole, {} read", base::bytes_text(found.bytes)).c_str() : "damaged");
    for (const auto& line : found.damage) std::printf("  %s\n", base::printable_line(line).c_str());
  }
  if (options.json) std::printf("%s\n", list.dump(2, ' ', false, base::Json::error_handler_t::replace).c_str());
  return damaged ? 1 : 0;
}

int diff_command(const CheckpointOptions& options) {
  auto& files = base::real_files();
  const auto first = tensors_at(files, options.name), second = tensors_at(files, options.other);
  const auto found = checkpoint::differences(first, second);
  const auto finite = [](double value) { return std::isfinite(value) ? base::Json(value) : base::Json(nullptr); };
  if (options.json) {
    auto list = base::Json::array();
    for (const auto& one : found)
      list.push_back({{"name", one.name},
                      {"mismatch", one.mismatch},
                      {"elements", one.elements},
                      {"of", one.of},
                      {"largest", finite(one.largest)},
                      {"relative", finite(one.relative)}});
    std::printf("%s\n", list.dump(2, ' ', false, base::Json::error_handler_t::replace).c_str());
    return found.empty() ? 0 : 1;
  }
  if (found.empty()) {
    std::printf("%zu tensors, all the same to the bit\n", first.tensors.size());
    return 0;
  }
  size_t widest = 6;
  for (const auto& one : found) widest = std::max(widest, one.name.size());
  std::string text = format("{:<{}}  {:>12} {:>11} {:>11}\n", "tensor", widest, "differ", "largest", "relative");
  for (const auto& one : found) {
    if (one.of == 0)
      text += format("{:<{}}  {}\n", one.name, widest, one.mismatch);
    else
      text += format("{:<{}}  {:>11.3f}% {:>11.4g} {:>11.4g}{}\n", one.name, widest,
                     100.0 * static_cast<double>(one.elements) / static_cast<double>(one.of), one.largest, one.relative,
                     one.mismatch.empty() ? "" : "  " + one.mismatch);
  }
  text += format("{} of {} tensors differ\n", found.size(), std::max(first.tensors.size(), second.tensors.size()));
  std::printf("%s", base::printable(text).c_str());
  return 1;
}

int gather_command(const CheckpointOptions& options) {
  auto& files = base::real_files();
  const auto from = checkpoint::open_checkpoint(files, checkpoint_at(files, options.name));
  const auto done = checkpoint::gather_into_file(files, from, options.output, options.optimizer);
  std::printf("%s: %zu tensors of step %lld, %s\n", done.path.c_str(), done.tensors, static_cast<long long>(from.step),
              base::bytes_text(done.bytes).c_str());
  return 0;
}

}  // namespace

void add_checkpoint_commands(Commands& commands) {
  auto checkpoints =
      commands.group("checkpoint", "look at checkpoints, check, compare and gather them",
                     "\nExamples:\n  hyperion checkpoint ls quickstart\n  hyperion checkpoint verify quickstart\n"
                     "  hyperion checkpoint gather quickstart@best --output quickstart.safetensors");
  const auto json = [](CLI::App* command, CheckpointOptions& options) {
    command->add_flag("--json", options.json, "as JSON");
  };
  checkpoints.add<CheckpointOptions>(
      "ls", "the checkpoints of a run, newest first",
      [json](CLI::App* list, CheckpointOptions& options) {
        list->add_option("RUN", options.name, "the run's name or folder")->required();
        json(list, options);
        list->footer(
            "\nLooks at manifests, sizes and headers; `checkpoint verify` reads every byte.\n\nExample:\n  hyperion "
            "checkpoint ls quickstart");
      },
      list_command);
  checkpoints.add<CheckpointOptions>(
      "show", "every tensor of a checkpoint or model: shape, type, shards, norm and histogram",
      [json](CLI::App* show, CheckpointOptions& options) {
        show->add_option("MODEL", options.name,
                         format("{}; or a Hugging Face folder, or a .safetensors file", kCheckpointMeaning))
            ->required();
        json(show, options);
        show->footer("\nExample:\n  hyperion checkpoint show quickstart@best");
      },
      show_command);
  checkpoints.add<CheckpointOptions>(
      "verify", "hold every byte against its hash, and name what is damaged",
      [json](CLI::App* verify, CheckpointOptions& options) {
        verify
            ->add_option("RUN", options.name,
                         "a run, for all its checkpoints; or one: RUN@STEP, RUN@best, a step-N folder")
            ->required();
        json(verify, options);
        verify->footer(
            "\nLeaves with 1 where something is damaged.\n\nExample:\n  hyperion checkpoint verify quickstart");
      },
      verify_checkpoints_command);
  checkpoints.add<CheckpointOptions>(
      "diff", "the tensors in which two checkpoints or models differ, and by how much",
      [json](CLI::App* diff, CheckpointOptions& options) {
        diff->add_option("MODEL", options.name,
                         format("{}; or a Hugging Face folder, or a .safetensors file", kCheckpointMeaning))
            ->required();
        diff->add_option("OTHER", options.other, "likewise")->required();
        json(diff, options);
        diff->footer(
            "\nLeaves with 1 where they differ.\n\nExample:\n  hyperion checkpoint diff quickstart@400 quickstart@500");
      },
      diff_command);
  checkpoints.add<CheckpointOptions>(
      "gather", "write all weights of a checkpoint into one safetensors file, whatever the number of shards",
      [](CLI::App* gather, CheckpointOptions& options) {
        gather->add_option("RUN", options.name, kCheckpointMeaning)->required();
        gather->add_option("-o,--output", options.output, "the file to write, *.safetensors")
            ->required()
            ->check(not_empty());
        gather->add_flag("--optimizer", options.optimizer, "also the optimizer's state");
        gather->footer(
            "\nNames are Hugging Face's; the optimizer's begin with `optimizer.`.\n\nExample:\n  hyperion checkpoint "
            "gather "
            "quickstart@best --output quickstart.safetensors");
      },
      gather_command);
}

}  // namespace hyperion::cli
