#include "hyperion/records/parquet.h"

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/util/thread_pool.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/text/json_text.h"

namespace hyperion::records {
namespace {

constexpr int64_t kRows = 256;

bool is_readable(const arrow::DataType& type) {
  using arrow::Type;
  switch (type.id()) {
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::STRUCT:
    case Type::BOOL:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::NA:
      return true;
    case Type::DICTIONARY:
      return is_readable(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return arrow::is_integer(type.id());
  }
}

void write_string(std::string_view text, std::string& out) {
  out += '"';
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    const char* plain_end = text::find_string_break(at, end);
    out.append(at, plain_end);
    if ((at = plain_end) == end) break;
    switch (*at) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += base::format("\\u{:04x}", static_cast<int>(*at));
    }
  }
  out += '"';
}

void write_value(const arrow::Array& array, int64_t at, std::string& out);

template <class List>
void write_list(const arrow::Array& array, int64_t at, std::string& out) {
  const auto& list = static_cast<const List&>(array);
  out += '[';
  for (int64_t i = list.value_offset(at), end = i + list.value_length(at), begin = i; i < end; ++i) {
    if (i > begin) out += ',';
    write_value(*list.values(), i, out);
  }
  out += ']';
}

void write_object(const std::vector<std::shared_ptr<arrow::Field>>& fields,
                  const std::vector<std::shared_ptr<arrow::Array>>& columns, int64_t at, std::string& out) {
  out += '{';
  bool first = true;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!is_readable(*fields[i]->type())) continue;
    if (!std::exchange(first, false)) out += ',';
    write_string(fields[i]->name(), out);
    out += ':';
    write_value(*columns[i], at, out);
  }
  out += '}';
}

void write_value(const arrow::Array& array, int64_t at, std::string& out) {
  using arrow::Type;
  if (array.IsNull(at) || !is_readable(*array.type())) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case Type::STRING:
      return write_string(static_cast<const arrow::StringArray&>(array).GetView(at), out);
    case Type::LARGE_STRING:
      return write_string(static_cast<const arrow::LargeStringArray&>(array).GetView(at), out);
    case Type::LIST:
      return write_list<arrow::ListArray>(array, at, out);
    case Type::LARGE_LIST:
      return write_list<arrow::LargeListArray>(array, at, out);
    case Type::STRUCT:
      return write_object(array.type()->fields(), static_cast<const arrow::StructArray&>(array).fields(), at, out);
    case Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return write_value(*words.dictionary(), words.GetValueIndex(at), out);
    }
    case Type::FLOAT:
    case Type::DOUBLE: {
      const double value = array.type_id() == Type::FLOAT ? static_cast<const arrow::FloatArray&>(array).Value(at)
                                                          : static_cast<const arrow::DoubleArray&>(array).Value(at);
      out += std::isfinite(value) ? base::format("{}", value) : "null";  // JSON has no other word
      return;
    }
    default:
      out += array.GetScalar(at).ValueOrDie()->ToString();
  }
}

class ParquetRecords final : public RawRecords {
 public:
  ParquetRecords(const base::Path& path, const RecordLimits& limits)
      : file_(std::make_shared<const std::string>(path.string())), limits_(limits) {
    // The source is a pipeline of threads of its own; Arrow's would come on top.
    static const bool once = arrow::SetCpuThreadPoolCapacity(1).ok();
    (void)once;
    guarded([&] {
      parquet::arrow::FileReaderBuilder builder;
      parquet::ReaderProperties properties;
      properties.enable_buffered_stream();
      parquet::ArrowReaderProperties arrow_properties;
      arrow_properties.set_use_threads(false);
      arrow_properties.set_pre_buffer(false);
      arrow_properties.set_batch_size(kRows);
      check(builder.Open(value(arrow::io::ReadableFile::Open(path.string())), properties));
      check(builder.properties(arrow_properties)->Build(&reader_));
      batches_ = value(reader_->GetRecordBatchReader());
    });
  }

  bool next(RawRecord& record) override {
    while (reader_ && (!batch_ || at_ == batch_->num_rows())) guarded([&] { next_batch(); });
    if (!reader_) return false;
    record.bytes.clear();
    record.file = file_;
    record.line = ++row_;
    record.byte = 0;
    guarded([&] { write_object(batch_->schema()->fields(), batch_->columns(), at_++, record.bytes); });
    if (record.bytes.size() > limits_.record)
      throw BadRecord(*file_, row_, base::format("the row has more than {}", base::bytes_text(limits_.record)));
    return true;
  }

 private:
  void next_batch() {
    at_ = 0;
    check(batches_->ReadNext(&batch_));
    if (!batch_) return close();
    check(batch_->ValidateFull());  // a damaged file may hold offsets that point anywhere
  }

  void close() {
    batches_.reset();
    reader_.reset();
  }

  // What Arrow says or throws is the file's fault; after it the file is over.
  template <class Work>
  void guarded(Work work) {
    std::string reason;
    try {
      return work();
    } catch (const BadRecord& bad) {
      reason = bad.reason;
    } catch (const std::exception& error) {
      reason = error.what();
    }
    close();
    throw BadRecord(*file_, 0, base::format("cannot be read as Parquet: {}", reason));
  }

  void check(const arrow::Status& status) const {
    if (!status.ok()) throw BadRecord(*file_, 0, status.message());
  }
  template <class T>
  T value(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  std::shared_ptr<const std::string> file_;
  RecordLimits limits_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;  // none once the file is over
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t at_ = 0, row_ = 0;
};

}  // namespace

std::unique_ptr<RawRecords> open_parquet(const base::Path& path, const RecordLimits& limits) {
  if (base::real_files().size(path) == 0) throw BadRecord(path.string(), 0, "is empty");
  char beginning[4] = {};
  std::ifstream(path, std::ios::binary).read(beginning, sizeof beginning);
  const std::string_view magic(beginning, sizeof beginning);
  if (magic.starts_with("\x1f\x8b") || magic == "\x28\xb5\x2f\xfd")
    throw BadRecord(path.string(), 0, "is packed: Parquet is packed inside, and read only so; unpack the file");
  if (magic != "PAR1") throw BadRecord(path.string(), 0, "is not a Parquet file: it does not begin with PAR1");
  return std::make_unique<ParquetRecords>(path, limits);
}

}  // namespace hyperion::records
