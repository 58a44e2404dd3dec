#include "hyperion/hub/cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "hyperion/base/error.h"

namespace hyperion::hub {
namespace {

namespace fs = std::filesystem;
const std::string kCommit(40, 'c');

// A cache of the test's own, and nothing of the user's.
class Cache : public ::testing::Test {
 protected:
  Cache() {
    std::string pattern = (fs::temp_directory_path() / "hyperion-cache-XXXXXX").string();
    home_ = ::mkdtemp(pattern.data());
    for (const char* variable : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_TOKEN"}) ::unsetenv(variable);
    ::setenv("HOME", home_.c_str(), 1);
  }
  ~Cache() override { fs::remove_all(home_); }

  base::Path add(const base::Path& cache, const std::string& folder, const std::string& ref = "main") {
    const base::Path snapshot = cache / folder / "snapshots" / kCommit;
    files_.create_folders(snapshot);
    files_.create_folders((cache / folder / "refs" / ref).parent_path());
    base::write_atomically(files_, cache / folder / "refs" / ref, kCommit);
    return snapshot;
  }

  base::FileSystem& files_ = base::real_files();
  base::Path home_;
};

TEST_F(Cache, LiesWhereHuggingFacesVariablesSay) {
  EXPECT_EQ(cache_folder(), home_ / ".cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(cache_folder(), home_ / "hf/hub");
  ::setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(cache_folder(), "/c");
}

TEST_F(Cache, FindsAModelByNameAndRevision) {
  const auto snapshot = add(cache_folder(), "models--Qwen--Qwen2.5-0.5B");
  EXPECT_EQ(locate(files_, "Qwen/Qwen2.5-0.5B"), snapshot.string());
  EXPECT_EQ(locate(files_, "Qwen/Qwen2.5-0.5B@" + kCommit), snapshot.string());
  EXPECT_THROW(locate(files_, "Qwen/Qwen2.5-0.5B@v2"), base::ConfigError);
  add(cache_folder(), "models--Qwen--Qwen2.5-0.5B", "refs/pr/1");
  EXPECT_EQ(locate(files_, "Qwen/Qwen2.5-0.5B@refs/pr/1"), snapshot.string());
  EXPECT_EQ(repo_name_of(snapshot), "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(repo_name_of(home_), "");
  EXPECT_EQ(locate(files_, "gpt2"), "gpt2");  // perhaps a run
  const auto old = add(cache_folder(), "models--gpt2");
  EXPECT_EQ(locate(files_, "gpt2"), old.string());
}

TEST_F(Cache, SaysTheCommandThatFetchesWhatItHasNot) {
  try {
    locate(files_, "Qwen/Qwen2.5-0.5B");
    FAIL() << "found";
  } catch (const base::ConfigError& error) {
    EXPECT_NE(error.hint().find("`hyperion fetch Qwen/Qwen2.5-0.5B`"), std::string::npos) << error.hint();
  }
}

TEST_F(Cache, LeavesPathsAlone) {
  add(cache_folder(), "models--models--mine");
  const auto here = fs::current_path();
  fs::current_path(home_);
  fs::create_directories("models/other");
  EXPECT_EQ(locate(files_, "models/other"), "models/other");      // a path that is there
  EXPECT_EQ(locate(files_, "models/missing"), "models/missing");  // beside others: a slip in a path, told as such
  EXPECT_EQ(locate(files_, "./nowhere/x"), "./nowhere/x");
  fs::create_directories("models/mine");
  EXPECT_EQ(locate(files_, "models/mine"), "models/mine");
  fs::current_path(here);
}

TEST_F(Cache, ReadsTheTokenOfTheVariableElseOfTheFile) {
  EXPECT_EQ(read_token(files_), "");
  files_.create_folders(home_ / ".cache/huggingface");
  base::write_atomically(files_, home_ / ".cache/huggingface/token", "hf_file\n");
  EXPECT_EQ(read_token(files_), "hf_file");
  ::setenv("HF_TOKEN", " hf_variable\n", 1);
  EXPECT_EQ(read_token(files_), "hf_variable");
  ::setenv("HF_TOKEN", "hf_\x01", 1);
  EXPECT_THROW(read_token(files_), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::hub
