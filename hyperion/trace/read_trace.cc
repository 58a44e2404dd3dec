#include "hyperion/trace/read_trace.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/records/open_bytes.h"
#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace/event_parser.h"
#include "hyperion/trace/json_scan.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {
namespace {

constexpr size_t kLongest = size_t{64} << 20;  // an event; all that stands beside the events
constexpr size_t kGuessFrom = size_t{64} << 10;

// The file is cut into windows where an event seems to begin. Threads parse them on that guess, and they are joined in
// the order of the file: where a window's events turn out to reach into the next, that one is parsed again.
class TraceReader {
 public:
  TraceReader(const base::Path& path, const ReadOptions& options)
      : path_(path.string()), options_(options), stream_(records::open_bytes(path)) {
    shared_.trace.facts.path = path_;
  }

  Trace read() {
    read_prologue();
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = options_.threads > 0 ? options_.threads : std::clamp(cores, 1, 8);
    {
      std::vector<std::jthread> helpers;
      for (int i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
    finish();
    return std::move(shared_.trace);
  }

 private:
  struct Window {
    std::string bytes;  // and kScanPadding more
    size_t size = 0;
    int64_t number = 0;
    uint64_t offset = 0;
  };

  [[noreturn]] void fail(const std::string& what, uint64_t at) const {
    char first[4] = {};
    std::ifstream(path_, std::ios::binary).read(first, sizeof first);
    const bool packed = std::string_view(first, 2) == "\x1f\x8b" || std::string_view(first, 4) == "\x28\xb5\x2f\xfd";
    throw base::CorruptError(base::format("{} is no trace that can be read: {}, at byte {}{}", path_, what, at,
                                          packed ? " of what it unpacks to" : ""),
                             "a trace is written when the profiler stops: was it stopped, and copied whole?");
  }

  // Fills `out` up to `wanted` bytes, fewer only at the end of the file.
  size_t fill(std::string& out, size_t size, size_t wanted) {
    if (out.size() < wanted + kScanPadding) out.resize(wanted + kScanPadding);
    while (size < wanted) {
      const size_t got = stream_->read(std::span(out).subspan(size, wanted - size));
      if (got == 0) {
        ended_ = true;
        break;
      }
      size += got;
    }
    return size;
  }

  // Up to the '[' of the events: `head_` is what stands before it, `rest_` what was read beyond.
  void read_prologue() {
    std::string text;
    size_t size = 0;
    for (size_t wanted = std::min<size_t>(options_.window, 1 << 16);; wanted *= 2) {
      size = fill(text, size, wanted);
      try {
        const size_t used = find_events(text.data(), text.data() + size);
        head_.assign(text, 0, used);
        rest_.assign(text, used, size - used);
        next_offset_ = used;
        return;
      } catch (const ScanFault& fault) {
        const auto at = static_cast<uint64_t>(fault.at - text.data());
        if (fault.at < text.data() + size) fail(fault.what, at);
        if (ended_) fail(size == 0 ? "it is empty" : "it ends before \"traceEvents\"", at);
        if (wanted > kLongest) fail("what stands before its events is longer than 64 MiB", at);
      }
    }
  }

  size_t find_events(const char* begin, const char* end) {
    const char* at = skip_space(begin, end);
    if (static_cast<size_t>(end - at) >= 3 && std::memcmp(at, "\xef\xbb\xbf", 3) == 0) at = skip_space(at + 3, end);
    if (at < end && *at == '[') {
      shared_.trace.facts.bare = true;
      return static_cast<size_t>(at + 1 - begin);
    }
    at = skip_space(expect(at, end, '{', "neither an object nor an array begins"), end);
    for (;;) {
      if (at < end && *at == '}') throw ScanFault{at, "it has no \"traceEvents\""};
      const auto key = take_string(at, end);
      at = skip_space(expect(skip_space(at, end), end, ':', "a ':' is missing"), end);
      if (key == "traceEvents") {
        at = expect(at, end, '[', "\"traceEvents\" is no array");
        return static_cast<size_t>(at - begin);
      }
      if (at >= end) throw ScanFault{end, "a value is missing"};
      take_value(at, end);
      at = skip_space(at, end);
      if (at < end && *at == '}') throw ScanFault{at, "it has no \"traceEvents\""};
      at = skip_space(expect(at, end, ',', "a ',' is missing"), end);
    }
  }

  // Under `reading_`. False at the end of the file.
  bool next_window(Window& window) {
    if (ended_ && rest_.empty()) return false;
    if (options_.stops) base::throw_if_stopped("reading a trace");
    size_t size = rest_.size();
    if (window.bytes.size() < size) window.bytes.resize(size + kScanPadding);
    std::memcpy(window.bytes.data(), rest_.data(), size);
    size = fill(window.bytes, size, size + options_.window);
    rest_.clear();
    if (!ended_) {
      const std::string_view text(window.bytes.data(), size);
      size_t cut = guess_event(text, size > kGuessFrom ? size - kGuessFrom : size / 2);
      if (cut == std::string_view::npos) cut = guess_event(text, 0);
      if (cut != std::string_view::npos && cut > 0) {
        rest_.assign(text.substr(cut));
        size = cut;
      }
    }
    window.size = size;
    window.number = windows_++;
    window.offset = std::exchange(next_offset_, next_offset_ + size);
    return true;
  }

  void work() {
    try {
      EventParser parser(shared_);
      Window window;
      ParsedEvents parsed;
      for (;;) {
        {
          const std::scoped_lock lock(reading_);
          if (stop_ || !next_window(window)) return;
        }
        // A window read after the array ended needs no parsing, nor does one that join() will see whole again.
        if (!closed_) parser.parse({window.bytes.data(), window.size}, window.number == 0, parsed);
        std::unique_lock lock(joining_);
        turn_.wait(lock, [&] { return stop_ || joined_ == window.number; });
        if (stop_) return;
        join(parser, window, parsed);
        ++joined_;
        turn_.notify_all();
      }
    } catch (...) {
      const std::scoped_lock lock(joining_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
      turn_.notify_all();
    }
  }

  // Under `joining_`, in the order of the file.
  void join(EventParser& parser, const Window& window, ParsedEvents& parsed) {
    const std::string_view text(window.bytes.data(), window.size);
    if (options_.progress) options_.progress(window.offset + window.size);
    if (closed_) return add_tail(text, window.offset);
    const bool whole = carry_.empty() && first_ == (window.number == 0);
    const uint64_t offset = window.offset - carry_.size();
    std::string longer;
    std::string_view parsed_text = text;
    if (!whole) {
      longer.reserve(carry_.size() + text.size() + kScanPadding);
      longer = carry_;
      longer += text;
      longer.append(kScanPadding, '\0');
      parsed_text = std::string_view(longer).substr(0, carry_.size() + text.size());
      parser.parse(parsed_text, first_, parsed);
    }
    if (parsed.fault != nullptr) fail(parsed.fault, offset + parsed.fault_at);
    const char* packed = parsed.packed.data();
    for (size_t i = 0; i < parsed.events.size(); ++i) {
      shared_.trace.append(parsed.events[i], {packed, parsed.packed_sizes[i]});
      packed += parsed.packed_sizes[i];
    }
    first_ = first_ && parsed.events.empty();
    const auto left = parsed_text.substr(parsed.used);
    if (parsed.closed) {
      closed_ = true;
      add_tail(left, offset + parsed.used);
      carry_.clear();
      return;
    }
    carry_ = std::string(left);
    carry_offset_ = offset + parsed.used;
    if (carry_.size() > kLongest) fail("an event is longer than 64 MiB", carry_offset_);
  }

  void add_tail(std::string_view text, uint64_t offset) {
    if (tail_.size() + text.size() > kLongest) fail("what follows its events is longer than 64 MiB", offset);
    tail_ += text;
  }

  void finish() {
    if (!closed_) fail("it ends in the middle of its events", next_offset_);
    auto& facts = shared_.trace.facts;
    const auto after = skip_space(tail_.data(), tail_.data() + tail_.size());
    if (facts.bare) {
      if (after != tail_.data() + tail_.size()) fail("something follows its last ']'", next_offset_ - tail_.size());
      return;
    }
    std::string outer = head_ + "]" + tail_;
    if (outer.starts_with("\xef\xbb\xbf")) outer.erase(0, 3);
    if (text::valid_prefix(outer) != outer.size()) fail("a text beside its events is not UTF-8", head_.size());
    try {
      bool seen = false;
      for (const auto& member : text::json_members(outer)) {
        if (text::json_key_is(member.key, "traceEvents")) {
          if (std::exchange(seen, true)) fail("it has \"traceEvents\" twice", next_offset_);
          continue;
        }
        facts.members.push_back({text::json_string("\"" + std::string(member.key) + "\""), std::string(member.value)});
      }
    } catch (const text::JsonError& error) {
      const auto at = error.at < head_.size() ? error.at : next_offset_ - (outer.size() - error.at);
      fail(error.what, at);
    }
    read_facts(facts);
  }

  const std::string path_;
  const ReadOptions& options_;
  SharedTrace shared_;

  std::mutex reading_;  // guards what follows
  std::unique_ptr<records::ByteStream> stream_;
  std::string head_, rest_;
  uint64_t next_offset_ = 0;
  int64_t windows_ = 0;
  bool ended_ = false;

  std::mutex joining_;  // guards what follows
  std::condition_variable turn_;
  int64_t joined_ = 0;
  std::string carry_, tail_;  // carry_: of events already joined, what belongs to the next
  uint64_t carry_offset_ = 0;
  bool first_ = true;
  std::exception_ptr failure_;
  std::atomic<bool> closed_ = false, stop_ = false;
};

}  // namespace

Trace read_trace(const base::Path& path, const ReadOptions& options) {
  if (is_trace_file(path)) return read_trace_file(path, options.progress);
  return TraceReader(path, options).read();
}

}  // namespace hyperion::trace
