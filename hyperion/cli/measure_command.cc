#include "hyperion/cli/measure_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/words.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/command/measured_rows.h"
#include "hyperion/device/device.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/run_state.h"

namespace hyperion::cli {
namespace {

using base::format;
using base::Json;

// What a run's checkpoint knows of its settings; an empty object for a folder.
Json settings_known(const base::Path& checkpoint) {
  if (checkpoint.empty()) return Json::object();
  return base::parse_json(train::read_known_settings(base::real_files(), checkpoint), checkpoint.string());
}

// A run was trained on samples of its train.length: further places may never have been learned.
int64_t length_read_by(const std::string& model) {
  auto& files = base::real_files();
  const Json known = settings_known(interop::checkpoint_folder(files, model));
  if (const auto length = known.find("train.length"); length != known.end()) return length->get<int64_t>();
  const auto shape = models::config_shape(interop::read_model_config(files, model), model, /*length=*/1);
  return shape.context > 0 ? shape.context : kMeasuredLength;
}

class Measuring {
 public:
  explicit Measuring(const EvalOptions& options)
      : options_(options), device_(device::open_device(options.device)), set_(options.set) {
    if (const auto asked = base::from_word<train::Precision>(options.precision)) type_ = train::compute_type(*asked);
    size_.batches = options.batches;
    if (set_.has_images()) return;
    size_.length = options.length > 0 ? options.length : kMeasuredLength;
    for (size_t i = 0; options.length == 0 && i < options.models.size(); ++i)
      size_.length = std::min(size_.length, length_read_by(options.models[i]));
  }

  void add(const std::string& model, const std::vector<std::string>& adapters);
  std::string text() const {
    return options_.json ? measured_json(set_, size_, rows_) : measured_table(set_, size_, rows_);
  }

 private:
  void add_row(const std::string& model, const interop::OpenedModel& opened, const std::string& form,
               const std::string& adapter);
  void add_merged(const std::string& model, const std::vector<std::string>& adapters, const std::string& name);

  const EvalOptions& options_;
  at::Device device_;
  std::optional<at::ScalarType> type_;
  data::MeasuredSet set_;
  train::MeasureSize size_;
  std::vector<MeasuredRow> rows_;
};

void Measuring::add_row(const std::string& model, const interop::OpenedModel& opened, const std::string& form,
                        const std::string& adapter) {
  base::ProgressLine progress;
  progress.show(format("measuring {}{}{}", model, form.empty() ? "" : ", ", form));
  MeasuredRow row{model, form, adapter, opened.step, {}, opened.quantized, {}};
  row.precision = train::precision_name(opened.model->parameters().front().tensor.scalar_type());
  row.result = train::measure(opened, device_, set_, size_);
  progress.clear();
  if (row.result.counted == 0)
    throw base::ConfigError(format("{} has nothing that the loss counts in what was measured", set_.folder().string()),
                            "leave --batches out, or prepare more");
  const std::string which =
      format("{}{}{}{}{}", model, form.empty() ? "" : ", ", form, adapter.empty() ? "" : " ", adapter);
  expect_finite_loss(which, row.result.loss);
  rows_.push_back(std::move(row));
}

// As `export` writes it: into whole weights, as they are kept, and only then in the type that was asked for.
void Measuring::add_merged(const std::string& model, const std::vector<std::string>& adapters,
                           const std::string& name) {
  const auto open = adapters.empty() ? interop::open_model : interop::open_beneath;
  auto opened = open(base::real_files(), model, device_, {}, interop::WeightForm::as_kept);
  add_adapters(opened, adapters);
  opened.model->adapters().merge(name);
  if (type_) opened.model->to(device_, *type_);
  add_row(model, opened, "merged", name);
}

void Measuring::add(const std::string& model, const std::vector<std::string>& adapters) {
  std::vector<std::string> names;
  {
    auto opened =
        open_in_form(model, device_, options_.quantize, type_, adapters.empty() ? Laid::nothing : Laid::an_adapter);
    const std::string trained = settings_known(opened.checkpoint).value("train.precision", std::string());
    device::allow_tf32((options_.precision.empty() ? trained : options_.precision) ==
                       base::word_of(train::Precision::tf32));
    const base::Path pixels_of_base = opened.folder;
    add_adapters(opened, adapters);
    for (const auto& line : train::check_measurable(base::real_files(), set_, opened, model, size_))
      base::log_warn(line);
    nn::Adapters& beside = opened.model->adapters();
    names = beside.names();
    if (names.empty()) return add_row(model, opened, "", "");
    const nn::LoraConfig& first = beside.config(names.front());
    if (first.saved.empty() && first.token_rows.empty()) {
      beside.use("");
      const base::Path pixels = std::exchange(opened.folder, pixels_of_base);
      add_row(model, opened, "base", "");
      opened.folder = pixels;
    } else {
      base::log_info(format("{} has no row for its base: the adapter has modules or tokens of its own", model));
    }
    for (const auto& name : names) {
      beside.use(name);
      add_row(model, opened, "adapter", name);
    }
  }  // there may be no room for two
  for (const auto& name : names) add_merged(model, adapters, name);
}

}  // namespace

void expect_finite_loss(const std::string& which, double loss) {
  if (std::isfinite(loss)) return;
  throw base::Error(
      format("the weights of {} are not finite, or too large to compute with: the loss is {}", base::printable(which),
             loss),
      "use an earlier checkpoint, or fetch the weights again; of fp16 weights a bf16 or fp32 copy may do");
}

int measure_command(const EvalOptions& options) {
  Measuring measuring(options);
  for (size_t i = 0; i < options.models.size(); ++i)
    measuring.add(options.models[i], i == 0 ? options.adapters : std::vector<std::string>());
  std::printf("%s", measuring.text().c_str());
  return 0;
}

}  // namespace hyperion::cli
