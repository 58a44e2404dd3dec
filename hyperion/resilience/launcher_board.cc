#include "hyperion/resilience/launcher_board.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "hyperion/base/clock.h"
#include "hyperion/comm/store_protocol.h"

namespace hyperion::resilience {
namespace {

using comm::Ask;
using comm::FrameReader;
using comm::FrameWriter;
using Keys = std::vector<std::string>;

constexpr std::chrono::minutes kComing{5};  // pods start at their own pace
constexpr std::chrono::seconds kAnswer{10};
constexpr useconds_t kAgain = 100'000;
constexpr double kLong = 2;  // seconds
const std::string kFailure = "launchers/failure", kHere = "launchers/here", kLeft = "launchers/left";

}  // namespace

LauncherBoard::LauncherBoard(const comm::StoreAddress& address, int number, int launchers,
                             const std::function<void()>& meanwhile)
    : number_(number), launchers_(launchers) {
  const double end = base::now() + std::chrono::duration<double>(kComing).count();
  for (;; ::usleep(kAgain)) {
    connection_ = std::make_unique<comm::StoreConnection>(address, kComing, meanwhile);
    if (failure().empty() || base::now() > end) break;
    meanwhile();
  }
  ask(std::move(FrameWriter(Ask::beat).number(static_cast<uint64_t>(number_))).bytes());
}

std::string LauncherBoard::ask(const std::string& frame) { return connection_->ask(frame, kAnswer); }

uint64_t LauncherBoard::count(const std::string& key, uint64_t more) {
  const std::string answer = ask(std::move(FrameWriter(Ask::add).text(key).number(more)).bytes());
  FrameReader reader(answer);
  reader.kind();
  return reader.number();
}

bool LauncherBoard::meet(double seconds, const std::function<void()>& meanwhile,
                         const std::function<void(int here)>& waiting) {
  const double begun = base::now();
  bool told = false;
  for (uint64_t here = count(kHere, 1); static_cast<int>(here) < launchers_; here = count(kHere, 0)) {
    const double waited = base::now() - begun;
    if (waited > seconds || !failure().empty()) return false;
    if (waited > kLong && !std::exchange(told, true)) waiting(static_cast<int>(here));
    meanwhile();
    ::usleep(kAgain);
  }
  return true;
}

void LauncherBoard::tell(const std::string& failure) {
  try {
    ask(std::move(FrameWriter(Ask::compare_set).text(kFailure).text("").text(failure)).bytes());
  } catch (const comm::StoreLost&) {  // the others see that for themselves
  }
}

std::string LauncherBoard::failure() {
  try {
    const std::string there = ask(std::move(FrameWriter(Ask::check).list(Keys{kFailure})).bytes());
    if (FrameReader reader(there); reader.kind() != 0 || reader.number() == 0) return {};
    const std::string answer = ask(std::move(FrameWriter(Ask::get).number(0).list(Keys{kFailure})).bytes());
    FrameReader reader(answer);
    reader.kind();
    const auto told = reader.list();
    return told.empty() ? "" : told[0];
  } catch (const comm::StoreLost& lost) {
    return std::string("the launcher of the first machine has ended: ") + lost.what();
  }
}

void LauncherBoard::leave() {
  try {
    count(kLeft, 1);
    ask(std::move(FrameWriter(Ask::leave).number(static_cast<uint64_t>(number_))).bytes());
  } catch (const comm::StoreLost&) {
  }
}

void LauncherBoard::wait_for_all(const std::function<int()>& lost, const std::function<bool()>& stop) {
  while (!stop()) {
    if (static_cast<int>(count(kLeft, 0)) + lost() >= launchers_) return;
    ::usleep(50'000);
  }
}

}  // namespace hyperion::resilience
