#include "hyperion/report/prometheus.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/report/metric_sink.h"

namespace hyperion::report {
namespace {

constexpr double kRest = 5;  // seconds between two writings of a file

std::string label_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return base::format("{}", value);
}

// Writes one family after the other.
class Families {
 public:
  explicit Families(std::string run) : run_(std::move(run)) {}

  void begin(std::string name, const char* kind, const char* help) {
    name_ = "hyperion_" + std::move(name);
    text_ += base::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, kind);
  }
  void value(double number, const std::string& more_labels = {}) {
    text_ += base::format("{}{{run=\"{}\"{}}} {}\n", name_, label_text(run_), more_labels, value_text(number));
  }
  void gauge(const char* name, const char* help, const std::optional<double>& number) {
    if (!number) return;
    begin(name, "gauge", help);
    value(*number);
  }
  void counter(const char* name, const char* help, double number) {
    begin(name, "counter", help);
    value(number);
  }
  struct Part {
    const char* label;  // ",kind=\"peak\""
    std::optional<double> number;
  };
  void parts(const char* name, const char* help, std::initializer_list<Part> all) {
    bool begun = false;
    for (const auto& [label, number] : all) {
      if (!number) continue;
      if (!std::exchange(begun, true)) begin(name, "gauge", help);
      value(*number, label);
    }
  }
  std::string finish() && { return std::move(text_); }

 private:
  std::string run_, name_, text_;
};

std::optional<double> times(const std::optional<double>& number, double factor) {
  return number ? std::optional(*number * factor) : std::nullopt;
}
std::optional<double> as_real(const std::optional<int64_t>& number) {
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

void write_step(Families& out, const NewestMetrics& newest) {
  const StepRecord& step = *newest.step;
  out.counter("train_steps_total", "Steps trained.", static_cast<double>(step.step));
  out.counter("train_tokens_total", "Tokens trained on, over all ranks.", static_cast<double>(newest.tokens));
  out.counter("train_samples_total", "Samples trained on, over all ranks.", static_cast<double>(step.samples));
  out.gauge("train_loss", "Loss of the newest step.", step.loss);
  out.gauge("train_accuracy_ratio", "Part of the newest step's targets that were the likeliest.", step.accuracy);
  out.gauge("gradient_norm", "Norm of the newest step's gradients.", step.grad_norm);
  out.gauge("learning_rate", "Learning rate of the newest step.", step.lr);
  out.gauge("step_duration_seconds", "Duration of the newest step.", step.step_ms / 1e3);
  out.gauge("tokens_per_second", "Tokens a second over all ranks.", step.tokens_per_s);
  out.gauge("flops_per_second", "Floating-point operations a second of one device.", times(step.tflops, 1e12));
  out.gauge("model_flops_utilization_ratio", "Share of the device's peak that the model's operations reach.", step.mfu);
  out.parts("step_phase_duration_seconds", "Where rank 0's newest step went.",
            {{",phase=\"data_wait\"", step.data_wait_ms / 1e3},
             {",phase=\"forward\"", step.forward_ms / 1e3},
             {",phase=\"backward\"", step.backward_ms / 1e3},
             {",phase=\"optimizer\"", step.optimizer_ms / 1e3},
             {",phase=\"communication_exposed\"", times(step.comm_ms, 1e-3)},
             {",phase=\"stopped\"", times(step.stopped_ms, 1e-3)}});
  out.gauge("communication_duration_seconds", "Communication of the newest step, exposed or not.",
            times(step.comm_total_ms, 1e-3));
  out.gauge("communication_sent_bytes", "Bytes that rank 0 sent in the newest step.", as_real(step.comm_bytes));
  out.parts("memory_bytes", "Memory of rank 0's device.",
            {{",kind=\"allocated\"", as_real(step.memory_allocated)},
             {",kind=\"reserved\"", as_real(step.memory_reserved)},
             {",kind=\"peak\"", as_real(step.memory_peak)}});
  out.gauge("expert_busiest_ratio", "The busiest expert's share as a multiple of an even one.", step.expert_busiest);
  out.gauge("expert_idle_ratio", "Part of the experts that got no token.", step.expert_idle);
  out.gauge("expert_dropped_ratio", "Part of the choices that found no room.", step.expert_dropped);
  out.gauge("gpu_clock_hertz", "Clock of rank 0's GPU.", times(step.gpu_clock, 1e6));
  out.gauge("gpu_power_watts", "Power of rank 0's GPU.", step.gpu_power);
  out.gauge("gpu_temperature_celsius", "Temperature of rank 0's GPU.", step.gpu_temperature);
  out.gauge("gpu_busy_ratio", "Part of the time that rank 0's GPU was busy.", times(step.gpu_busy, 0.01));
  if (newest.joules > 0) out.counter("gpu_energy_joules_total", "Energy of rank 0's GPU.", newest.joules);
}

void write_evaluations(Families& out, const std::map<std::string, EvalRecord>& evaluations) {
  const auto family = [&](const char* name, const char* help, auto&& number_of) {
    bool begun = false;
    for (const auto& [split, record] : evaluations) {
      const std::optional<double> number = number_of(record);
      if (!number) continue;
      if (!std::exchange(begun, true)) out.begin(name, "gauge", help);
      out.value(*number, base::format(",split=\"{}\"", label_text(split)));
    }
  };
  family("evaluation_step", "Step of the newest evaluation.",
         [](const EvalRecord& of) { return static_cast<double>(of.step); });
  family("evaluation_loss", "Mean loss of the newest evaluation.", [](const EvalRecord& of) { return of.loss; });
  family("evaluation_perplexity", "Its perplexity.", [](const EvalRecord& of) { return of.perplexity; });
  family("evaluation_token_accuracy_ratio", "Part of its tokens that were the likeliest.",
         [](const EvalRecord& of) { return of.token_accuracy; });
  family("evaluation_answers_right_ratio", "Part of its answers that were right.",
         [](const EvalRecord& of) { return of.answers_right; });
  family("evaluation_top_1_ratio", "Part of its images that were the likeliest class.",
         [](const EvalRecord& of) { return of.top_1; });
  family("evaluation_top_5_ratio", "Part of its images among the five likeliest classes.",
         [](const EvalRecord& of) { return of.top_5; });
}

class PrometheusFile final : public MetricSink {
 public:
  PrometheusFile(base::FileSystem& files, const base::Path& folder, const SinkRun& run)
      : files_(files), path_(folder / (run.name + ".prom")) {
    files.create_folders(folder);
    newest_.run = run.name;
  }
  void write(const StepRecord& record, double) override {
    newest_.add(record);
    if (base::now() >= next_) write_file();
  }
  void write(const EvalRecord& record, double) override {
    newest_.add(record);
    if (base::now() >= next_) write_file();
  }
  void end(const std::string& status, double) override {
    newest_.status = status;
    write_file();
  }

 private:
  void write_file() {
    base::write_atomically(files_, path_, prometheus_text(newest_));
    next_ = base::now() + kRest;
  }

  base::FileSystem& files_;
  base::Path path_;
  NewestMetrics newest_;
  double next_ = 0;
};

}  // namespace

void NewestMetrics::add(const StepRecord& record) {
  step = record;
  tokens += record.tokens;
  joules += record.energy.value_or(0);
}

std::string prometheus_text(const NewestMetrics& newest) {
  Families out(newest.run);
  out.begin("run_info", "gauge", "1 for a run, with how it stands.");
  out.value(1, base::format(",status=\"{}\"", label_text(newest.status)));
  if (newest.step) write_step(out, newest);
  write_evaluations(out, newest.evaluations);
  return std::move(out).finish();
}

std::unique_ptr<MetricSink> open_prometheus(base::FileSystem& files, const base::Path& folder, const SinkRun& run) {
  return std::make_unique<PrometheusFile>(files, folder, run);
}

}  // namespace hyperion::report
