#include "hyperion/records/raw_records.h"

#include <algorithm>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/log.h"
#include "hyperion/records/framing.h"
#include "hyperion/records/open_bytes.h"
#include "hyperion/records/parquet.h"
#include "hyperion/text/unicode.h"

namespace hyperion::records {
namespace {

constexpr size_t kBeginning = 4096;  // bytes by which a file is judged

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

class Lines {
 public:
  explicit Lines(FramedFile file) : file_(std::move(file)) {}

  // Without the line end, \n or \r\n. False at the end. Of a line that is too large the first bytes.
  bool next(std::string& line) {
    line.clear();
    ++number_;
    begin_ = file_.bytes.position();
    too_large_ = false;
    bool any = false;
    for (std::string_view piece; !(piece = file_.bytes.peek()).empty();) {
      any = true;
      const size_t end = std::min(piece.find('\n'), piece.size());
      if (line.size() + end > file_.limits.record) too_large_ = true;
      if (!too_large_) line.append(piece.data(), end);
      file_.bytes.skip(std::min(end + 1, piece.size()));
      if (end < piece.size()) break;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return any;
  }

  int64_t number() const { return number_; }
  uint64_t begin() const { return begin_; }
  bool too_large() const { return too_large_; }
  const FramedFile& file() const { return file_; }

 private:
  FramedFile file_;
  int64_t number_ = 0;
  uint64_t begin_ = 0;
  bool too_large_ = false;
};

class LineRecords final : public RawRecords {
 public:
  explicit LineRecords(FramedFile file) : lines_(std::move(file)) {}

  bool next(RawRecord& record) override {
    while (lines_.next(record.bytes)) {
      if (lines_.too_large()) throw lines_.file().too_large(lines_.number(), "the line");
      if (is_blank(record.bytes)) continue;
      record.file = lines_.file().name;
      record.line = lines_.number();
      record.byte = lines_.begin();
      return true;
    }
    return false;
  }

 private:
  Lines lines_;
};

// " = Title = ", and not " = = Section = = ".
bool is_title(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  line = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  return line.size() >= 5 && line.starts_with("= ") && line.ends_with(" =") && line[2] != '=' &&
         line[line.size() - 3] != '=';
}

class WikiTextRecords final : public RawRecords {
 public:
  explicit WikiTextRecords(FramedFile file) : lines_(std::move(file)) {}

  bool next(RawRecord& record) override {
    record.bytes.clear();
    record.file = lines_.file().name;
    bool begun = false, too_large = false;
    for (;;) {
      if (!std::exchange(waiting_, false)) {
        if (!lines_.next(line_)) break;
        if (!lines_.too_large() && is_blank(line_)) {
          after_blank_ = true;
          continue;
        }
        const bool is_heading = std::exchange(after_blank_, false) && is_title(line_);
        if (is_heading && begun) {
          waiting_ = true;
          break;
        }
      }
      if (!begun) {
        record.line = lines_.number();
        record.byte = lines_.begin();
        begun = true;
      }
      too_large |= lines_.too_large() || record.bytes.size() + line_.size() >= lines_.file().limits.record;
      if (!too_large) (record.bytes += line_) += '\n';
    }
    if (too_large) throw lines_.file().too_large(record.line, "the article");
    return begun;
  }

 private:
  Lines lines_;
  std::string line_;
  bool waiting_ = false;  // line_ is the heading of the next article
  bool after_blank_ = true;
};

class TextRecords final : public RawRecords {
 public:
  explicit TextRecords(FramedFile file) : file_(std::move(file)) {}

  bool next(RawRecord& record) override {
    const size_t most = file_.limits.text_piece;
    record.bytes = std::exchange(rest_, {});
    record.file = file_.name;
    record.line = line_;
    record.byte = file_.bytes.position() - record.bytes.size();
    while (record.bytes.size() < most) {
      const std::string_view piece = file_.bytes.peek().substr(0, most - record.bytes.size());
      if (piece.empty()) break;
      record.bytes += piece;
      file_.bytes.skip(piece.size());
    }
    // What is cut off begins the next piece, so no byte is moved twice.
    if (record.bytes.size() == most && !file_.bytes.peek().empty()) {
      const size_t cut = last_break(record.bytes);
      rest_ = record.bytes.substr(cut);
      record.bytes.resize(cut);
    }
    line_ += std::count(record.bytes.begin(), record.bytes.end(), '\n');
    return !record.bytes.empty();
  }

 private:
  static size_t last_break(std::string_view text) {
    if (const size_t end = text.rfind('\n'); end != std::string_view::npos) return end + 1;
    for (size_t cut = text.size() - 1; cut > 0 && cut + 4 > text.size(); --cut)
      if ((text[cut] & 0xC0) == 0xC0) return cut;
    return text.size();
  }

  FramedFile file_;
  std::string rest_;
  int64_t line_ = 1;
};

class FileRecords final : public RawRecords {
 public:
  FileRecords(std::vector<base::Path> files, RecordFormat format, const RecordLimits& limits)
      : files_(std::move(files)), format_(format), limits_(limits) {}

  bool next(RawRecord& record) override {
    for (; at_ < files_.size(); close()) {
      try {
        if (!open_)
          open_ = format_ == RecordFormat::parquet ? open_parquet(files_[at_], limits_)
                                                   : frame_records(open_bytes(files_[at_]), name(), format_, limits_);
        if (open_->next(record)) {
          gave_ = true;
          return true;
        }
        if (!std::exchange(gave_, true)) throw BadRecord(*name(), 0, "holds no record");
      } catch (const BadRecord&) {
        gave_ = true;  // of a file that was told of, it is not told again that it holds none
        if (!open_) close();
        throw;
      }
    }
    return false;
  }

 private:
  std::shared_ptr<const std::string> name() const { return std::make_shared<const std::string>(files_[at_].string()); }
  void close() {
    open_.reset();
    gave_ = false;
    ++at_;
  }

  std::vector<base::Path> files_;
  RecordFormat format_;
  RecordLimits limits_;
  size_t at_ = 0;
  std::unique_ptr<RawRecords> open_;
  bool gave_ = false;
};

// Any byte has a token, so that a file of something else would be learned as it is.
void warn_of_bytes(std::string_view beginning, const std::string& name) {
  const size_t valid = std::min(text::valid_prefix(beginning), beginning.find('\0'));
  if (valid + 4 > beginning.size()) return;  // a character may be cut off at the end
  base::log_warn(base::format("{} is no text in UTF-8 (byte {}); its bytes are taken as they are", name, valid));
}

}  // namespace

std::unique_ptr<RawRecords> frame_records(std::unique_ptr<ByteStream> stream, std::shared_ptr<const std::string> name,
                                          RecordFormat format, const RecordLimits& limits) {
  FramedFile file{BufferedBytes(std::move(stream)), std::move(name), limits};
  HYPERION_CHECK(format != RecordFormat::parquet, "Parquet is read from a file, not from a stream");
  const std::string_view beginning = file.bytes.peek(4);
  if (beginning.empty()) throw BadRecord(*file.name, 0, "is empty");
  if (beginning.starts_with("PAR1"))
    throw BadRecord(*file.name, 0, "is a Parquet file; set format = \"parquet\", and unpack it where it is packed");
  if (format == RecordFormat::text || format == RecordFormat::lines || format == RecordFormat::wikitext)
    warn_of_bytes(beginning.substr(0, kBeginning), *file.name);
  if (beginning.starts_with("\xEF\xBB\xBF") && format != RecordFormat::tar) file.bytes.skip(3);
  switch (format) {
    case RecordFormat::text:
      return std::make_unique<TextRecords>(std::move(file));
    case RecordFormat::wikitext:
      return std::make_unique<WikiTextRecords>(std::move(file));
    case RecordFormat::json:
      return frame_json(std::move(file));
    case RecordFormat::tar:
      return frame_tar(std::move(file));
    default:
      return std::make_unique<LineRecords>(std::move(file));
  }
}

std::unique_ptr<RawRecords> open_raw_records(std::vector<base::Path> files, RecordFormat format,
                                             const RecordLimits& limits) {
  return std::make_unique<FileRecords>(std::move(files), format, limits);
}

}  // namespace hyperion::records
