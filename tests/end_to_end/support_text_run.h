// A tiny run "r" on a text of its own.
#pragma once
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion::testing {

class TextRun : public ::testing::Test {
 protected:
  TextRun() {
    write_file(scratch_.path() / "text", std::string(3000, 'a') + std::string(1000, 'b'));
    write_file(recipe_, kTextRecipe);
  }
  std::vector<std::string> train(const std::vector<std::string>& more) const {
    const std::string data = "--data.path=" + (scratch_.path() / "text").string();
    return std::vector<std::string>{"train", recipe_.string(), "--run", "r", data} + device_flags() + more;
  }

  Scratch scratch_;
  std::filesystem::path recipe_ = scratch_.path() / "lost.toml";
};

}  // namespace hyperion::testing
