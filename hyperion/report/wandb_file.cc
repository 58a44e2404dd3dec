// Weights & Biases' file of a run that was offline: LevelDB's log of Records of wandb_internal.proto, whose field
// numbers these are. `wandb sync` sends it, `wandb leet` shows it.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/crc32.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/protobuf_message.h"
#include "hyperion/base/version.h"
#include "hyperion/report/metric_sink.h"
#include "hyperion/report/metric_values.h"

namespace hyperion::report {
namespace {

using base::Json;
using base::ProtobufMessage;

struct RecordFields {
  enum : int { kNumber = 1, kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21, kInfo = 200 };
};
struct RunFields {
  enum : int { kId = 1, kProject = 3, kConfig = 4, kDisplayName = 8, kHost = 13, kStartTime = 17 };
};
struct ItemFields {
  enum : int { kKey = 1, kNestedKey = 2, kJson = 16 };
};

// LevelDB's log: blocks of 32 KiB, records cut where a block ends; but with zip's checksum, unmasked.
class LevelDbLog {
 public:
  explicit LevelDbLog(std::unique_ptr<base::WritableFile> file) : file_(std::move(file)) {
    file_->append(std::string(":W&B\xE1\xBE\0", kFileHeader));
    in_block_ = kFileHeader;
  }

  void append(std::string_view record) {
    std::string out;
    for (bool first = true, last = false; !last; first = false) {
      if (kBlock - in_block_ < kHeader) {
        out.append(kBlock - in_block_, '\0');
        in_block_ = 0;
      }
      const size_t size = std::min(record.size(), kBlock - in_block_ - kHeader);
      last = size == record.size();
      std::string typed(1, static_cast<char>(first ? (last ? kWhole : kFirst) : (last ? kLast : kMiddle)));
      typed += record.substr(0, size);
      const uint32_t crc = base::crc32<base::kCrcIeee>(typed);
      for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(crc >> (8 * i)));
      out.push_back(static_cast<char>(size));
      out.push_back(static_cast<char>(size >> 8));
      out += typed;
      in_block_ += kHeader + size;
      record.remove_prefix(size);
    }
    file_->append(out);
  }

 private:
  static constexpr size_t kBlock = 32768, kHeader = 7, kFileHeader = 7;
  enum Piece : char { kWhole = 1, kFirst, kMiddle, kLast };
  std::unique_ptr<base::WritableFile> file_;
  size_t in_block_ = 0;
};

ProtobufMessage item(int key_field, std::string_view key, std::string_view json) {
  ProtobufMessage message;
  message.text(key_field, key);
  message.text(ItemFields::kJson, json);
  return message;
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return base::format("{}", value);
}

// {"train": {"batch": 32, ...}, ...}
Json settings_tree(const SinkRun& run) {
  Json tree = Json::object();
  for (const auto& [name, text] : run.settings) {
    const size_t dot = name.find('.');
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) value = text;
    if (dot == name.npos)
      tree[name] = value;
    else
      tree[name.substr(0, dot)][name.substr(dot + 1)] = value;
  }
  return tree;
}

class WandbFile final : public MetricSink {
 public:
  WandbFile(base::FileSystem& files, const base::Path& folder, const SinkRun& run)
      : id_(run_digest(run, 8)), begun_(run.begun) {
    std::string stamp = base::file_stamp(run.begun);
    stamp[8] = '_';
    const auto path = folder / ("offline-run-" + stamp + "-" + id_);
    files.create_folders(path);
    log_.emplace(files.create(path / ("run-" + id_ + ".wandb")));
    write_header(run);
  }

  // W&B keeps one row a step, so a step is written when no evaluation of it can come any more.
  ~WandbFile() override {
    try {
      flush();
    } catch (const std::exception&) {  // of a full disk
    }
  }

  void write(const StepRecord& record, double unix_seconds) override {
    add(record.step, named_values(record), unix_seconds);
  }
  void write(const EvalRecord& record, double unix_seconds) override {
    add(record.step, named_values(record), unix_seconds);
  }

  void end(const std::string& status, double unix_seconds) override {
    flush();
    ProtobufMessage exit, record;
    exit.number(1, status == "complete" || status == "stopped" ? 0 : 1);
    exit.number(2, static_cast<uint64_t>(std::max(0.0, unix_seconds - begun_)));
    record.text(RecordFields::kExit, exit.bytes());
    append(record);
  }

 private:
  void write_header(const SinkRun& run) {
    ProtobufMessage version, header, record;
    version.text(1, "hyperion " + base::version_text());
    header.text(1, version.bytes());
    record.text(RecordFields::kHeader, header.bytes());
    append(record);

    ProtobufMessage config, start, whole;
    const Json settings = settings_tree(run);
    for (const auto& [section, values] : settings.items())
      config.text(1,
                  item(ItemFields::kKey, section, values.dump(-1, ' ', false, Json::error_handler_t::replace)).bytes());
    start.number(1, static_cast<uint64_t>(run.begun));
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    whole.text(RunFields::kId, id_);
    whole.text(RunFields::kProject, "hyperion");
    whole.text(RunFields::kConfig, config.bytes());
    whole.text(RunFields::kDisplayName, run.name);
    whole.text(RunFields::kHost, host);
    whole.text(RunFields::kStartTime, start.bytes());
    record.clear();
    record.text(RecordFields::kRun, whole.bytes());
    append(record);
  }

  void add(int64_t step, std::vector<NamedValue> values, double unix_seconds) {
    if (!row_.empty() && step != step_) flush();
    step_ = step;
    for (auto& value : values) row_.push_back(std::move(value));
    ended_ = unix_seconds;
  }

  void flush() {
    if (row_.empty()) return;
    auto row = std::exchange(row_, {});
    row.push_back({"_timestamp", ended_});
    row.push_back({"_runtime", ended_ - begun_});
    ProtobufMessage history, summary, step, record;
    const auto add_item = [&](std::string_view name, const std::string& json) {
      history.text(1, item(ItemFields::kNestedKey, name, json).bytes());
      summary.text(1, item(ItemFields::kNestedKey, name, json).bytes());
    };
    for (const auto& [name, value] : row) add_item(name, json_number(value));
    add_item("_step", base::format("{}", step_));
    step.number(1, static_cast<uint64_t>(step_));
    history.text(2, step.bytes());
    record.text(RecordFields::kHistory, history.bytes());
    append(record);
    record.clear();
    record.text(RecordFields::kSummary, summary.bytes());
    append(record);
  }

  void append(const ProtobufMessage& content) {
    ProtobufMessage numbered, info;
    numbered.number(RecordFields::kNumber, ++records_);
    info.text(1, id_);
    const std::string record = std::string(numbered.bytes()) + std::string(content.bytes());
    numbered.clear();
    numbered.text(RecordFields::kInfo, info.bytes());
    log_->append(record + std::string(numbered.bytes()));
  }

  std::string id_;
  double begun_, ended_ = 0;
  std::optional<LevelDbLog> log_;
  uint64_t records_ = 0;
  int64_t step_ = 0;
  std::vector<NamedValue> row_;  // of step_
};

}  // namespace

std::unique_ptr<MetricSink> open_wandb(base::FileSystem& files, const base::Path& folder, const SinkRun& run) {
  return std::make_unique<WandbFile>(files, folder, run);
}

}  // namespace hyperion::report
