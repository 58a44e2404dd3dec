// --help of every command, and what is said before a command begins.
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "hyperion/base/format.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

// The names that `--help` lists under "Subcommands:".
Words subcommands_in(const std::string& help) {
  Words names;
  const size_t at = help.find("\nSubcommands:\n");
  if (at == help.npos) return names;
  std::istringstream lines(help.substr(at + 14));
  for (std::string line; std::getline(lines, line) && line.starts_with("  ");)
    if (line.size() > 2 && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

// `words`: "bench data". What only ranks run is shown as they run it: hyperion launch -n 4 -- bench comm.
void expect_own_example(const std::string& words, const testing::Finished& done) {
  EXPECT_EQ(done.code, 0) << words << done.err;
  const auto examples = done.out.substr(std::min(done.out.find("\nExample"), done.out.size()));
  EXPECT_TRUE(examples.find("hyperion " + words) != std::string::npos ||
              examples.find("-- " + words) != std::string::npos)
      << "hyperion " << words << " --help shows no example of its own:" << examples;
}

TEST(Help, of_every_command_shows_an_example_of_its_own) {
  Scratch scratch;
  size_t seen = 0;
  for (std::vector<Words> level = {{}}, next; !level.empty(); level = std::move(next), next.clear()) {
    std::vector<std::unique_ptr<testing::Program>> asked;  // of one level together
    for (const auto& command : level)
      asked.push_back(std::make_unique<testing::Program>(scratch, command + Words{"--help"}));
    for (size_t i = 0; i < level.size(); ++i) {
      const auto done = asked[i]->wait();
      std::string words;
      for (const auto& word : level[i]) words += (words.empty() ? "" : " ") + word;
      expect_own_example(words, done);
      for (const auto& name : subcommands_in(done.out)) next.push_back(level[i] + Words{name});
    }
    seen += level.size();
  }
  EXPECT_GT(seen, 40u);
}

TEST(Start, warns_where_a_variable_for_tests_is_set) {
  Scratch scratch;
  for (const auto& [name, value] : {std::pair<std::string, std::string>("HYPERION_FAULTS", "files.write=sleep"),
                                    {"HYPERION_SLOW_LINK", "1GB/s"},
                                    {"HYPERION_FUSED_BLOCKS", "1"}}) {
    const auto warned = testing::run(scratch, {"presets"}, {{name, value}});
    EXPECT_EQ(warned.code, 0) << warned.err;
    EXPECT_NE(warned.err.find(base::format("{}=\"{}\" is set", name, value)), std::string::npos) << warned.err;
  }
  EXPECT_EQ(testing::run(scratch, {"presets"}).err, "");
}

}  // namespace
}  // namespace hyperion
