#include <algorithm>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/records/open_bytes.h"
#include "hyperion/trace/event_block_reader.h"
#include "hyperion/trace/trace_blocks.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

class TraceFileReader {
 public:
  TraceFileReader(const base::Path& path, const std::function<void(uint64_t)>& progress)
      : path_(path.string()), progress_(progress), stream_(records::open_bytes(path)), blocks_(trace_) {
    trace_.facts.path = path_;
  }

  Trace read() {
    check_file_header();
    std::string header;
    for (bool first = true;; first = false) {
      base::throw_if_stopped("reading a trace");
      block_at_ = position_;
      take(kBlockHeaderBytes, header, "it ends without its end mark");
      BlockHeader block;
      if (!read_block_header(header, block)) fail("a block's header is damaged");
      take(block.payload, payload_, "it ends in the middle of a block");
      if (!checksum_fits(header, payload_)) fail("a block does not have the checksum that was written with it");
      if ((block.kind == BlockKind::facts) != first || block.events_before != trace_.size())
        fail("a block stands where it does not belong");
      try {
        if (block.kind == BlockKind::facts) read_members();
        if (block.kind == BlockKind::events) blocks_.read(payload_, block.events);
      } catch (const PayloadFault& fault) {
        fail(fault.what);
      }
      if (progress_) progress_(position_);
      if (block.kind == BlockKind::end) break;
    }
    if (!payload_.empty()) fail("its last block is not empty");
    block_at_ = position_;
    char more = 0;
    if (stream_->read({&more, 1}) != 0) fail("something follows its end");
    read_facts(trace_.facts);
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw base::CorruptError(base::format("{} is no trace that can be read: {}, at byte {}", path_, what, block_at_),
                             "fetch it again from where it was recorded; a trace is only there once it is whole");
  }

  // Memory grows with what the file has, not with what it claims.
  void take(uint64_t size, std::string& out, const char* cut) {
    out.clear();
    while (out.size() < size) {
      const size_t before = out.size();
      out.resize(before + std::min<size_t>(size - before, kPieceBytes));
      const size_t got = stream_->read(std::span(out).subspan(before));
      out.resize(before + got);
      position_ += got;
      if (got == 0) fail(cut);
    }
  }

  void check_file_header() {
    std::string header;
    take(kFileHeaderBytes, header, "it ends in its header");
    switch (read_file_header(header)) {
      case HeaderVerdict::good:
        return;
      case HeaderVerdict::no_trace:
        fail("it does not begin as one of ours");
      case HeaderVerdict::damaged:
        fail("its header is damaged");
      case HeaderVerdict::later_version:
        throw base::ConfigError(base::format("{} was written by a later version of this program", path_),
                                "read it with that version, or export it there: hyperion trace export --to chrome");
    }
  }

  void read_members() {
    PayloadReader in(payload_);
    trace_.facts.bare = in.number(1, "a trace is bare or it is not") == 1;
    const auto count = in.number();
    const auto bytes = in.stretch();
    in.finish();
    TextReader texts(bytes);
    for (uint64_t i = 0; i < count; ++i) {
      const auto key = texts.take(), value = texts.take();
      if (!is_utf8(key) || !is_json_value(value)) throw PayloadFault{"a fact of the file is not JSON"};
      trace_.facts.members.push_back({std::string(key), std::string(value)});
    }
    texts.finish();
  }

  const std::string path_;
  const std::function<void(uint64_t)>& progress_;
  std::unique_ptr<records::ByteStream> stream_;
  uint64_t position_ = 0, block_at_ = 0;
  std::string payload_;
  Trace trace_;
  EventBlockReader blocks_;
};

}  // namespace

bool is_trace_file(const base::Path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string first(kTraceMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(first.data(), static_cast<std::streamsize>(first.size()));
  return first == kTraceMagic;
}

Trace read_trace_file(const base::Path& path, const std::function<void(uint64_t)>& progress) {
  return TraceFileReader(path, progress).read();
}

}  // namespace hyperion::trace
