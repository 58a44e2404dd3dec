#include "hyperion/resilience/node_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"
#include "hyperion/resilience/job.h"
#include "hyperion/resilience/node_plan.h"

namespace hyperion::resilience {
namespace {

using base::format;

constexpr size_t kLongestPlan = size_t{16} << 20;

class Wire final : public RankEvents {
 public:
  explicit Wire(int descriptor) : descriptor_(descriptor) {}
  void output(int rank, Stream stream, std::string_view bytes) override {
    tell(format("{} {} {}\n", stream == Stream::out ? "out" : "err", rank, bytes.size()));
    tell(bytes);
  }
  void ended(int rank, Ending ending) override {
    tell(format("{} {} {}\n", ending.by_signal ? "killed" : "exit", rank, ending.number));
  }
  void stopped(const std::vector<int>& ranks) {
    std::string line = "stopped";
    for (const int rank : ranks) line += format(" {}", rank);
    if (line == last_stopped_) return;
    last_stopped_ = line;
    tell(line + "\n");
  }
  void tell(std::string_view bytes) {
    while (!bytes.empty() && !broken_) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
      broken_ = written < 0 && errno != EINTR;
    }
  }
  bool broken() const { return broken_; }

 private:
  int descriptor_;
  bool broken_ = false;
  std::string last_stopped_ = "stopped";
};

// Lines as they come; `open` is false once the other end has closed.
class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor) {}
  bool open() const { return open_; }
  bool next(std::string& line) {
    const size_t end = buffer_.find('\n');
    if (end == std::string::npos) return false;
    line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return true;
  }
  void read_more() {
    char bytes[1 << 14];
    const ssize_t got = ::read(descriptor_, bytes, sizeof bytes);
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) || buffer_.size() > kLongestPlan) open_ = false;
  }

 private:
  int descriptor_;
  bool open_ = true;
  std::string buffer_;
};

void follow(const std::string& line, Ranks& ranks) {
  const auto words = host::split(line, ' ');
  if (words.size() != 2 || words[0] != "signal") return;
  if (const auto number = host::whole_number(words[1])) ranks.signal(static_cast<int>(*number));
}

}  // namespace

int run_node_agent(int input, int output) {
  Guardian guardian;
  StopSignals signals;  // the launcher alone decides: they come through it
  Wire wire(output);
  Lines lines(input);
  std::string line;
  while (!lines.next(line)) {
    lines.read_more();
    if (!lines.open())
      throw base::Error("a launch agent was told nothing", "it is started by `hyperion launch --nodes`");
  }
  wire.tell(kAgentHello);
  const auto ranks = start_node(node_plan_from_json(base::parse_json(line, "the launcher's plan")), guardian);
  double next_look = 0;
  while (!ranks->all_ended() && lines.open() && !wire.broken()) {
    std::vector<pollfd> watched{{input, POLLIN, 0}};
    for (const pollfd& one : ranks->descriptors()) watched.push_back(one);
    ::poll(watched.data(), watched.size(), 200);
    if (watched[0].revents != 0) lines.read_more();
    while (lines.next(line)) follow(line, *ranks);
    ranks->handle(wire);
    if (const double now = base::real_clock().seconds(); now >= next_look) {
      wire.stopped(ranks->stopped());
      next_look = now + 1;
    }
  }
  return 0;
}

}  // namespace hyperion::resilience
