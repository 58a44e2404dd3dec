#include "hyperion/data/prepare.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "tests/base/support_child.h"

namespace hyperion::data {
namespace {

TEST(PrepareConfig, settings_that_a_format_has_no_use_for_are_refused_by_name) {
  const auto refused = [](auto change) {
    PrepareConfig config;
    config.files = {"x"}, config.output = "y";
    change(config);
    return base::test::error_of<base::ConfigError>([&] { check(config); });
  };
  EXPECT_EQ(refused([](PrepareConfig&) {}), "");
  EXPECT_NE(refused([](PrepareConfig& c) { c.store = c.store == "raw" ? "jpeg" : "raw"; }).find("prepare.store"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = "cifar", c.tokenizer = "gpt2"; }).find("prepare.tokenizer"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = "lines", c.text = "body"; }).find("prepare.text"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = "lines", c.chat = {"user:a"}; }).find("prepare.chat"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = "jsonl", c.chat_template = "t"; }).find("prepare.chat_template"),
            std::string::npos);
  EXPECT_EQ(refused([](PrepareConfig& c) { c.format = "jsonl", c.text = "body"; }), "");
  EXPECT_EQ(refused([](PrepareConfig& c) { c.format = "json", c.chat = {"user:a"}, c.chat_template = "t"; }), "");
}

}  // namespace
}  // namespace hyperion::data
