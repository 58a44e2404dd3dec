#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/event_block.h"
#include "hyperion/trace/trace_blocks.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {
namespace {

// A block is closed where one of these is reached.
constexpr size_t kBlockNumbers = size_t{1} << 21, kBlockStreams = size_t{1} << 16, kBlockText = size_t{8} << 20;

// The numbers that a trace's texts have in the file, given where they are first used.
class FileTexts {
 public:
  // `numbers`: of the trace that is being written, by its own numbers; kNoString: none yet.
  uint32_t number(const StringPool& texts, uint32_t id, std::vector<uint32_t>& numbers) {
    if (numbers.size() <= id) numbers.resize(std::max<size_t>(texts.size(), id + 1), kNoString);
    if (numbers[id] == kNoString) {
      const size_t before = pool_.size();
      numbers[id] = pool_.add(texts[id]);
      if (pool_.size() > before) added_bytes_ += texts[id].size() + 1;
    }
    return numbers[id];
  }
  size_t added_bytes() const { return added_bytes_; }
  std::string_view operator[](uint32_t number) const { return pool_[number]; }

  // Those that are new since the last call.
  void write(PayloadWriter& out) {
    std::string bytes;
    for (size_t i = written_; i < pool_.size(); ++i) {
      append_varint(bytes, pool_[static_cast<uint32_t>(i)].size());
      bytes += pool_[static_cast<uint32_t>(i)];
    }
    out.number(pool_.size() - std::exchange(written_, pool_.size()));
    out.stretch(bytes);
    added_bytes_ = 0;
  }

 private:
  StringPool pool_;
  size_t written_ = 0, added_bytes_ = 0;
};

// Rows of a table that has no pool: types, tracks.
class FileRows {
 public:
  uint64_t number(const std::string& row) {
    const auto [found, added] = numbers_.try_emplace(row, numbers_.size());
    if (added) {
      new_rows_ += row;
      ++new_count_;
    }
    return found->second;
  }
  size_t added_bytes() const { return new_rows_.size(); }
  void write(PayloadWriter& out) {
    out.number(std::exchange(new_count_, 0));
    out.stretch(std::exchange(new_rows_, {}));
  }

 private:
  std::unordered_map<std::string, uint64_t> numbers_;
  std::string new_rows_;
  size_t new_count_ = 0;
};

void append_text(std::string& out, std::string_view text) {
  append_varint(out, text.size());
  out += text;
}

// What numbers the tables of a trace have in the file.
struct Translation {
  std::vector<uint32_t> names, forms, texts;
  std::vector<uint64_t> types, tracks;
};
constexpr uint64_t kNotYet = UINT64_MAX;

}  // namespace

class TraceFileWriter::Work {
 public:
  Work(base::FileSystem& files, base::Path path)
      : files_(files), path_(std::move(path)), partial_(base::partial_path(path_)), file_(files_.create(partial_)) {}

  void begin(const FileFacts& facts) {
    append(file_header());
    PayloadWriter out;
    out.number(facts.bare ? 1 : 0);
    out.number(facts.members.size());
    std::string members;
    for (const auto& member : facts.members) {
      append_text(members, member.key);
      append_text(members, member.value);
    }
    out.stretch(members);
    write_block(BlockKind::facts, std::move(out).finish());
  }

  ~Work() {
    if (file_ == nullptr) return;
    try {
      file_.reset();
      files_.remove_all(partial_);
    } catch (const base::Error&) {  // what failed first is what is told
    }
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void write(const Trace& trace) {
    Translation known;
    known.types.assign(trace.types.size(), kNotYet);
    known.tracks.assign(trace.tracks.size(), kNotYet);
    for (size_t i = 0; i < trace.size(); ++i) {
      add(trace, i, known);
      const size_t texts = names_.added_bytes() + forms_.added_bytes() + texts_.added_bytes() + tracks_.added_bytes();
      if (block_.rows.size() == kMostBlockEvents || block_.numbers >= kBlockNumbers || streams_ >= kBlockStreams ||
          texts >= kBlockText)
        flush();
    }
  }

  void finish() {
    flush();
    write_block(BlockKind::end, {});
    file_->sync();
    file_.reset();
    try {
      files_.rename(partial_, path_);
    } catch (const base::Error&) {
      files_.remove_all(partial_);
      throw;
    }
  }

 private:
  void append(std::string_view bytes) { file_->append(bytes); }

  void write_block(BlockKind kind, const std::string& payload) {
    const auto events = static_cast<uint32_t>(block_.rows.size());
    if (payload.size() > kMostPayload) throw base::Error(base::format("an event of {} is too long", path_.string()));
    append(block_header({kind, events, written_, payload.size()}, payload));
    append(payload);
    written_ += events;
  }

  void flush() {
    if (block_.rows.empty()) return;
    std::sort(block_.forms.begin(), block_.forms.end(),
              [](const FormRows& a, const FormRows& b) { return a.form < b.form; });
    PayloadWriter out;
    names_.write(out);
    texts_.write(out);
    forms_.write(out);
    types_.write(out);
    tracks_.write(out);
    write_events(block_, out);
    write_block(BlockKind::events, std::move(out).finish());
    block_ = {};
    form_rows_.clear();
    streams_ = 0;
  }

  uint64_t type_number(const Trace& trace, uint16_t type, Translation& known) {
    uint64_t& number = known.types[type];
    if (number == kNotYet) {
      const auto& said = trace.types[type];
      std::string row(1, said.phase);
      const bool category = said.category_name != kNoString;
      append_varint(row, category ? names_.number(trace.names, said.category_name, known.names) + 1 : 0);
      number = types_.number(row);
    }
    return number;
  }

  uint64_t track_number(const Trace& trace, uint32_t track, Translation& known) {
    uint64_t& number = known.tracks[track];
    if (number == kNotYet) {
      const auto& said = trace.tracks[track];
      std::string row;
      append_text(row, said.pid);
      append_text(row, said.tid);
      append_varint(row, zigzag(said.device));
      append_varint(row, zigzag(said.stream));
      number = tracks_.number(row);
    }
    return number;
  }

  void add(const Trace& trace, size_t i, Translation& known) {
    EventRow row = {};
    const uint64_t type = type_number(trace, trace.type[i], known);
    at(row, EventColumn::track) = track_number(trace, trace.track[i], known);
    if (trace.name[i] != kNoString)
      at(row, EventColumn::name) = names_.number(trace.names, trace.name[i], known.names) + 1;
    at(row, EventColumn::correlation) = static_cast<uint64_t>(trace.correlation(i));
    at(row, EventColumn::external) = static_cast<uint64_t>(trace.external(i));
    at(row, EventColumn::begin) = static_cast<uint64_t>(trace.begin[i]);
    at(row, EventColumn::duration) = static_cast<uint64_t>(trace.duration[i]);
    const auto packed = trace.fields.packed(i);
    if (!packed.empty()) at(row, EventColumn::form) = add_fields(trace, packed, known) + 1;
    block_.types.push_back(type);
    block_.rows.push_back(row);
  }

  // The number of the form.
  uint64_t add_fields(const Trace& trace, std::string_view packed, Translation& known) {
    const char* at = packed.data();
    const char* const end = at + packed.size();
    const auto form_id = static_cast<uint32_t>(take_varint(at, end));
    const uint32_t number = forms_.number(trace.fields.forms, form_id, known.forms);
    auto& rows = rows_of(number);
    rows.events.push_back(static_cast<uint32_t>(block_.rows.size()));
    for (size_t piece = 0; piece < rows.pieces.size(); ++piece) {
      uint64_t value = 0;
      if (rows.pieces[piece] == Piece::fraction)
        value = static_cast<unsigned char>(at < end ? *at++ : 0);
      else if (is_text(rows.pieces[piece]))
        value = texts_.number(trace.fields.texts, static_cast<uint32_t>(take_varint(at, end)), known.texts);
      else
        value = static_cast<uint64_t>(unzigzag(take_varint(at, end)));
      rows.columns[piece].push_back(value);
    }
    HYPERION_CHECK(at == end, "packed fields have what their form has places for");
    block_.numbers += rows.pieces.size();
    return number;
  }

  FormRows& rows_of(uint32_t form) {
    const auto [found, added] = form_rows_.try_emplace(form, block_.forms.size());
    if (added) {
      auto& rows = block_.forms.emplace_back();
      rows.form = form;
      HYPERION_CHECK(read_pieces(forms_[form], rows.pieces), "a form is JSON with values in its places");
      rows.columns.resize(rows.pieces.size());
      streams_ += rows.pieces.size();
      if (streams_ > kMostBlockStreams)
        throw base::Error(base::format("an event has more than 1,000,000 fields, {}", path_.string()),
                          "keep such a trace as JSON");
    }
    return block_.forms[found->second];
  }

  base::FileSystem& files_;
  base::Path path_, partial_;
  std::unique_ptr<base::WritableFile> file_;
  uint64_t written_ = 0;
  FileTexts names_, forms_, texts_;
  FileRows types_, tracks_;
  EventBlock block_;
  std::unordered_map<uint32_t, size_t> form_rows_;  // where they are in the block
  size_t streams_ = 0;
};

TraceFileWriter::TraceFileWriter(base::FileSystem& files, base::Path path, const FileFacts& facts)
    : work_(std::make_unique<Work>(files, std::move(path))) {
  work_->begin(facts);
}
TraceFileWriter::~TraceFileWriter() = default;
void TraceFileWriter::write(const Trace& trace) { work_->write(trace); }
void TraceFileWriter::finish() { work_->finish(); }

void write_trace_file(base::FileSystem& files, const base::Path& path, const Trace& trace) {
  TraceFileWriter writer(files, path, trace.facts);
  writer.write(trace);
  writer.finish();
}

}  // namespace hyperion::trace
