#include "hyperion/train/training.h"

#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <numeric>
#include <optional>

#include "hyperion/analysis/graph_kernels.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/device/device.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/gpu_vitals.h"
#include "hyperion/host/launch.h"
#include "hyperion/host/peaks.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/trace/run_trace.h"
#include "hyperion/train/epochs.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/kept_inputs.h"
#include "hyperion/train/load_start.h"
#include "hyperion/train/memory_choice.h"
#include "hyperion/train/model_for_data.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/prompts.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_settings.h"
#include "hyperion/train/run_state.h"
#include "hyperion/train/starting_model.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using base::format;

// Processes on one host share its cores: one thread each where nothing else is said.
at::Device open_device(const LoopConfig& train, bool several) {
  const bool named = std::getenv("OMP_NUM_THREADS") != nullptr;  // LibTorch read it already
  if (train.threads > 0 || !named)
    device::set_cpu_threads(train.threads > 0 ? train.threads : several ? 1 : host::this_cpu().usable_cores());
  at::Device device = device::open_device(train.device);
  if (several && device.is_cuda())
    device = device::open_device(format("cuda:{}", host::find_launch().local_rank % device::gpu_count()));
  device::allow_tf32(train.precision == Precision::tf32);
  if (train.deterministic) device::use_deterministic_algorithms();
  return device;
}

std::string unit_text(const RunConfig& config, const strategy::ModelShape& shape) {
  if (shape.context == 0) return "images";
  const bool padded = config.data.source == data::SourceKind::prepared && config.data.packing != data::Packing::stream;
  return padded ? "tokens and padding" : "tokens";
}

}  // namespace

Trainer::Trainer(base::FileSystem& files, const TrainRequest& request)
    : files_(files),
      request_(request),
      config_(request.config),
      processes_(*request.processes),
      device_(open_device(config_.train, processes_.size() > 1)),
      split_(open_split(config_, models::config_shape(described_model(), "the model", config_.train.length))),
      model_config_(keep_model_config()),
      shape_(models::config_shape(model_config_, "the model", config_.train.length)),
      schedule_(optim::schedule_of(config_.optim, config_.train.steps)),
      log_(files, request, shape_, device::device_text(device_)) {
  if (const auto* peaks = host::find_peaks(device::device_text(device_)))
    peak_tflops_ = peaks->of(base::word_of(config_.train.precision));
}

// A run keeps what its model is, so that a resume needs nothing but the run's own folder.
std::string Trainer::described_model() const {
  const std::string kept = begun() ? read_run_model(files_, request_.run.path()) : "";
  return kept.empty() ? model_config(files_, config_) : kept;
}

std::string Trainer::keep_model_config() {
  const base::Path path = request_.run.model();
  if (const auto kept = begun() ? read_run_model(files_, request_.run.path()) : ""; !kept.empty()) return kept;
  if (split_.train && !begun()) new_tokens_ = tokens_new_to_base(files_, config_);
  const auto [text, said] = model_for_data(config_, described_model(), split_, new_tokens_);
  if (first()) base::write_atomically(files_, path, text + "\n");
  for (const auto& line : said) base::log_info(line);
  if (first() && !split_.passed_over.empty()) base::log_warn(split_.passed_over);
  if (const auto reason = interop::export_obstacle(text); !reason.empty())
    base::log_info(format("note: {}; it can be trained, evaluated and probed here", reason));
  return text;
}

void Trainer::make_model() {
  auto start = make_starting_model(
      files_, {config_, model_config_, request_.run.path(), begun() ? &**request_.start : nullptr, first(), new_tokens_,
               request_.base_digest, config_.parallel.zero == 3 || processes_.share_model()});
  model_ = std::move(start.model), values_ = std::move(start.values), base_digest_ = std::move(start.base_digest);
  if (config_.lora.rank == 0) return;
  shape_ = models::adapted_shape(*model_, interop::kRunAdapter, config_.train.length);
  log_.trained(shape_.trained);
}

// Every choice is tried on a real part of a batch, cheapest first; nothing of it changes the run.
void Trainer::plan_memory() {
  const MemoryConfig& memory = config_.memory;
  if (memory.budget.empty() && !memory.report) return;
  const Batch batch = batch_at(split_, config_, 0, share());
  const auto keep = [&](MemoryReport report) {
    if (!memory.report) return;
    if (saver_->background())
      report.checkpoint_on_host = static_cast<int64_t>(checkpoint::StagedState::bytes(snapshot().tensors));
    const bool parts = processes_.share_model();  // each that has other weights tells of its own
    const bool tells = parts ? processes_.in_first_model() : first();
    std::string text = tells ? format("memory of a step{}:\n{}", parts ? format(", rank {}", processes_.rank()) : "",
                                      memory_table(report))
                             : "";
    if (parts) {
      const auto all = processes_.control().gather_text(text, "memory");
      text = std::accumulate(all.begin(), all.end(), std::string());
    }
    if (first()) base::print_lines(text);
    if (!tells) return;
    const std::string name = first() ? "memory.json" : format("memory.rank-{}.json", processes_.rank());
    base::write_atomically(files_, request_.run.path() / name, to_json(report));
  };
  if (memory.budget.empty()) return keep(stepper_->measure(batch, memory));
  const MemoryChoice choice = choose_memory(*stepper_, batch, memory);
  base::log_info(choice.said);
  keep(choice.report);
}

void Trainer::prepare() {
  base::fault_point("train.prepare");
  const std::string odd = shape_.context > 0 ? check_tokenizer(files_, config_) : "";
  for (const auto& said : {odd, unused_dropout(model_config_)})
    if (!said.empty() && first()) base::log_warn(said);
  check_counted(split_, config_);
  prompts_.emplace(files_, config_, split_, shape_);
  if (!request_.resume && first()) {
    keep_tokenizer(files_, request_.run.path(), config_);
    keep_processor(files_, request_.run.path(), split_);
  }
  make_model();
  if (config_.lora.rank > 0) announce();
  base::throw_if_stopped("preparing the model");
  stepper_ = std::make_unique<Stepper>(*model_, config_, device_, nullptr, &processes_, values_);
  if (const auto text = stepper_->stages().text(); !text.empty()) base::log_info(text);
  stepper_->count_right(config_.train.accuracy || shape_.context == 0);
  values_ = nullptr;  // and with it the files it reads from
  plan_saves();
  plan_memory();
  const double seconds_before = request_.resume ? restore() : 0;  // sets step_
  feed_.emplace(split_, config_, start_, share(), device_.is_cuda());
  sample_hash_ = start_.hash;
  plan_traces();
  if (config_.train.watch) {
    std::vector<int> stages;
    for (int rank = 0; rank < processes_.size(); ++rank)
      stages.push_back(static_cast<int>(strategy::Mesh(processes_.mesh().layout(), rank).index(strategy::Axis::pp)));
    watch_.emplace(stages, device_.is_cuda() ? host::gpu_reader(device::pci_place(device_)) : nullptr);
  }
  told_traffic_ = processes_.traffic();
  // After the last step comes a validation, also where a run was killed in the middle of it or just after.
  log_.begin(step_, seconds_before, epoch_samples(config_, split_),
             step_ >= config_.train.steps || validation_is_missing());
}

void Trainer::plan_traces() {
  const auto plan = profile::TracePlan::parse(config_.train.profile, "train.profile");
  if (plan.steps > 0) make_traces(plan);
  if (plan.steps > 0 && first() && plan.first + plan.warm_up > config_.train.steps)
    base::log_warn(format("train.profile = {} traces nothing: the run ends with step {}", config_.train.profile,
                          config_.train.steps));
}

void Trainer::make_traces(const profile::TracePlan& plan) {
  files_.create_folders(request_.run.path() / "traces");
  const auto file = [run = request_.run.path(), rank = processes_.rank()](int64_t step) {
    return trace::trace_path(run, step, rank);
  };
  traces_ = std::make_unique<profile::StepTraces>(profile::StepTraces::Options{
      .plan = plan,
      .owner = {processes_.rank(), processes_.size(), several() ? processes_.gradients().kind() : ""},
      .gpu = device_.is_cuda(),
      .wait = [this] { device::synchronize(device_); },
      .scratch = [file](int64_t step) { return file(step).string() + ".partial-kineto"; },
      .write =
          [file, graphs = std::make_shared<analysis::GraphKernels>()](const profile::StepTrace& trace) {
            if (trace.pattern) return graphs->learn(trace::joined_trace(trace.kineto, trace.spans, trace.clock_offset));
            trace::finish_trace(trace.kineto, trace.spans, trace.clock_offset, file(trace.first),
                                [&](trace::Trace&& recorded) { return graphs->tell(std::move(recorded)); });
          }});
  stepper_->record_patterns([this](const std::function<void()>& step) { traces_->record_pattern(step); });
}

double Trainer::restore() {
  if (!begun()) {
    base::log_info(format("no checkpoint was written yet; starting again from step 0{}",
                          request_.changes.empty() ? ", which gives the same run" : ""));
    return 0;
  }
  const auto [checkpoint, state, newest] =
      load_start(files_, request_.run, std::move(**request_.start), *stepper_, first());
  request_.start->reset();
  split_.check_fitted(state.data_digest);
  if (!state.data_digest.empty() && !split_.is_of(state.data_digest))
    throw base::ConfigError(
        format("the data at {} is not what this run was trained on until step {}",
               config_.data.path.empty() ? base::word_of(config_.data.source) : config_.data.path.front(),
               checkpoint.step),
        "put it back; or begin a new run from this one's weights: model.from = RUN");
  step_ = saved_step_ = checkpoint.step;
  start_ = state.cursor;
  validations_ = state.validations;
  if (!config_.checkpoint.best) validations_.best.reset();
  if (const auto& best = validations_.best;
      best && !files_.exists(request_.run.checkpoints() / checkpoint::step_folder_name(best->step))) {
    base::log_warn(format("the best checkpoint, of step {}, is not there any more", best->step));
    validations_.best.reset();
  }
  log_.best(best_kept_ = validations_.best);
  auto numbers = state.numbers;
  if (numbers.loss_scale == 0) numbers.loss_scale = config_.train.loss_scale;
  stepper_->restore(numbers);
  if (state.threads != device::cpu_threads() && device_.is_cpu())
    base::log_warn(format("this run used {} threads and now has {}: losses will agree to rounding, not to the bit",
                          state.threads, device::cpu_threads()));
  if (newest > step_) base::log_debug(format("the checkpoint of step {} was bad and passed over", newest));
  base::log_info(format("resuming after step {} from {}", step_, checkpoint.path.string()));
  return state.seconds;
}

// What an adapter trains is known once the model is there.
void Trainer::announce() {
  base::log_info(format("run {}: {}, {} {} a step, {} on {}", log_.name(),
                        report::parameters_text(shape_.parameters, shape_.trained),
                        base::with_commas(units(config_.train.batch)), unit_text(config_, shape_),
                        base::word_of(config_.train.precision), device::device_text(device_)));
  if (config_.lora.rank > 0)
    base::log_info(
        format("LoRA of rank {}, alpha {:g}, beside {}{}", config_.lora.rank, config_.lora.alpha, config_.lora.targets,
               config_.model.quantize == models::Quantize::nf4 ? "; the frozen weights in 4 bits (nf4)" : ""));
  const std::string cut = cut_text(config_, split_), epochs = epochs_text(config_, split_);
  const int64_t too_long = split_.train ? split_.train->cut().too_long : 0, of_epoch = split_.limit > 0 ? 0 : too_long;
  const bool drops = config_.data.too_long == data::TooLong::drop;
  if (!cut.empty()) base::log_info(cut + (too_long > 0 ? "; data.too_long says what becomes of long ones" : ""));
  base::log_info(epochs);
  log_.data(cut.empty() ? epochs : cut + "; " + epochs, drops ? 0 : of_epoch, drops ? of_epoch : 0);
  if (const auto said = first() ? slow_precision_here(config_, model_config_, shape_, device_) : ""; !said.empty())
    base::log_warn(said);
  if (!several() && config_.parallel.zero > 0)
    base::log_info(
        format("zero {}: one process holds everything, so nothing is sharded; hyperion launch -n 2 starts two",
               config_.parallel.zero));
}

}  // namespace hyperion::train
