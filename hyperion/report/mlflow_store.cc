// MLflow's file store: a folder an experiment, a folder a run in it, a file a metric, a parameter and a tag.
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/report/metric_sink.h"
#include "hyperion/report/metric_values.h"

namespace hyperion::report {
namespace {

constexpr const char* kExperiment = "1";
constexpr const char* kExperimentName = "hyperion";
constexpr size_t kLongestParameter = 6000;  // that MLflow takes
struct RunStatus {
  enum : int { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };
};

int64_t milliseconds(double unix_seconds) { return static_cast<int64_t>(unix_seconds * 1e3); }
// JSON's texts are YAML's.
std::string yaml_text(const std::string& text) {
  return base::Json(text).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

// A text without the quotes that TOML needs.
std::string plain(const std::string& value) {
  const auto json = base::Json::parse(value, nullptr, /*allow_exceptions=*/false);
  return (json.is_string() ? json.get<std::string>() : value).substr(0, kLongestParameter);
}

class MlflowRun final : public MetricSink {
 public:
  MlflowRun(base::FileSystem& files, const base::Path& store, const SinkRun& run)
      : files_(files), run_(run), id_(run_digest(run, 32)) {
    const auto experiment = std::filesystem::absolute(store).lexically_normal() / kExperiment;
    files.create_folders(experiment);
    if (!files.exists(experiment / "meta.yaml"))
      base::write_atomically(
          files, experiment / "meta.yaml",
          base::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
                       "lifecycle_stage: active\nname: {}\n",
                       yaml_text("file://" + experiment.string()), milliseconds(run.begun), kExperiment,
                       milliseconds(run.begun), kExperimentName));
    folder_ = experiment / id_;
    files.remove_all(folder_);
    for (const char* part : {"metrics", "params", "tags", "artifacts"}) files.create_folders(folder_ / part);
    keep("tags", "mlflow.runName", run.name);
    keep("tags", "mlflow.source.name", "hyperion");
    keep("tags", "mlflow.source.type", "LOCAL");
    for (const auto& [name, value] : run.settings) keep("params", name, plain(value));
    write_meta(RunStatus::kRunning, {});
  }

  void write(const StepRecord& record, double unix_seconds) override {
    add(named_values(record), record.step, unix_seconds);
  }
  void write(const EvalRecord& record, double unix_seconds) override {
    add(named_values(record), record.step, unix_seconds);
  }
  void end(const std::string& status, double unix_seconds) override {
    const bool well = status == "complete" || status == "stopped";
    write_meta(well                 ? RunStatus::kFinished
               : status == "failed" ? RunStatus::kFailed
                                    : RunStatus::kKilled,
               base::format("{}", milliseconds(unix_seconds)));
  }

 private:
  void keep(const char* kind, const std::string& name, const std::string& value) {
    files_.create(folder_ / kind / name)->append(value);
  }

  void add(const std::vector<NamedValue>& values, int64_t step, double unix_seconds) {
    for (const auto& [name, value] : values) {
      auto& file = metrics_[name];
      if (!file) {
        const auto path = folder_ / "metrics" / name;
        files_.create_folders(path.parent_path());
        file = files_.open_append(path);
      }
      file->append(base::format("{} {} {}\n", milliseconds(unix_seconds), value, step));
    }
  }

  void write_meta(int status, const std::string& ended) {
    base::write_atomically(
        files_, folder_ / "meta.yaml",
        base::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                     "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\n"
                     "source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: hyperion\n",
                     yaml_text("file://" + (folder_ / "artifacts").string()), ended.empty() ? "null" : ended,
                     kExperiment, yaml_text(id_), yaml_text(run_.name), yaml_text(id_), milliseconds(run_.begun),
                     status));
  }

  base::FileSystem& files_;
  SinkRun run_;
  std::string id_;
  base::Path folder_;
  std::map<std::string, std::unique_ptr<base::WritableFile>> metrics_;
};

}  // namespace

std::unique_ptr<MetricSink> open_mlflow(base::FileSystem& files, const base::Path& folder, const SinkRun& run) {
  return std::make_unique<MlflowRun>(files, folder, run);
}

}  // namespace hyperion::report
