// What the processes of a layout would do in a step, shown and checked before anything runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/usage.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/parallel/config.h"
#include "hyperion/report/plan_picture.h"
#include "hyperion/strategy/plan_check.h"
#include "hyperion/strategy/plan_memory.h"
#include "hyperion/strategy/stage_work.h"
#include "hyperion/train/config.h"
#include "hyperion/train/step_stages.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;
using strategy::Does;

constexpr size_t kMostRanksShown = 16;

struct PlanOptions {
  std::string recipe, svg, schedule;  // empty: as the settings say
  std::vector<Override> overrides;
  SettingFlags given;
  int64_t chunks = 0, rank = -1;  // likewise
  int64_t ranks = 0;              // 0: as many as the layout has
  bool sequence_parallel = false, json = false;
};

// The plan, and what its tables need besides.
struct Shown {
  strategy::Plan plan;
  strategy::PlannedStep step;
  strategy::PlannedModel model;
  strategy::ModelShape shape;
  int64_t trained_bytes;  // of optimizer state a trained parameter: moments, and masters of narrow weights
  strategy::PlanWalk walk;
  double unit;  // of its clock: the forward of a stage of average cost
};

int64_t samples_of(const train::RunConfig& config, const strategy::Layout& layout) {
  const int64_t parts = layout.dp() * config.train.accumulate;
  if (config.train.batch % parts == 0) return config.train.batch / parts;
  throw ConfigError(format("a batch of {} cannot be dealt out evenly to dp={} with {} micro-batches each",
                           config.train.batch, layout.dp(), config.train.accumulate),
                    format("use a train.batch that {} divides", parts));
}

// Operations of a stage's forward: those of its blocks, and of what lies behind the last.
double stage_cost(const Shown& shown, int64_t stage) {
  const auto& costs = shown.model.costs;
  double sum = stage == 0 ? costs.first : 0;
  for (int64_t i = shown.plan.first_blocks[static_cast<size_t>(stage)];
       i < shown.plan.first_blocks[static_cast<size_t>(stage) + 1]; ++i)
    sum += costs.blocks.empty() ? 1 : costs.blocks[static_cast<size_t>(i)];
  return sum + (stage + 1 == shown.plan.pipeline.stages() ? costs.last : 0);
}

// By operations alone: a backward is two forwards, either half of it one; what travels takes no time.
void set_clock(Shown& shown) {
  const int64_t stages = shown.plan.pipeline.stages();
  double all = 0;
  for (int64_t stage = 0; stage < stages; ++stage) all += stage_cost(shown, stage);
  shown.unit = all > 0 ? all / static_cast<double>(stages) : 1;
  const auto times = [&](Does does) {
    const double again = shown.step.recompute ? 1 : 0;
    return does == Does::backward ? 2 + again : does == Does::backward_input ? 1 + again : computes(does) ? 1 : 0;
  };
  shown.walk = strategy::walk(shown.plan, [&](int, const strategy::Instruction& instruction) {
    const double length = times(instruction.does);
    return length > 0 ? length * stage_cost(shown, instruction.stage) : 0;
  });
}

void refuse_unplanned(const train::RunConfig& config) {
  if (config.model.quantize == models::Quantize::nf4)
    throw ConfigError("plans have no weights in 4 bits yet",
                      "leave model.quantize out: weights count in the precision");
  if (!config.parallel.zeropp.empty()) throw ConfigError("plans have no ZeRO++ yet", "leave --zeropp out");
}

strategy::Layout layout_of(train::RunConfig& config, int64_t ranks) {
  const auto& text = config.parallel.layout;
  if (ranks > 0 && text == "auto") train::settle_layout(config, train::model_config(base::real_files(), config), ranks);
  if (ranks > 0) return parallel::layout_of(config.parallel, ranks);
  if (text == "auto") throw ConfigError("--parallel auto depends on how many processes there are", "say it: --ranks 8");
  return text.empty() ? strategy::Layout{} : strategy::parse_layout(text);
}

Shown plan_of(const PlanOptions& options) {
  train::RunConfig config;
  resolve(config, options.recipe, options.overrides, /*checked=*/false);
  auto& parallel = config.parallel;
  if (!options.schedule.empty())  // the flag was checked
    parallel.schedule = base::from_word<strategy::PipelineSchedule>(options.schedule).value();
  if (options.chunks > 0) parallel.chunks = options.chunks;
  train::check(config, train::AdaptedWeights::random);
  refuse_unplanned(config);
  if (parallel.schedule == strategy::PipelineSchedule::interleaved && parallel.stages() == 1)
    throw ConfigError("the schedule interleaved with one stage a process keeps more than 1f1b for the same bubble",
                      "use --chunks 2 or more, or --schedule 1f1b");
  const auto layout = layout_of(config, options.ranks);
  const auto model = outline_of(config);
  const bool narrow = train::compute_type(config.train.precision) != at::kFloat;
  Shown shown{.plan = {},
              .step = {.layout = layout,
                       .schedule = parallel.schedule,
                       .chunks = parallel.stages(),
                       .micro_batches = config.train.accumulate,
                       .samples = samples_of(config, layout),
                       .length = 1,
                       .zero = config.parallel.zero,
                       .sequence_parallel = options.sequence_parallel || config.parallel.sequence,
                       .context = parallel.context,
                       .recompute = config.memory.recompute == nn::Recompute::blocks,
                       .element = narrow ? 2 : 4},
              .model = models::planned_model(*model, config.train.length),
              .shape = model->shape(config.train.length),
              .trained_bytes = (narrow ? 4 : 0) + (config.optim.rule == optim::UpdateRule::adamw ? 8 : 4),
              .walk = {},
              .unit = 1};
  shown.step.length = shown.shape.context > 0 ? config.train.length : std::max<int64_t>(1, shown.model.image_tokens);
  shown.plan = strategy::make_plan(shown.model, shown.step, [] { base::throw_if_stopped("planning"); });
  strategy::check(shown.plan);
  set_clock(shown);
  return shown;
}

strategy::RankMemory memory_of(const Shown& shown, size_t rank) {
  return strategy::memory_of(shown.plan, shown.step, shown.model, shown.shape, shown.trained_bytes, rank);
}

std::string mib(double bytes) { return format("{:.1f}", bytes / (1 << 20)); }

std::string blocks_text(const strategy::Plan& plan, int64_t index) {
  std::string text;
  for (const int64_t stage : plan.pipeline.stages_of(index)) {
    const auto begin = plan.first_blocks[static_cast<size_t>(stage)],
               end = plan.first_blocks[static_cast<size_t>(stage) + 1];
    text += format("{}{}", text.empty() ? "" : " ",
                   end - begin == 1 ? format("{}", begin) : format("{}-{}", begin, end - 1));
  }
  return text;
}

std::string ranks_table(const Shown& shown) {
  std::vector<std::vector<std::string>> rows = {{"rank", "pp", "dp", "tp", "blocks", "parameters", "kept",
                                                 "weights MiB", "gradients", "optimizer", "activations"}};
  const auto& plan = shown.plan;
  for (size_t rank = 0; rank < std::min(kMostRanksShown, plan.ranks.size()); ++rank) {
    const strategy::Mesh mesh(plan.layout, static_cast<int>(rank));
    const auto memory = memory_of(shown, rank);
    const auto index = [&](strategy::Axes axes) { return format("{}", mesh.index(axes)); };
    rows.push_back(
        {format("{}", rank), index(strategy::Axis::pp), index(strategy::kBatchAxes), index(strategy::Axis::tp),
         shown.model.blocks > 0 ? blocks_text(plan, mesh.index(strategy::Axis::pp)) : "all",
         base::with_commas(plan.parameters[rank]), format("{}", plan.kept[rank]), mib(memory.weights + memory.gathered),
         mib(memory.gradients), mib(memory.optimizer), mib(memory.activations)});
  }
  size_t blocks = 4;
  const auto add = [&](const char* axis, size_t column, const auto& index) {
    ++blocks;
    for (size_t row = 0; row < rows.size(); ++row)
      rows[row].insert(rows[row].begin() + static_cast<int64_t>(column),
                       row == 0 ? axis : format("{}", index(strategy::Mesh(plan.layout, static_cast<int>(row) - 1))));
  };
  if (plan.layout.ep > 1) add("ep", 4, [](const auto& mesh) { return mesh.expert_index(); });
  if (plan.layout.cp > 1) add("cp", 3, [](const auto& mesh) { return mesh.index(strategy::Axis::cp); });
  std::string table = bench::aligned(rows, {blocks});
  if (plan.ranks.size() > kMostRanksShown) table += format("and {} more ranks\n", plan.ranks.size() - kMostRanksShown);
  return table;
}

struct Sent {
  int64_t count = 0;
  double bytes = 0;
};
using Traffic = std::map<std::tuple<std::string, Does, strategy::Payload>, Sent>;

Traffic traffic_of(const strategy::Plan& plan, size_t rank) {
  Traffic traffic;
  for (const auto& instruction : plan.ranks[rank]) {
    if (instruction.does != Does::send && !strategy::is_collective(instruction.does)) continue;
    const auto axis = instruction.group < 0 ? "pp" : plan.groups[static_cast<size_t>(instruction.group)].name;
    auto& sent = traffic[{axis, instruction.does, instruction.payload}];
    ++sent.count, sent.bytes += plan.bytes_sent(instruction);
  }
  return traffic;
}

std::string traffic_table(const strategy::Plan& plan, size_t rank) {
  std::vector<std::vector<std::string>> rows = {{"axis", "what", "", "times", "MiB"}};
  for (const auto& [kind, sent] : traffic_of(plan, rank))
    rows.push_back({std::get<0>(kind), base::word_of(std::get<1>(kind)), base::word_of(std::get<2>(kind)),
                    format("{}", sent.count), mib(sent.bytes)});
  return rows.size() == 1 ? "" : format("\nsent by rank {} in a step\n", rank) + bench::aligned(rows, {0, 1, 2});
}

std::string heading(const Shown& shown) {
  const auto& plan = shown.plan;
  const auto& step = shown.step;
  const bool staged = plan.pipeline.stages() > 1;
  return format("{} ({} process{}), zero {}{}{}: {} micro-batch{} of {}{}", plan.layout.text(), plan.ranks.size(),
                plan.ranks.size() == 1 ? "" : "es", step.zero,
                step.sequence_parallel && plan.layout.tp > 1 ? ", sequence parallel" : "",
                staged ? format(", {}", base::word_of(step.schedule)) : "", step.micro_batches,
                step.micro_batches == 1 ? "" : "es", step.samples,
                shown.shape.context > 0 ? format(" x {} tokens", step.length)
                : step.samples == 1     ? " image"
                                        : " images");
}

std::string bubble_text(const Shown& shown) {
  return format("bubble {:.1f}% by operations; {:.1f}% where all stages took as long",
                100 * shown.walk.bubble(shown.plan), 100 * strategy::bubble_of(shown.plan.pipeline));
}

void print_rank(const Shown& shown, size_t rank) {
  const auto& list = shown.plan.ranks[rank];
  for (size_t i = 0; i < list.size(); ++i) {
    const bool within = strategy::is_collective(list[i].does) && list[i].micro_batch >= 0;
    std::printf("%6zu  %s%s\n", i, within ? "  " : "", shown.plan.text(list[i]).c_str());
  }
}

void print(const Shown& shown) {
  const auto& plan = shown.plan;
  std::printf("%s\n\n%s", heading(shown).c_str(), ranks_table(shown).c_str());
  std::printf(
      "kept: micro-batches of a stage whose activations wait for their backward; activations are a model of them\n%s",
      shown.step.zero == 3 && shown.plan.layout.dp_shard * shown.plan.layout.cp > 1
          ? "weights: the pieces, and what is gathered at most at once\n"
          : "");
  std::printf("%s", traffic_table(plan, 0).c_str());
  if (plan.pipeline.stages() > 1) {
    const auto letters = report::plan_letters(plan, shown.walk, shown.unit);
    std::printf("\n%s%s%s\n", letters.c_str(),
                letters.empty() ? ""
                : strategy::splits_backward(plan.pipeline.schedule)
                    ? "0, 1, ...: forward of a micro-batch; a, b, ...: its backward; A, B, ...: that of weights apart\n"
                    : "0, 1, ...: forward of a micro-batch; a, b, ...: its backward\n",
                bubble_text(shown).c_str());
  }
  size_t count = 0;
  for (const auto& list : plan.ranks) count += list.size();
  std::printf(
      "\nchecked: %s instructions; every send is received, every collective is its whole group's, nobody waits for "
      "ever\n",
      base::with_commas(static_cast<int64_t>(count)).c_str());
}

base::Json instruction_json(const strategy::Plan& plan, const strategy::Instruction& instruction) {
  base::Json json = {{"does", base::word_of(instruction.does)}};
  if (instruction.stage >= 0) json["stage"] = instruction.stage;
  if (instruction.micro_batch >= 0) json["micro_batch"] = instruction.micro_batch;
  if (instruction.payload == strategy::Payload::nothing) return json;
  json["what"] = base::word_of(instruction.payload);
  json["shape"] = instruction.shape;
  json["bytes"] = instruction.bytes();
  if (instruction.peer >= 0) json["peer"] = instruction.peer;
  if (instruction.group >= 0) json["group"] = plan.groups[static_cast<size_t>(instruction.group)].ranks;
  return json;
}

void print_json(const Shown& shown, int64_t only) {
  const auto& plan = shown.plan;
  base::Json ranks = base::Json::array();
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (only >= 0 && only != static_cast<int64_t>(rank)) continue;
    const auto memory = memory_of(shown, rank);
    base::Json list = base::Json::array();
    for (const auto& instruction : plan.ranks[rank]) list.push_back(instruction_json(plan, instruction));
    ranks.push_back({{"rank", rank},
                     {"parameters", plan.parameters[rank]},
                     {"trained", plan.trained[rank]},
                     {"kept", plan.kept[rank]},
                     {"bytes",
                      {{"weights", memory.weights},
                       {"gathered", memory.gathered},
                       {"gradients", memory.gradients},
                       {"optimizer", memory.optimizer},
                       {"activations", memory.activations}}},
                     {"instructions", std::move(list)}});
  }
  const base::Json json = {{"layout", plan.layout.text()},
                           {"zero", shown.step.zero},
                           {"schedule", base::word_of(plan.pipeline.schedule)},
                           {"micro_batches", plan.pipeline.micro_batches},
                           {"stages", plan.first_blocks},
                           {"bubble", shown.walk.bubble(plan)},
                           {"ranks", std::move(ranks)}};
  std::printf("%s\n", json.dump(2).c_str());
}

int plan_show_command(const PlanOptions& options) {
  if (!options.svg.empty()) base::output_file(options.svg, ".svg");  // before anything is made
  const auto shown = plan_of(options);
  const auto ranks = static_cast<int64_t>(shown.plan.ranks.size());
  if (options.rank >= ranks)
    throw ConfigError(format("--rank {}: {} has {} processes", options.rank, shown.plan.layout.text(), ranks),
                      format("ranks count from 0 to {}", ranks - 1));
  if (options.json)
    print_json(shown, options.rank);
  else if (options.rank >= 0)
    print_rank(shown, static_cast<size_t>(options.rank));
  else
    print(shown);
  if (options.svg.empty()) return 0;
  base::write_atomically(base::real_files(), base::output_file(options.svg, ".svg"),
                         report::plan_svg(heading(shown) + "; " + bubble_text(shown), shown.plan, shown.walk));
  if (!options.json) std::printf("picture: %s\n", options.svg.c_str());
  return 0;
}

}  // namespace

void add_plan_commands(Commands& commands) {
  auto plan =
      commands.group("plan", "what the processes of a layout would do",
                     "\nExample:\n  hyperion plan show recipes/quickstart.toml --parallel pp=2,tp=2,dp=2 --zero 1");
  const auto add_flags = [](CLI::App* show, PlanOptions& options) {
    show->add_option("RECIPE", options.recipe, "a TOML file; defaults without");
    add_short_flags(show, options.given);
    show->add_option("--schedule", options.schedule,
                     "same as --parallel.schedule: gpipe, 1f1b, interleaved, zb-h1, zbv or dualpipev")
        ->check(one_word_of<strategy::PipelineSchedule>());
    show->add_option("--chunks", options.chunks, "same as --parallel.chunks: stages of a process")
        ->check(whole_number(1, 1024));
    show->add_flag("--sequence-parallel", options.sequence_parallel,
                   "of tp: norms and dropout each on a part of the sequence");
    show->add_option("--ranks", options.ranks, "of so many processes: a layout that does not say it, or auto")
        ->check(whole_number(1, 1 << 20));
    show->add_option("--rank", options.rank,
                     "only what this rank does, one instruction a line; what is set in is part of the pass above it")
        ->check(whole_number(0, 1 << 20));
    show->add_option("--svg", options.svg, "also write a picture of the pipeline");
    show->add_flag("--json", options.json, "as JSON, with every instruction");
    show->footer(
        "\nMade, checked and drawn without running anything: memory, traffic, order and bubble of any layout of pp, tp "
        "and dp, as\n`train` carries them out.\n\nExamples:\n  hyperion plan show --model.preset=gpt2-124m "
        "--train.batch=32 --train.accumulate=8 --parallel pp=4 --svg plan.svg\n  hyperion plan show "
        "recipes/quickstart.toml --parallel pp=2,tp=2,dp=2 --zero 1 --rank 3");
  };
  plan.add<PlanOptions>("show", "each process's memory, traffic and order in a step, checked without running",
                        add_flags, plan_show_command);
}

}  // namespace hyperion::cli
