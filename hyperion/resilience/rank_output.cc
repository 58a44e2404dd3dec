#include "hyperion/resilience/rank_output.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::resilience {
namespace {

constexpr size_t kTail = 1 << 18;  // bytes remembered of each channel, for last words
constexpr size_t kLongestLine = 1 << 16;
constexpr int kLastLines = 100;

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads any more; the logs have it
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

size_t line_start_before(std::string_view text, size_t end) {
  const size_t newline = end == 0 ? text.npos : text.rfind('\n', end - 1);
  return newline == text.npos ? 0 : newline + 1;
}

std::string_view last_lines(std::string_view text, int lines) {
  size_t start = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (start = line_start_before(text, start); --lines > 0 && start > 0;) start = line_start_before(text, start - 1);
  return text.substr(start);
}

// From the last line that starts with "error:"; empty without one.
std::string_view last_error(std::string_view text) {
  const std::string_view mark = "error:";
  for (size_t at = text.rfind(mark); at != text.npos; at = at == 0 ? text.npos : text.rfind(mark, at - 1))
    if (at == 0 || text[at - 1] == '\n') return text.substr(at);
  return {};
}

}  // namespace

struct RankOutput::Channel {
  Stream stream;
  std::unique_ptr<base::WritableFile> log;  // made with the first byte
  bool closed = false;                      // nothing more is written
  std::string tail;                         // the last bytes
  std::string line;                         // the beginning of a line that is not shown yet
};

RankOutput::RankOutput(base::FileSystem& files, base::Path folder, int world, Show show, int out, int err)
    : files_(files), folder_(std::move(folder)), show_(show), descriptors_{out, err} {
  files_.create_folders(folder_);
  for (int i = 0; i < 2 * world; ++i) {
    channels_.push_back(std::make_unique<Channel>());
    channels_.back()->stream = i % 2 == 0 ? Stream::out : Stream::err;
  }
}

RankOutput::~RankOutput() = default;

base::Path RankOutput::file(int rank, Stream stream) const {
  return folder_ / base::format("rank-{}.{}", rank, stream == Stream::out ? "out" : "err");
}

std::string RankOutput::kept_text(int rank) const {
  std::string kept;
  for (const Stream stream : {Stream::out, Stream::err})
    if (files_.exists(file(rank, stream))) kept += (kept.empty() ? "" : " and ") + file(rank, stream).string();
  return kept.empty() ? "it printed nothing" : "what it printed is in " + kept;
}

RankOutput::Channel& RankOutput::channel(int rank, Stream stream) const {
  return *channels_.at(2 * static_cast<size_t>(rank) + (stream == Stream::err ? 1 : 0));
}

void RankOutput::add(int rank, Stream stream, std::string_view bytes) {
  Channel& to = channel(rank, stream);
  try {
    if (!to.log && !to.closed) to.log = files_.create(file(rank, stream));
    if (to.log) to.log->append(bytes);
  } catch (const base::Error& error) {
    to.log.reset();
    to.closed = true;
    if (!std::exchange(told_, true)) base::log_warn(base::format("a rank's log ends early: {}", error.what()));
  }
  to.tail.append(bytes);
  if (to.tail.size() > 2 * kTail) to.tail.erase(0, to.tail.size() - kTail);
  show(rank, to, bytes);
}

void RankOutput::show(int rank, Channel& channel, std::string_view bytes) {
  const int descriptor = descriptors_[channel.stream == Stream::err ? 1 : 0];
  if (show_ == Show::rank0 && rank == 0) write_all(descriptor, bytes);
  if (show_ != Show::all) return;
  channel.line.append(bytes);
  std::string shown;
  size_t start = 0;
  for (size_t end; (end = channel.line.find('\n', start)) != std::string::npos; start = end + 1)
    shown += base::format("[{}] {}\n", rank, std::string_view(channel.line).substr(start, end - start));
  channel.line.erase(0, start);
  if (channel.line.size() > kLongestLine) {
    shown += base::format("[{}] {}\n", rank, channel.line);
    channel.line.clear();
  }
  write_all(descriptor, shown);
}

void RankOutput::finish(int rank) {
  for (const Stream stream : {Stream::out, Stream::err}) {
    Channel& from = channel(rank, stream);
    if (!from.line.empty()) show(rank, from, "\n");
    from.log.reset();
    from.closed = true;
  }
}

bool RankOutput::has_shown(const std::string& words) const {
  return show_ == Show::rank0 && channel(0, Stream::err).tail.find(words) != std::string::npos;
}

std::string RankOutput::last_words(int rank) const {
  const std::string_view err = channel(rank, Stream::err).tail, out = channel(rank, Stream::out).tail;
  if (const auto error = last_error(err); !error.empty()) return std::string(error);
  return std::string(last_lines(err.empty() ? out : err, kLastLines));
}

}  // namespace hyperion::resilience
