#include "hyperion/checkpoint/saver.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <map>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/group.h"

namespace hyperion::checkpoint {
namespace {

using base::format;

constexpr double kMostOfRoom = 0.8;  // of what could be had: others want some too

std::string machine_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// "bytes room machine"
struct Wish {
  uint64_t bytes = 0, room = 0;
  std::string machine;

  std::string text() const { return format("{} {} {}", bytes, room, machine); }
  static Wish parse(const std::string& text) {
    Wish wish;
    const char* end = text.data() + text.size();
    const auto bytes = std::from_chars(text.data(), end, wish.bytes);
    const auto room = std::from_chars(bytes.ptr + 1, end, wish.room);
    wish.machine.assign(room.ptr + 1, end);
    return wish;
  }
};

}  // namespace

Saver::Saver(base::FileSystem& files, base::Path folder, Options options, comm::Group* ranks)
    : files_(files),
      folder_(std::move(folder)),
      options_(std::move(options)),
      ranks_(ranks == nullptr || ranks->size() == 1 ? nullptr : ranks) {}

Saver::~Saver() {
  if (under_way_.valid()) under_way_.wait();
}

bool Saver::first() const { return ranks_ == nullptr || ranks_->rank() == 0; }

std::vector<std::string> Saver::gather(const std::string& text) {
  return ranks_ != nullptr ? ranks_->gather_text(text, "checkpoint") : std::vector{text};
}

// Ranks on one machine share its memory.
std::string Saver::lacks_room(const std::vector<nn::Parameter>& tensors) {
  const uint64_t room = options_.room ? options_.room() : UINT64_MAX;
  std::map<std::string, Wish> machines;
  for (const auto& text : gather(Wish{StagedState::bytes(tensors), room, machine_name()}.text())) {
    const Wish wish = Wish::parse(text);
    auto& all = machines.try_emplace(wish.machine, Wish{0, wish.room, wish.machine}).first->second;
    all.bytes += wish.bytes, all.room = std::min(all.room, wish.room);
  }
  for (const auto& [name, wish] : machines)
    if (static_cast<double>(wish.bytes) > kMostOfRoom * static_cast<double>(wish.room))
      return format("a copy of the state takes {} of host memory, and {} has {} free", base::bytes_text(wish.bytes),
                    name, base::bytes_text(wish.room));
  return {};
}

// All ranks come to the same answer.
bool Saver::stage(const std::vector<nn::Parameter>& tensors) {
  std::string lacking;
  for (const auto& there : gather(copy_.holds(tensors) ? "" : "-"))
    if (!there.empty()) lacking = there;
  if (lacking.empty()) return true;
  copy_.let_go();
  lacking = lacks_room(tensors);
  if (lacking.empty()) {
    std::string refused;
    try {
      copy_.take(tensors);
    } catch (const std::exception& error) {  // of LibTorch, or of the standard library
      refused = format("the memory for a copy of the state, {}, cannot be had: {}",
                       base::bytes_text(StagedState::bytes(tensors)),
                       std::string_view(error.what()).substr(0, std::string_view(error.what()).find('\n')));
    }
    for (const auto& told : gather(refused))
      if (!told.empty()) lacking = told;
  }
  if (lacking.empty()) return true;
  copy_.let_go();
  options_.background = false;
  if (first()) base::log_warn(format("checkpoints are written while training waits: {}", lacking));
  return false;
}

void Saver::save(const Snapshot& snapshot) {
  wait();
  if (!options_.background || !stage(snapshot.tensors)) return save_now(snapshot);
  under_way_ = std::async(std::launch::async, [this, copy = copy_.copy(snapshot), activity = base::current_activity()] {
    base::current_activity() = activity;
    return write(copy);
  });
}

void Saver::save_now(const Snapshot& snapshot) {
  wait();
  ended_ = write(snapshot);
}

std::optional<SaveOutcome> Saver::wait() {
  if (under_way_.valid()) ended_ = under_way_.get();
  return std::exchange(ended_, std::nullopt);
}

SaveOutcome Saver::write(const Snapshot& snapshot) {
  const double begun = base::now();
  SaveOutcome outcome{.step = snapshot.step};
  for (double pause = options_.first_pause;; pause *= 3, ++outcome.tries) {
    try {
      save_checkpoint(files_, folder_, snapshot, options_.retention, ranks_);
      outcome.failure.clear(), outcome.hint.clear();
      break;
    } catch (const base::FileError& error) {
      outcome.failure = error.what(), outcome.hint = error.hint();
    }
    if (outcome.tries == kTries) break;
    base::log(first() ? base::LogLevel::warn : base::LogLevel::debug,
              format("the checkpoint of step {} could not be written, trying again in {:.3g} s: {}", snapshot.step,
                     pause, outcome.failure));
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  outcome.write_s = base::now() - begun;
  return outcome;
}

}  // namespace hyperion::checkpoint
