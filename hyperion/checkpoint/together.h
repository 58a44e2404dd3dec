// Work in which no rank is left waiting for one that failed.
#pragma once
#include <exception>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/group.h"

namespace hyperion::checkpoint {

// What each rank's `work` has to tell; or, on all of them, the error that stopped one, which `failed` leads up to.
template <class Work>
std::vector<std::string> together(comm::Group& ranks, const std::string& failed, const std::string& hint, Work work) {
  std::string told;
  std::exception_ptr error;
  try {
    told = "+" + work();
  } catch (const std::exception& stopped) {
    error = std::current_exception();
    told = base::format("-rank {}: {}", ranks.rank(), stopped.what());
  }
  auto all = ranks.gather_text(told, "checkpoint");
  if (error) std::rethrow_exception(error);
  for (auto& text : all) {
    if (text.starts_with('-')) throw base::Error(failed + text.substr(1), hint);
    text.erase(0, 1);
  }
  return all;
}

}  // namespace hyperion::checkpoint
