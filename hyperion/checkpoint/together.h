// Work in which no rank is left waiting for one that failed.
#pragma once
#include <algorithm>
#include <cstring>
#include <exception>
#include <future>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/group.h"

namespace hyperion::checkpoint {

// A FileError's text without the system's words for its code, which the next FileError made of it adds again.
inline std::string without_code(std::string what, int code) {
  const std::string words = base::format(": {}", std::strerror(code));
  if (what.ends_with(words)) what.resize(what.size() - words.size());
  return what;
}

// What a rank's work came to, as it tells the others: "+" and what it has to tell, "!CODE " and a file that failed, "-"
// and any other error.
struct Told {
  std::string text;
  std::exception_ptr error;

  template <class Work>
  static Told of(int rank, Work work) {
    const auto by = [&](const std::string& what) { return base::format("rank {}: {}", rank, what); };
    try {
      return {"+" + work(), nullptr};
    } catch (const base::FileError& failed) {
      return {base::format("!{} {}", failed.code(), by(without_code(failed.what(), failed.code()))),
              std::current_exception()};
    } catch (const std::exception& stopped) {
      return {"-" + by(stopped.what()), std::current_exception()};
    }
  }
};

// All ranks throw alike: FileError where nothing but files failed, else the other error. A rank's own error first.
inline std::vector<std::string> agree(std::vector<std::string> all, const Told& own, const std::string& failed,
                                      const std::string& hint) {
  const auto begins = [](char mark) { return [mark](const std::string& text) { return text.starts_with(mark); }; };
  for (const char mark : {'-', '!'}) {
    const auto stopped = std::find_if(all.begin(), all.end(), begins(mark));
    if (stopped == all.end()) continue;
    if (own.text.starts_with(mark)) std::rethrow_exception(own.error);
    if (mark == '-') throw base::Error(failed + stopped->substr(1), hint);
    const size_t space = stopped->find(' ');
    throw base::FileError(failed + stopped->substr(space + 1), std::stoi(stopped->substr(1, space - 1)));
  }
  for (auto& text : all) text.erase(0, 1);
  return all;
}

// What each rank's `work` has to tell; or, on all of them, the error that stopped one, which `failed` leads up to.
template <class Work>
std::vector<std::string> together(comm::Group& ranks, const std::string& failed, const std::string& hint, Work work) {
  const Told own = Told::of(ranks.rank(), work);
  return agree(ranks.gather_text(own.text, "checkpoint"), own, failed, hint);
}

// The same for work that may take a rank longer than others wait in a collective: those still at it say so now and
// then.
template <class Work>
std::vector<std::string> together_for_long(comm::Group& ranks, const std::string& failed, const std::string& hint,
                                           Work work) {
  constexpr std::chrono::seconds kRound(5);
  constexpr int kTellAfter = 6;  // rounds
  auto under_way = std::async(std::launch::async, [&, activity = base::current_activity()] {
    base::current_activity() = activity;
    return Told::of(ranks.rank(), work);
  });
  for (int round = 1;; ++round) {
    const bool done = under_way.wait_for(kRound) == std::future_status::ready;
    const auto finished = ranks.gather_text(done ? "+" : "~", "checkpoint");
    const auto busy = std::find(finished.begin(), finished.end(), "~");
    if (busy == finished.end()) break;
    if (round % kTellAfter == 0 && ranks.rank() == 0)
      base::log_warn(base::format("rank {} is still writing its part of the checkpoint after {}",
                                  busy - finished.begin(), base::duration_text(5.0 * round)));
  }
  const Told own = under_way.get();
  return agree(ranks.gather_text(own.text, "checkpoint"), own, failed, hint);
}

}  // namespace hyperion::checkpoint
