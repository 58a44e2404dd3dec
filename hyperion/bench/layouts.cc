#include "hyperion/bench/layouts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/item_progress.h"
#include "hyperion/device/device.h"
#include "hyperion/host/cpu.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/run_record.h"
#include "hyperion/strategy/stage_work.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::bench {
namespace {

using base::format;

[[noreturn]] void refuse_word(const std::string& layout, const std::string& word, const std::string& why) {
  throw base::ConfigError(format("--layouts {}: \"{}\" {}", layout, word, why),
                          "write \"dp=4;dp=4,zero=3;dp=2,pp=2,zero=1\": the axes pp, dp, cp, tp and ep, and of zero, "
                          "batch, sp, recompute, schedule, chunks and accumulate what is wanted");
}

std::vector<std::string> pieces_of(const std::string& text, char separator) {
  std::vector<std::string> pieces(1);
  for (const char letter : text) {
    if (letter == separator)
      pieces.emplace_back();
    else if (letter != ' ' && letter != '\n' && letter != '\t')
      pieces.back() += letter;
  }
  return pieces;
}

// A further word of a layout: which setting it is, and what it may say.
struct FurtherWord {
  const char *name, *setting;
  int64_t least, most;             // of a number
  std::vector<std::string> words;  // else of these
};
const std::vector<FurtherWord>& further_words() {
  const auto of = [](const auto& list) { return std::vector<std::string>(list.begin(), list.end()); };
  static const std::vector<FurtherWord> all = {
      {"zero", "parallel.zero", 0, 3, {}},
      {"batch", "", 1, 1 << 20, {}},
      {"sp", "parallel.sequence", 0, 1, {}},
      {"recompute", "memory.recompute", 0, 0, of(words_of(nn::Recompute{}))},
      {"schedule", "parallel.schedule", 0, 0, of(words_of(strategy::PipelineSchedule{}))},
      {"chunks", "parallel.chunks", 1, 64, {}},
      {"accumulate", "train.accumulate", 1, 1 << 20, {}}};
  return all;
}

int64_t number_of(const std::string& layout, const std::string& word, const std::string& digits,
                  const FurtherWord& known) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < known.least || value > known.most)
    refuse_word(layout, word, format("is no number from {} to {}", known.least, known.most));
  return value;
}

void add_further(LayoutCase& made, const std::string& text, const std::string& word, const FurtherWord& known) {
  const size_t equals = word.find('=');
  const std::string value = equals != word.npos ? word.substr(equals + 1) : known.name == std::string("sp") ? "1" : "";
  if (!known.words.empty()) {
    if (std::find(known.words.begin(), known.words.end(), value) == known.words.end()) {
      std::string list;
      for (const auto& one : known.words) list += (list.empty() ? "" : one == known.words.back() ? " or " : ", ") + one;
      refuse_word(text, word, "is not " + list);
    }
  } else if (const int64_t number = number_of(text, word, value, known); known.name == std::string("batch")) {
    made.batch = number;
    return;
  }
  made.settings.push_back(format("--{}={}", known.setting,
                                 known.name != std::string("sp") ? value
                                 : value == "1"                  ? "true"
                                                                 : "false"));
  if (known.name == std::string("zero"))
    made.zero = value;
  else if (word != "sp=0")
    made.shown += "," + (known.name == std::string("sp") ? "sp" : word);
}

LayoutCase parse_case(const std::string& text) {
  std::string axes;
  std::set<std::string> seen;
  std::vector<std::pair<std::string, const FurtherWord*>> further;
  for (const auto& word : pieces_of(text, ',')) {
    const std::string name = word.substr(0, word.find('='));
    const auto& all = further_words();
    const auto known = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    if (!seen.insert(name).second) refuse_word(text, word, "is there twice");
    if (known != all.end())
      further.emplace_back(word, &*known);
    else if (name == "pp" || name == "dp" || name == "cp" || name == "tp" || name == "ep")
      axes += (axes.empty() ? "" : ",") + word;
    else
      refuse_word(text, word, "is neither an axis nor one of its further words");
  }
  if (axes.empty()) refuse_word(text, text, "names no axis");
  LayoutCase made{strategy::parse_layout(axes), "", "", 0, {}};
  made.shown = made.layout.text();
  for (const auto& [word, known] : further) add_further(made, text, word, *known);
  return made;
}

struct LayoutJob {
  LayoutRow row;
  ScalingJob job;
};

std::string run_name(const LayoutRow& row) {
  std::string name;
  const auto is = [](int (*kind)(int), char letter) { return kind(static_cast<unsigned char>(letter)) != 0; };
  const std::string text = row.name();
  for (size_t i = 0; i < text.size(); ++i) {
    if (is(std::isalnum, text[i]))
      name += text[i];
    else if (name.back() != '-' && !(text[i] == '=' && is(std::isdigit, text[i + 1])))
      name += '-';  // "dp=4" is dp4, and "recompute=full" recompute-full
  }
  return name;
}

std::vector<LayoutJob> plan_layouts(const ScalingOptions& options) {
  const auto cases = parse_layouts(options.layouts);
  const auto batches = options.batches.empty() ? std::vector<int64_t>{0} : options.batches;
  const auto modes = options.optimize.empty() ? std::vector<std::string>{""} : options.optimize;
  std::vector<LayoutJob> jobs;
  std::map<std::string, int> names;
  for (const int64_t batch : batches)
    for (const auto& one : cases) {
      if (one.batch > 0 && batch != batches.front()) continue;  // it says its own
      for (const auto& mode : modes) {
        LayoutJob made;
        const int64_t samples = one.batch > 0 ? one.batch : batch;
        made.row.layout = one.shown, made.row.zero = one.zero, made.row.optimize = mode;
        made.row.batch = static_cast<double>(samples);
        made.row.figures.ranks = one.layout.processes();
        const auto name = run_name(made.row);
        const int times = ++names[name];
        made.row.run = times > 1 ? format("{}-{}", name, times) : name;
        made.job = {made.row.run, made.row.figures.ranks, {"--parallel", one.layout.text(), "--train.accuracy=true"}};
        auto& flags = made.job.flags;
        flags.insert(flags.end(), one.settings.begin(), one.settings.end());
        if (!mode.empty()) flags.push_back("--train.optimize=" + mode);
        if (samples > 0) {
          flags.push_back(format("--train.batch={}", samples * one.layout.dp()));
          flags.push_back("--train.batch_per_rank=0");
        }
        jobs.push_back(std::move(made));
      }
    }
  return jobs;
}

std::string layout_words(const base::Settings& settings, const train::RunConfig& config,
                         const strategy::Layout& layout) {
  std::string text = layout.text();
  const auto& all = settings.all();
  if (std::any_of(all.begin(), all.end(),
                  [](const auto& one) { return one.name() == "parallel.sequence" && one.text() == "true"; }))
    text += ",sp";
  if (config.memory.recompute != nn::Recompute::none)
    text += format(",recompute={}", base::word_of(config.memory.recompute));
  using strategy::PipelineSchedule;
  if (layout.pp > 1 && config.parallel.schedule != PipelineSchedule::one_forward_one_backward)
    text += format(",schedule={}", base::word_of(config.parallel.schedule));
  if (layout.pp > 1 && config.parallel.chunks > 0) text += format(",chunks={}", config.parallel.chunks);
  if (config.train.accumulate > 1) text += format(",accumulate={}", config.train.accumulate);
  return text;
}

// The processes that left a table of their steps.
std::vector<std::string> rank_tables(base::FileSystem& files, const base::Path& run) {
  std::vector<std::string> tables;
  for (base::Path path; files.exists(path = run / format("metrics.rank-{}.csv", tables.size()));)
    tables.push_back(files.read(path));
  return tables;
}

void read_figures_of(LayoutRow& row, base::FileSystem& files, const base::Path& run) {
  const auto metrics = report::read_metrics(files.read(run / "metrics.jsonl"), (run / "metrics.jsonl").string()).steps;
  if (metrics.empty()) throw base::CorruptError("the run has no steps", "its logs say why");
  const int64_t warm_up = scaling_warm_up(static_cast<int64_t>(metrics.size()));
  read_rank_tables(row.figures, rank_tables(files, run), warm_up);
  row.accuracy = metrics.back().accuracy;
  std::vector<double> mfu;
  for (size_t i = static_cast<size_t>(warm_up); i < metrics.size(); ++i)
    if (metrics[i].mfu) mfu.push_back(*metrics[i].mfu);
  if (!mfu.empty()) row.mfu = profile::quantile(mfu, 0.5);
  const auto ranks = report::read_ranks(files, run);
  if (!ranks || ranks->size() != static_cast<size_t>(row.figures.ranks)) return;
  row.has_ranks = true;
  for (const auto& rank : *ranks) row.figures.state = std::max(row.figures.state, rank.state());
  row.traffic = traffic_by_axis(*ranks);
  if (!row.bubble) return;
  row.waited = 0;
  for (const auto& rank : *ranks)
    for (const auto& [key, moved] : rank.traffic)
      if (key.starts_with("hidden ") && rank.seconds > 0)
        *row.waited += moved.exposed / rank.seconds / static_cast<double>(ranks->size());
}

const char* axis_of(const std::string& group) {
  static const std::map<std::string, const char*> known = {
      {"gradients", "dp"},     {"weights", "dp"},          {"replicas", "dp"},       {"node", "dp"},
      {"across nodes", "dp"},  {"statistics", "dp"},       {"stages", "pp"},         {"tied weights", "pp"},
      {"hidden states", "pp"}, {"hidden gradients", "pp"}, {"control", "control"},   {"saves", "control"},
      {"copies", "control"},   {"layers", "tp"},           {"model", "pp and tp"},   {"context", "cp"},
      {"experts", "ep"},       {"expert gradients", "dp"}, {"expert weights", "dp"}, {"expert copies", "control"}};
  if (group.ends_with(" shards")) return "tp";
  const auto found = known.find(group);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace

std::vector<LayoutCase> parse_layouts(const std::string& text) {
  std::vector<LayoutCase> cases;
  for (const auto& piece : pieces_of(text, ';')) {
    if (piece.empty()) refuse_word(text, "", "is no layout: one of them is empty");
    cases.push_back(parse_case(piece));
  }
  return cases;
}

std::string LayoutRow::name() const {
  std::string text = layout;
  if (!zero.empty()) text += ", zero " + zero;
  if (!optimize.empty()) text += ", " + optimize;
  if (batch > 0) text += format(", batch {:g}", batch);
  return text;
}

std::vector<AxisTraffic> traffic_by_axis(const std::vector<report::RankRecord>& ranks) {
  static const std::vector<std::pair<std::string, const char*>> kinds = {
      {"all_gather", "all-gather"}, {"reduce_scatter", "reduce-scatter"},
      {"all_reduce", "all-reduce"}, {"send", "send"},
      {"receive", "send"},          {"exchange", "send"},
      {"all_to_all", "other"},      {"broadcast", "other"},
      {"barrier", "other"},         {"then", "other"}};
  std::vector<AxisTraffic> all = {{"dp", {}}, {"pp", {}}, {"tp", {}}};
  for (const auto& rank : ranks)
    for (const auto& [key, moved] : rank.traffic) {
      std::string group = key;
      const char* kind = "other";
      for (const auto& [operation, name] : kinds)
        if (const size_t at = key.find(" " + operation + " "); at != key.npos && at < group.size())
          group = key.substr(0, at), kind = name;
      const char* known = axis_of(group);
      const std::string axis = known != nullptr ? known : group;
      auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.axis == axis; });
      if (found == all.end()) found = all.insert(found, {axis, {}});
      const auto count = static_cast<double>(ranks.size());
      if (rank.steps > 0)
        found->bytes[kind] += static_cast<double>(moved.bytes) / static_cast<double>(rank.steps) / count;
      if (rank.seconds <= 0) continue;
      found->under_way += moved.seconds / rank.seconds / count;
      found->waited += moved.exposed / rank.seconds / count;
    }
  std::erase_if(all, [](const auto& one) {  // such as groups of one
    return std::all_of(one.bytes.begin(), one.bytes.end(), [](const auto& kind) { return kind.second == 0; });
  });
  return all;
}

LayoutRow read_layout_run(base::FileSystem& files, const base::Path& run) {
  LayoutRow row;
  row.run = run.filename().string();
  row.layout = row.run;  // until it is known
  try {
    train::RunConfig config;
    auto settings = train::bind(config);
    train::apply_run_settings(files, run, settings);
    row.figures.ranks = static_cast<int64_t>(rank_tables(files, run).size());
    strategy::Layout layout;
    layout.dp_shard = std::max<int64_t>(1, row.figures.ranks);
    if (!config.parallel.layout.empty()) layout = strategy::parse_layout(config.parallel.layout);
    const auto& train = config.train;
    const int64_t batch = train.batch_per_rank > 0 ? train.batch_per_rank * layout.processes() : train.batch;
    row.layout = layout_words(settings, config, layout);
    row.zero = format("{}", config.parallel.zero), row.optimize = base::word_of(train.optimize);
    row.batch = static_cast<double>(batch) / static_cast<double>(layout.dp());
    if (layout.pp > 1)
      row.bubble =
          strategy::bubble_of({config.parallel.schedule, layout.pp, config.parallel.stages(), train.accumulate});
    const auto record = report::read_run_record(files, run);
    row.seconds = record.seconds;
    if (record.status == "failed" || record.status == "running")
      row.figures.failed = record.failure.empty() ? "the run has not ended" : record.failure;
    else
      read_figures_of(row, files, run);
  } catch (const base::Error& error) {
    row.figures.failed = error.what();
  }
  return row;
}

LayoutResult read_layout_runs(base::FileSystem& files, const std::vector<base::Path>& runs) {
  const base::OperationScope operation("bench.scaling");
  LayoutResult result{format("{} {}", runs.size(), runs.size() == 1 ? "run" : "runs"), "", {}};
  std::set<std::string> devices;
  for (const auto& run : runs) {
    result.rows.push_back(read_layout_run(files, run));
    if (!result.rows.back().figures.failed.empty()) continue;
    for (const auto& [fact, value] : report::read_run_record(files, run).environment)
      if (fact == "device") devices.insert(value);
  }
  for (const auto& device : devices) result.device += (result.device.empty() ? "" : " and ") + device;
  if (devices.empty()) result.device = "an unknown device";
  return result;
}

LayoutResult run_layouts_bench(const ScalingOptions& options) {
  const base::OperationScope operation("bench.scaling");
  check_scaling(options);
  auto jobs = plan_layouts(options);
  auto& files = base::real_files();
  files.create_folders(options.folder);
  const base::Path recipe = scaling_recipe(options);
  int64_t most = 1;
  for (const auto& [row, job] : jobs) most = std::max(most, job.ranks);
  const int64_t cores = host::this_cpu().usable_cores();
  const int64_t threads = options.threads > 0 ? options.threads : std::max<int64_t>(1, cores / most);
  LayoutResult result{format("{}, {} steps, {} {} a rank, {} cores", recipe.stem().string(), options.steps, threads,
                             threads == 1 ? "thread" : "threads", cores),
                      device::device_text(device::open_device(options.device)),
                      {}};
  ItemProgress progress(static_cast<int64_t>(jobs.size()));
  for (const auto& [planned, job] : jobs) {
    base::throw_if_stopped("bench scaling");
    progress.begin(format("bench scaling  {}", planned.name()));
    const auto failed = run_scaling_job(options, recipe, threads, job);
    const auto run = options.folder / "runs" / job.name;
    auto row = failed.empty() ? read_layout_run(files, run) : planned;
    if (!failed.empty()) row.figures.failed = failed;
    files.remove_all(run / "checkpoints");
    result.rows.push_back(std::move(row));
  }
  progress.clear();
  return result;
}

}  // namespace hyperion::bench
