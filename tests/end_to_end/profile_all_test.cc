// `profile all`: every profiler over one work, with stand-ins of the programs that write files of the real formats.
#include <gtest/gtest.h>

#if __has_include(<sqlite3.h>)
#include <signal.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hyperion/host/programs.h"
#include "tests/end_to_end/support_processes.h"
#include "tests/trace/support_databases.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Finished;
using testing::read_file;
using testing::says;
using testing::operator+;
using Words = std::vector<std::string>;

const char kRawPage[] =
    R"csv("ID","Process ID","Process Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum"
"","","","","","","","","","","ns"
"0","71","hyperion","void gemm<float, 8>(float*)","1","7","(128, 1, 1)","(4, 2, 1)","0","9.0","3,000"
"1","71","hyperion","gelu(float*, ""x"")","1","7","(128, 1, 1)","(4, 2, 1)","0","9.0","1,000.50"
"2","71","hyperion","void gemm<float, 8>(float*)","1","7","(128, 1, 1)","(4, 2, 1)","0","9.0","2000"
)csv";

class ProfileAll : public ::testing::Test {
 protected:
  void SetUp() override {
    trace::test::run_sql(fixture("nsys.sqlite"), trace::test::nsight_script());
    trace::test::run_sql(fixture("rocpd.db"), trace::test::rocpd_script({{"0a1b", 71}}));
    testing::write_file(fixture("raw.csv"), kRawPage);
    testing::write_file(fixture("pmc_perf.csv"),
                        "Dispatch_ID,GPU_ID,Kernel_Name,Grid_Size,SQ_WAVES,Start_Timestamp,End_Timestamp\n"
                        "0,2,Cijk_x,512,8,1000,4000\n1,2,\"f(int, int)\",64,1,5000,6000\n");
    stand_in("nsys", R"sh(
case "$1" in
  --version) echo "NVIDIA Nsight Systems version 2024.5.1.113-245134619542v0" ;;
  profile) echo report > "$(value_of --output "$@").nsys-rep"; echo "Generated report" ;;
  export) cp "$FIXTURES/nsys.sqlite" "$(value_of --output "$@")" ;;
esac)sh");
    stand_in("ncu", R"sh(
case "$1" in
  --version) printf 'NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2024.3.2.0 (build 34861637) (public-release)\n' ;;
  --export) echo report > "$2.ncu-rep"; echo "==PROF== Connected to process 71" ;;
  --import) cat "$FIXTURES/raw.csv" ;;
esac)sh");
    stand_in("rocprofv3", R"sh(
if [ "$1" = --version ]; then echo "    version: 1.0.0"; exit; fi
while [ $# -gt 0 ] && [ "$1" != --output-directory ]; do shift; done
mkdir -p "$2/host" && cp "$FIXTURES/rocpd.db" "$2/host/work_results.db")sh");
    stand_in("rocprof-sys-run", R"sh(
if [ "$1" = --version ]; then echo "rocprof-sys-run v1.1.0"; exit; fi
cp "$FIXTURES/good.pftrace" "$ROCPROFSYS_OUTPUT_PATH/perfetto-trace-71.proto")sh");
    stand_in("rocprof-compute", R"sh(
if [ "$1" = --version ]; then echo "rocprofiler-compute version: 3.1.0 (release)"; exit; fi
while [ $# -gt 0 ] && [ "$1" != --path ]; do shift; done
mkdir -p "$2" && cp "$FIXTURES/pmc_perf.csv" "$2")sh");
  }
  fs::path fixture(const std::string& name) {
    fs::create_directories(scratch_.path() / "fixtures");
    return scratch_.path() / "fixtures" / name;
  }
  void stand_in(const std::string& name, const std::string& script) {
    const auto folder = scratch_.path() / "bin";
    fs::create_directories(folder);
    testing::write_file(
        folder / name,
        "#!/bin/sh\nvalue_of() { flag=$1; shift; for word; do case $word in $flag=*) echo \"${word#*=}\" "
        ";; esac; done; }\n" +
            script + "\n");
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  std::map<std::string, std::string> environment() {
    return {{"PATH", (scratch_.path() / "bin").string() + ":" + std::getenv("PATH")},
            {"FIXTURES", (scratch_.path() / "fixtures").string()},
            {"HYPERION_TEST_MARK", scratch_.path().string()}};
  }
  Words command(const Words& more) {
    return Words{"profile", "all", "tiny-llama", "--device", "cpu", "--steps", "4"} + more;
  }
  Finished profile(const Words& more) { return testing::run(scratch_, command(more), environment()); }
  static json tool(const json& found, const std::string& name) {
    for (const auto& one : found["tools"])
      if (one["tool"] == name) return one;
    return {};
  }
  std::string out() { return (scratch_.path() / "profiles").string(); }
  testing::Scratch scratch_;
};

TEST_F(ProfileAll, starts_each_and_reads_what_it_wrote) {
  const auto trace = fixture("a.json");
  testing::write_file(
      trace,
      R"({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "hip_gemm", "pid": 0, "tid": 7,
    "ts": 1, "dur": 4, "args": {"device": 0, "stream": 7, "correlation": 3}}]})");
  ASSERT_EQ(
      testing::run(scratch_, {"trace", "export", trace.string(), "--to", "perfetto", "--output", fixture("").string()})
          .code,
      0);
  for (const auto& entry : fs::directory_iterator(fixture("")))
    if (entry.path().extension() == ".pftrace") fs::rename(entry.path(), fixture("good.pftrace"));
  const auto done = profile({"--output", out(), "--json"});
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  const auto found = json::parse(done.out);
  const std::map<std::string, std::string> versions = {{"nsys", "2024.5.1.113"},
                                                       {"ncu", "2024.3.2.0"},
                                                       {"rocprofv3", "1.0.0"},
                                                       {"rocprof-sys", "1.1.0"},
                                                       {"rocprof-compute", "3.1.0"}};
  for (const auto& [name, version] : versions) {
    const auto one = tool(found, name);
    EXPECT_EQ(one["version"], version) << name;
    EXPECT_EQ(one["exit"], 0) << name;
    ASSERT_EQ(one["read"].size(), 1u) << one;
    EXPECT_TRUE(one["read"][0]["problem"].is_null()) << one;
    EXPECT_TRUE(says(one["commands"][0], "bench train tiny-llama --steps 4 --device cpu")) << one["commands"];
    EXPECT_EQ(read_file(fs::path(out()) / name / "command.txt").substr(0, one["commands"][0].get<std::string>().size()),
              one["commands"][0]);
  }
  const auto kernels = [&](const std::string& name) { return tool(found, name)["kernels"]; };
  EXPECT_EQ(kernels("nsys")[0]["us"], 4) << kernels("nsys");  // of the collective; the product has 3
  EXPECT_EQ(kernels("ncu")[0], json({{"name", "gemm"}, {"count", 2}, {"us", 5.0}}));
  EXPECT_EQ(kernels("ncu")[1]["us"], 1.0005);
  EXPECT_EQ(kernels("rocprofv3")[1]["name"], "Cijk_x");
  EXPECT_EQ(kernels("rocprof-sys")[0]["name"], "hip_gemm");
  EXPECT_EQ(kernels("rocprof-compute")[0], json({{"name", "Cijk_x"}, {"count", 1}, {"us", 3.0}}));
  const auto own = tool(found, "hyperion");  // the work itself: on a CPU there are operators, no kernels
  EXPECT_EQ(own["exit"], 0) << own;
  EXPECT_GT(own["operators"].size(), 5u) << own;
  EXPECT_EQ(json::parse(read_file(fs::path(out()) / "profiles.json")), found);
  EXPECT_TRUE(says(read_file(fs::path(out()) / "profiles.txt"), "raw.csv: 3 kernels"));

  const auto again = profile({"--output", out()});
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(says(again.err, "holds profiles already")) << again.err;
}

TEST_F(ProfileAll, tells_of_one_that_fails_and_goes_on) {
  stand_in("rocprofv3", "echo begun; echo 'no GPU agent was found' >&2; exit 3");
  stand_in("rocprof-sys-run", "head -c 300 \"$FIXTURES/rocpd.db\" > \"$ROCPROFSYS_OUTPUT_PATH/rocpd.db\"");
  stand_in("ncu", R"sh(
case "$1" in
  --export) echo > "$2.ncu-rep" ;;
  --import) echo '==ERROR== ERR_NVGPUCTRPERM: no permission to access counters' ;;
esac)sh");
  const auto done = profile({"--tools", "nsys,ncu,rocprofv3,rocprof-sys,rocprof-compute", "--output", out()});
  EXPECT_EQ(done.code, 1);
  for (const char* part :
       {"rocprofv3: exit code 3", "no GPU agent was found", "rocpd.db: BROKEN", "no column \"Kernel Name\"", "nothing",
        "work.sqlite: ", "pmc_perf.csv: 2 kernels", "Cijk_x (75%, 1 of 3.0 us)"})
    EXPECT_TRUE(says(done.out, part)) << part << "\n" << done.out;
}

TEST_F(ProfileAll, ends_one_that_hangs_with_all_it_started) {
  stand_in("rocprof-sys-run", "[ \"$1\" = --version ] && exit; sleep 1000 & wait");
  const auto done = profile({"--tools", "rocprof-sys,rocprof-compute", "--limit", "1", "--output", out()});
  EXPECT_EQ(done.code, 1);
  EXPECT_TRUE(says(done.out, "rocprof-sys: took longer than 1 s and was ended")) << done.out;
  EXPECT_TRUE(says(done.out, "time limit")) << done.out;
  EXPECT_TRUE(testing::no_process_with("HYPERION_TEST_MARK=" + scratch_.path().string()));
}

TEST_F(ProfileAll, leaves_nobody_behind_when_it_is_stopped) {
  stand_in("nsys", "[ \"$1\" = --version ] && exit; sleep 1000 & touch \"$FIXTURES/began\"; wait");
  for (const int number : {SIGINT, SIGKILL}) {
    fs::remove(fixture("began"));
    testing::Program program(scratch_,
                             command({"--tools", "rocprof-compute,nsys", "--output", out() + std::to_string(number)}),
                             environment());
    for (int i = 0; i < 6000 && !fs::exists(fixture("began")); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(fs::exists(fixture("began")));
    program.signal(number);
    EXPECT_EQ(program.wait().code, 128 + number);
    EXPECT_TRUE(testing::no_process_with("HYPERION_TEST_MARK=" + scratch_.path().string())) << number;
  }
}

TEST_F(ProfileAll, says_what_is_missing_and_refuses_what_is_none) {
  const auto refused = [&](const Words& words, const std::string& why) {
    const auto done = testing::run(scratch_, words, environment());
    EXPECT_EQ(done.code, 2) << done.out;
    EXPECT_TRUE(says(done.err, why)) << done.err;
    EXPECT_TRUE(says(done.err, "hint: ")) << done.err;
  };
  refused({"profile", "all", "tiny-lama"}, "there is no workload \"tiny-lama\"");
  refused({"profile", "all", "tiny"}, "tiny is several workloads");
  refused({"profile", "all", "none.toml"}, "none.toml");
  refused({"profile", "all", "tiny-llama", "--tools", "nsight"}, "\"nsight\" is not one of hyperion, nsys");
  refused({"profile", "all"}, "WORKLOAD is required");
  refused({"profile"}, "RUN is required");
  refused({"profile", "quickstart", "--stps", "3"}, "unknown flag --stps of `hyperion profile`");
  EXPECT_FALSE(fs::exists(scratch_.runs()));
  fs::remove(scratch_.path() / "bin/rocprofv3");
  if (host::find_program("rocprofv3", std::getenv("PATH"))) GTEST_SKIP() << "rocprofv3 is installed here";
  const auto done = profile({"--tools", "rocprofv3", "--output", out()});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(says(done.out, "not installed:\n  rocprofv3       ROCm 6.2 or later: the package rocprofiler-sdk"))
      << done.out;
}

// A recipe is trained once a tool, in the tool's own folder.
TEST_F(ProfileAll, of_a_recipe_trains_it) {
  stand_in("rocprof-compute", R"sh(
[ "$1" = --version ] && exit
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
shift; "$@")sh");
  const auto done = testing::run(scratch_,
                                 {"profile", "all", testing::tiny_recipe(scratch_).string(), "--device", "cpu",
                                  "--steps", "5", "--tools", "hyperion,rocprof-compute", "--output", out(), "--json"},
                                 environment());
  EXPECT_EQ(done.code, 1) << done.err;
  const auto found = json::parse(done.out);
  EXPECT_GT(tool(found, "hyperion")["operators"].size(), 5u) << found;
  EXPECT_EQ(tool(found, "rocprof-compute")["failure"], "left no file that can be read here");
  EXPECT_TRUE(fs::exists(fs::path(out()) / "rocprof-compute/work/metrics.jsonl"));
  EXPECT_FALSE(fs::exists(fs::path(out()) / "hyperion/work/checkpoints"));
}

}  // namespace
}  // namespace hyperion
#endif
