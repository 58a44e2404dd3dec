#include "hyperion/report/metric_tables.h"

#include "hyperion/base/format.h"
#include "hyperion/report/metric_fields.h"

namespace hyperion::report {
namespace {

std::string cell(int64_t value) { return base::format("{}", value); }
std::string cell(double value) { return base::format("{}", value); }
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}
template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? cell(*value) : "";
}

struct Header {
  std::string line = "run";
  template <class T>
  void operator()(const char* key, const T&) {
    line += std::string(",") + key;
  }
};
struct Row {
  std::string line;
  template <class T>
  void operator()(const char*, const T& value) {
    line += "," + cell(value);
  }
};

}  // namespace

std::string csv_header_of_steps() {
  Header header;
  const StepRecord any;
  each_field(any, header);
  return header.line + "\n";
}

std::string csv_header_of_evaluations() {
  Header header;
  const EvalRecord any;
  each_eval_field(any, header);
  return header.line + "\n";
}

std::string csv_row(const std::string& run, const StepRecord& record) {
  Row row{cell(run)};
  each_field(record, row);
  return row.line + "\n";
}

std::string csv_row(const std::string& run, const EvalRecord& record) {
  Row row{cell(run)};
  each_eval_field(record, row);
  return row.line + "\n";
}

}  // namespace hyperion::report
