#include "hyperion/interop/find_run.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/interop/find_model.h"
#include "tests/base/support_child.h"

namespace hyperion::interop {
namespace {

using base::test::TestFolder;

// Runs lie in runs/, and the program stands beside it.
class RunNames : public ::testing::Test {
 protected:
  RunNames() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    ::setenv("HYPERION_RUNS", "runs", 1);
    make("runs/mine/run.json"), make("runs/only/run.json");
  }
  ~RunNames() override {
    ::unsetenv("HYPERION_RUNS");
    std::filesystem::current_path(before_);
  }
  void make(const std::string& file) {
    std::filesystem::create_directories(base::Path(file).parent_path());
    base::write_atomically(base::real_files(), file, "{}");
  }
  static std::string found(const std::string& word) {
    const auto run = named_run(base::real_files(), word);
    return run ? run->string() : "";
  }

  TestFolder folder_;
  std::filesystem::path before_;
};

TEST_F(RunNames, that_are_paths_lead_from_here_and_never_to_a_run_of_that_name) {
  EXPECT_EQ(found("mine"), "runs/mine");
  for (const char* path : {"./mine", "../mine", "../runs/mine", "sub/../mine", "~/mine", "./mine@best"})
    EXPECT_EQ(found(path), "") << path;
  EXPECT_THROW(find_run(base::real_files(), "./mine"), base::ConfigError);
  EXPECT_EQ(found("runs/mine"), "runs/mine");
  EXPECT_EQ(found("./runs/mine"), "runs/mine");
  make("mine/run.json");
  EXPECT_EQ(found("./mine"), "mine");
  EXPECT_EQ(find_run(base::real_files(), "./mine"), "mine");
  EXPECT_EQ(find_run(base::real_files(), "mine"), "runs/mine") << "a bare word is a name first";
}

TEST_F(RunNames, that_end_in_a_slash_are_folders_where_there_is_one) {
  EXPECT_EQ(find_run(base::real_files(), "only/"), "runs/only");
  make("only/config.json"), make("only/model.safetensors");
  EXPECT_EQ(found("only/"), "");
  EXPECT_TRUE(names_folder(base::real_files(), "./only")) << "Hugging Face's, not the run";
  EXPECT_FALSE(names_folder(base::real_files(), "only"));
}

}  // namespace
}  // namespace hyperion::interop
