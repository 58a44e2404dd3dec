#include "hyperion/data/prepare.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/data/open_data.h"
#include "hyperion/data/prepared.h"
#include "hyperion/data/source.h"
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
  EXPECT_NE(refused([](PrepareConfig& c) { c.store = ImageStore::raw; }).find("prepare.store"), std::string::npos);
  EXPECT_NE(
      refused([](PrepareConfig& c) { c.format = SetFormat::cifar, c.tokenizer = "gpt2"; }).find("prepare.tokenizer"),
      std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = SetFormat::lines, c.text = "body"; }).find("prepare.text"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = SetFormat::lines, c.chat = {"user:a"}; }).find("prepare.chat"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) {
              c.format = SetFormat::jsonl, c.chat_template = "t";
            }).find("prepare.chat_template"),
            std::string::npos);
  EXPECT_NE(refused([](PrepareConfig& c) { c.format = SetFormat::jsonl, c.tools = "t"; }).find("prepare.tools"),
            std::string::npos);
  EXPECT_EQ(refused([](PrepareConfig& c) { c.format = SetFormat::jsonl, c.text = "body"; }), "");
  EXPECT_EQ(refused([](PrepareConfig& c) { c.format = SetFormat::json, c.chat = {"user:a"}, c.chat_template = "t"; }),
            "");
}

TEST(CheckPrepared, a_set_that_is_not_there_is_told_with_the_place_that_was_looked_at) {
  const auto refused = [](const base::Path& folder, const std::string& named) {
    return base::test::error_of<base::ConfigError>([&] { check_prepared(folder, named); });
  };
  const std::string place = (std::filesystem::current_path() / "no-such-set").string();
  const std::string relative = refused("no-such-set", "data.path = \"no-such-set\"");
  EXPECT_NE(relative.find("\"no-such-set\" does not exist: there is no " + place), std::string::npos) << relative;
  EXPECT_NE(relative.find("make one with: hyperion data prepare RECIPE; a run whose set was moved goes on with: "
                          "hyperion resume RUN --data.path=PLACE"),
            std::string::npos)
      << relative;
  EXPECT_EQ(refused("/no-such-set", "--set /no-such-set").find("there is no"), std::string::npos);
  EXPECT_EQ(refused("/no-such-set", "--set /no-such-set").find("hyperion resume"), std::string::npos);
}

TEST(OpenPrepared, a_set_that_held_nothing_out_is_refused_with_the_part_that_would_do) {
  base::test::TestFolder folder;
  const auto opened = [&](const std::string& name, double part) {
    PrepareConfig config;
    config.files = {(folder.path() / "few.txt").string()}, config.output = (folder.path() / name).string();
    config.format = SetFormat::lines, config.validation = part;
    prepare(base::real_files(), config, {});
    DataConfig data;
    data.source = SourceKind::prepared, data.path = {config.output};
    return base::test::error_of<base::ConfigError>([&] { open_data(data, {4, 0}, 1); });
  };
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "a line of text\n";
  base::write_atomically(base::real_files(), folder.path() / "few.txt", lines);
  const std::string told = opened("none", 0.0001);
  EXPECT_NE(told.find("none of its 12 records was held out"), std::string::npos) << told;
  EXPECT_NE(told.find("--prepare.validation=0.09"), std::string::npos) << told;
  EXPECT_EQ(opened("some", 0.09), "");
}

}  // namespace
}  // namespace hyperion::data
