#include "hyperion/resilience/launcher_board.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "hyperion/comm/store_protocol.h"

namespace hyperion::resilience {
namespace {

using comm::Ask;
using comm::FrameReader;
using comm::FrameWriter;
using Keys = std::vector<std::string>;

constexpr std::chrono::minutes kComing{5};  // pods start at their own pace
constexpr std::chrono::seconds kAnswer{10};
const std::string kFailure = "launchers/failure", kLeft = "launchers/left";

}  // namespace

LauncherBoard::LauncherBoard(const comm::StoreAddress& address, int number, int launchers,
                             std::function<void()> meanwhile)
    : connection_(address, kComing, std::move(meanwhile)), number_(number), launchers_(launchers) {
  ask(std::move(FrameWriter(Ask::beat).number(static_cast<uint64_t>(number_))).bytes());
}

std::string LauncherBoard::ask(const std::string& frame) { return connection_.ask(frame, kAnswer); }

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
    ask(std::move(FrameWriter(Ask::add).text(kLeft).number(1)).bytes());
    ask(std::move(FrameWriter(Ask::leave).number(static_cast<uint64_t>(number_))).bytes());
  } catch (const comm::StoreLost&) {
  }
}

void LauncherBoard::wait_for_all(const std::function<int()>& lost, const std::function<bool()>& stop) {
  while (!stop()) {
    const std::string answer = ask(std::move(FrameWriter(Ask::add).text(kLeft).number(0)).bytes());
    FrameReader reader(answer);
    reader.kind();
    if (static_cast<int>(reader.number()) + lost() >= launchers_) return;
    ::usleep(50'000);
  }
}

}  // namespace hyperion::resilience
