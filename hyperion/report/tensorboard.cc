// TensorBoard's event files: records of TFRecord, each an Event of event.proto. The numbers of fields are those of the
// published event.proto, summary.proto and tensor.proto.
#include <unistd.h>

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/base/crc32.h"
#include "hyperion/base/format.h"
#include "hyperion/base/protobuf_message.h"
#include "hyperion/report/metric_sink.h"
#include "hyperion/report/metric_values.h"

namespace hyperion::report {
namespace {

using base::ProtobufMessage;

struct EventFields {
  enum : int { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
};
struct ValueFields {
  enum : int { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };
};
constexpr uint64_t kSessionStart = 1, kTensorClass = 2, kStringType = 7;
constexpr std::string_view kNamePrefix = "events.out.tfevents.";

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

uint32_t record_crc(std::string_view bytes) { return base::masked_crc(base::crc32<base::kCrcCastagnoli>(bytes)); }

std::string tf_record(std::string_view payload) {
  const std::string length = little_endian(payload.size(), 8);
  std::string record = length + little_endian(record_crc(length), 4);
  record += payload;
  return record + little_endian(record_crc(payload), 4);
}

ProtobufMessage event_at(double unix_seconds, int64_t step) {
  ProtobufMessage event;
  event.real(EventFields::kWallTime, unix_seconds);
  event.number(EventFields::kStep, static_cast<uint64_t>(step));
  return event;
}

ProtobufMessage text_value(std::string_view tag, std::string_view markdown) {
  ProtobufMessage plugin, metadata, tensor, value;
  plugin.text(1, "text");
  metadata.text(1, plugin.bytes());
  metadata.number(4, kTensorClass);
  tensor.number(1, kStringType);
  tensor.text(2, "");  // a shape of no dimensions
  tensor.text(8, markdown);
  value.text(ValueFields::kTag, tag);
  value.text(ValueFields::kTensor, tensor.bytes());
  value.text(ValueFields::kMetadata, metadata.bytes());
  return value;
}

ProtobufMessage summary_of(const std::vector<NamedValue>& values) {
  ProtobufMessage summary, value;
  for (const auto& [name, number] : values) {
    value.clear();
    value.text(ValueFields::kTag, name);
    value.real32(ValueFields::kSimpleValue, static_cast<float>(number));
    summary.text(1, value.bytes());
  }
  return summary;
}

// Four blanks before each line: code, as Markdown has it, whatever is in it.
std::string as_code(std::string_view text) {
  std::string code = "    ";
  for (const char c : text) code += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return code;
}

class TensorBoardFile final : public MetricSink {
 public:
  TensorBoardFile(base::FileSystem& files, const base::Path& folder, const SinkRun& run) {
    const auto older = files.list(folder);
    files.create_folders(folder);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const auto path =
        folder / base::format("{}{:010.0f}.{}.{}.0", kNamePrefix, base::real_clock().unix_seconds(), host, getpid());
    file_ = files.create(path);
    ProtobufMessage version;
    version.real(EventFields::kWallTime, run.begun);
    version.text(EventFields::kFileVersion, "brain.Event:2");
    file_->append(tf_record(version.bytes()));
    // A reader that has read an older file of this run forgets it.
    auto start = event_at(run.begun, 0);
    ProtobufMessage session;
    session.number(1, kSessionStart);
    start.text(EventFields::kSessionLog, session.bytes());
    file_->append(tf_record(start.bytes()));
    if (!run.settings.empty()) write_settings(run);
    for (const auto& file : older)
      if (file != path && file.filename().string().starts_with(kNamePrefix)) files.remove_all(file);
  }

  void write(const StepRecord& record, double unix_seconds) override {
    write_summary(summary_of(named_values(record)), record.step, unix_seconds);
  }

  void write(const EvalRecord& record, double unix_seconds) override {
    auto summary = summary_of(named_values(record));
    std::string answers;
    for (const auto& [prompt, text] : record.samples) answers += as_code(prompt + text) + "\n\n---\n\n";
    if (!answers.empty()) summary.text(1, text_value(record.split + "/answers", answers).bytes());
    write_summary(summary, record.step, unix_seconds);
  }

  void end(const std::string&, double) override {}

 private:
  void write_settings(const SinkRun& run) {
    std::string table = "| setting | value |\n|---|---|\n";
    for (const auto& [name, value] : run.settings) {
      std::string cell = value;
      std::replace(cell.begin(), cell.end(), '\n', ' ');
      table += base::format("| {} | `{}` |\n", name, cell);
    }
    ProtobufMessage summary;
    summary.text(1, text_value("settings", table).bytes());
    write_summary(summary, 0, run.begun);
  }

  void write_summary(const ProtobufMessage& summary, int64_t step, double unix_seconds) {
    auto event = event_at(unix_seconds, step);
    event.text(EventFields::kSummary, summary.bytes());
    file_->append(tf_record(event.bytes()));
  }

  std::unique_ptr<base::WritableFile> file_;
};

}  // namespace

std::unique_ptr<MetricSink> open_tensorboard(base::FileSystem& files, const base::Path& folder, const SinkRun& run) {
  return std::make_unique<TensorBoardFile>(files, folder, run);
}

}  // namespace hyperion::report
