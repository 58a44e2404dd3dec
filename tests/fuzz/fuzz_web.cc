// The long run: fuzz_web [INPUTS] [SEED]. Breaks good requests and sends them to a live page over real connections,
// half of them cut off by their sender; ends with 1 where the page answers a good request no more, or holds more memory
// than it may.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <thread>

#include "hyperion/dash/site.h"
#include "tests/dash/support_run.h"
#include "tests/fuzz/web_requests.h"
#include "tests/support/fuzz.h"

namespace {

using namespace hyperion;
using namespace hyperion::testing;

constexpr const char* kToken = "ForTheseTestsAlone-ForTheseTestsAlone-00000";
constexpr size_t kInFlight = 32;

// Closed with a reset, so that no port is kept waiting.
class Sent {
 public:
  Sent(int port, const std::string& bytes) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(port)),
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    if (connected_ && ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) connected_ = false;
  }
  ~Sent() { ::close(socket_); }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;

  // What comes within that time; the first piece of it.
  std::string reply(int milliseconds) const {
    pollfd waiting{socket_, POLLIN, 0};
    char piece[512];
    if (!connected_ || ::poll(&waiting, 1, milliseconds) <= 0) return {};
    const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
    return got > 0 ? std::string(piece, static_cast<size_t>(got)) : std::string();
  }

 private:
  int socket_;
  bool connected_ = false;
};

size_t resident_mib() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) >> 20;
}

struct Answers {
  long answered = 0, accepted = 0;
};

// Some inputs wait for an answer, the others go as soon as more have been sent than may be in flight.
Answers fuzz(int port, long inputs, std::mt19937& random) {
  const auto good = good_requests(kToken);
  const auto words = request_words();
  std::deque<std::unique_ptr<Sent>> in_flight;
  Answers answers;
  size_t first_mib = 0;
  for (long i = 0; i < inputs; ++i) {
    const auto& original = good[random() % good.size()];
    in_flight.push_back(std::make_unique<Sent>(
        port, mutated(original, random() % 2 == 0 ? original.find("\r\n") : original.size(), words, random)));
    if (in_flight.size() < kInFlight) continue;
    const auto reply = in_flight.front()->reply(random() % 2 == 0 ? 5 : 0);
    answers.answered += reply.empty() ? 0 : 1;
    answers.accepted += reply.starts_with("HTTP/1.1 200") ? 1 : 0;
    in_flight.pop_front();
    if (i % 20'000 != 19'999) continue;
    if (first_mib == 0) first_mib = resident_mib();
    if (!Sent(port, good[0]).reply(60'000).starts_with("HTTP/1.1 200"))
      throw base::Error("a good request is answered no more");
    if (resident_mib() > first_mib + 256) throw base::Error("it holds too much memory");
  }
  return answers;
}

}  // namespace

int main(int argc, char** argv) {
  const long inputs = argc > 1 ? std::atol(argv[1]) : 100'000;
  const auto seed = static_cast<unsigned>(argc > 2 ? std::atol(argv[2]) : std::random_device()());
  std::printf("fuzz: requests, seed %u\n", seed);
  std::mt19937 random(seed);
  const base::test::TestFolder folder;
  begin_run(folder / "a");
  write_steps(folder / "a", 1, 50);
  int code = 0;
  try {
    dash::Site site({.folders = [&] { return base::real_files().list(folder.path()); },
                     .status = [](const auto& record) { return record.status; }});
    web::Server server({.token = kToken, .limits = {.request = std::chrono::milliseconds(500)}},
                       [&](const web::Request& request) { return site.answer(request); });
    server.greet([&] { return site.greeting(); });
    std::atomic<bool> done{false};
    std::thread client([&] {
      try {
        const auto answers = fuzz(server.port(), inputs, random);
        std::printf("fuzz: %ld requests, %ld answered while their sender was there, %ld of these with 200; no crash\n",
                    inputs, answers.answered, answers.accepted);
      } catch (const std::exception& error) {
        std::printf("fuzz: %s\n", error.what());
        code = 1;
      }
      done = true;
    });
    server.run([&] { return site.tick(server.readers() > 0, [&](const std::string& event) { server.tell(event); }); },
               [&] { return done.load(); });
    client.join();
  } catch (const std::exception& error) {
    std::printf("fuzz: %s\n", error.what());
    code = 1;
  }
  return code;
}
