#include "hyperion/trace_formats/sqlite_trace.h"

#include <gtest/gtest.h>

#if __has_include(<sqlite3.h>)
#include <fstream>
#include <map>
#include <set>

#include "hyperion/analysis/analysis.h"
#include "hyperion/trace_formats/read_any_trace.h"
#include "hyperion/trace_formats/trace_files.h"
#include "tests/base/support_child.h"
#include "tests/support/fuzz.h"
#include "tests/trace/support_databases.h"

namespace hyperion::trace {
namespace {

using base::test::error_of;

class SqliteTrace : public ::testing::Test {
 protected:
  base::Path make(const std::string& name, const std::string& script) {
    test::run_sql(folder_ / name, script);
    return folder_ / name;
  }
  base::test::TestFolder folder_;
};

struct Seen {
  std::string name, args;
  int64_t begin, duration, device, stream, correlation;
  bool operator==(const Seen&) const = default;
};

std::map<Category, std::vector<Seen>> by_category(const Trace& trace) {
  std::map<Category, std::vector<Seen>> all;
  for (size_t i = 0; i < trace.size(); ++i)
    all[trace.category(i)].push_back({std::string(trace.name_text(i)), trace.args(i), trace.begin[i], trace.duration[i],
                                      trace.device(i), trace.stream(i), trace.correlation(i)});
  return all;
}

TEST_F(SqliteTrace, of_nsight_systems_has_kinetos_words) {
  const auto path = make("a.sqlite", test::nsight_script());
  ASSERT_EQ(sqlite_processes(path), std::vector<int64_t>{71});
  const auto trace = read_any_trace({path});
  EXPECT_EQ(trace.facts.path, path.string());
  EXPECT_EQ(trace.facts.base_time_ns, 1700000000000000000);
  auto seen = by_category(trace);
  EXPECT_EQ(
      seen[Category::kernel],
      (std::vector<Seen>{{"void gemm<float, 8>(float*)",
                          R"({"device": 1, "stream": 7, "correlation": 11, "grid": [4, 2, 1], "block": [128, 1, 1], )"
                          R"("registers per thread": 32})",
                          2000, 3000, 1, 7, 11},
                         {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                          R"({"device": 1, "stream": 20, "correlation": 13, "grid": [8, 1, 1], "block": [512, 1, 1], )"
                          R"("registers per thread": 90, "graph node id": 4294967301})",
                          5500, 4000, 1, 20, 13}}));
  ASSERT_EQ(seen[Category::gpu_memcpy].size(), 1U);
  EXPECT_EQ(seen[Category::gpu_memcpy][0].name, "Memcpy HtoD");
  EXPECT_EQ(seen[Category::gpu_memset].size(), 1U);
  ASSERT_EQ(seen[Category::runtime].size(), 2U);
  EXPECT_EQ(seen[Category::runtime][0].name, "cudaLaunchKernel");
  EXPECT_EQ(seen[Category::runtime][0].correlation, 11);
  EXPECT_EQ(seen[Category::driver].size(), 1U);
  ASSERT_EQ(seen[Category::cpu_op].size(), 1U);
  EXPECT_EQ(seen[Category::cpu_op][0].name, "aten::addmm");
  ASSERT_EQ(seen[Category::user_annotation].size(), 1U) << "the open range and the domain are left out";
  EXPECT_EQ(seen[Category::user_annotation][0].name, "ProfilerStep#3");
  EXPECT_EQ(seen[Category::instant].size(), 1U);
  for (size_t i = 0; i < trace.size(); ++i)
    if (trace.category(i) == Category::runtime) {
      EXPECT_EQ(trace.tracks[trace.track[i]].tid, "72");
    }
}

TEST_F(SqliteTrace, of_rocprofv3_has_kinetos_words) {
  const auto trace = read_any_trace({make("a.db", test::rocpd_script({{"0a1b", 71}}))});
  auto seen = by_category(trace);
  EXPECT_EQ(seen[Category::kernel],
            (std::vector<Seen>{{"Cijk_x",
                                R"({"device": 1, "stream": 7, "correlation": 101, "queue": 1, "grid": [512, 2, 1], )"
                                R"("block": [128, 1, 1]})",
                                2000, 3000, 1, 7, 101},
                               {"ncclDevKernel_Generic_1.kd",
                                R"({"device": 1, "stream": 9, "queue": 2, "grid": [64, 1, 1], "block": [256, 1, 1]})",
                                5500, 4000, 1, 9, kNone}}));
  ASSERT_EQ(seen[Category::gpu_memcpy].size(), 1U);
  EXPECT_EQ(
      seen[Category::gpu_memcpy][0],
      (Seen{"Memcpy HtoD", R"({"device": 1, "stream": 7, "correlation": 102, "bytes": 4096})", 5100, 300, 1, 7, 102}));
  ASSERT_EQ(seen[Category::runtime].size(), 2U);
  EXPECT_EQ(seen[Category::runtime][1].name, "hipMemcpyAsync");
  ASSERT_EQ(seen[Category::user_annotation].size(), 1U);
  EXPECT_EQ(seen[Category::user_annotation][0].name, "ProfilerStep#3");
}

// 2 to 9.7 us: a kernel of 3, a copy of 0.3, one of communication of 4, a fill.
TEST_F(SqliteTrace, is_analysed_as_kinetos_is) {
  for (const auto& path : {make("a.sqlite", test::nsight_script()), make("a.db", test::rocpd_script({{"0a1b", 71}}))}) {
    const bool nsight = path.extension() == ".sqlite";
    const auto analysis = analysis::analyze(read_any_trace({path}));
    EXPECT_EQ(analysis.times.compute, 3000) << path;
    EXPECT_EQ(analysis.times.non_compute, nsight ? 4400 : 4300) << path;
    EXPECT_EQ(analysis.times.total, nsight ? 7700 : 7500) << path;
  }
}

TEST_F(SqliteTrace, of_several_processes_is_a_trace_each) {
  for (const auto& path : {make("two.sqlite", test::nsight_script(true)),
                           make("two.db", test::rocpd_script({{"0a1b", 71}, {"77cc", 81}}))}) {
    const auto names = trace_files(path);
    ASSERT_EQ(names.size(), 2U) << path;
    std::set<std::string> paths;
    size_t kernels = 0;
    for (const auto& name : names) {
      const auto trace = read_any_trace(name);
      paths.insert(trace.facts.path);
      kernels += by_category(trace)[Category::kernel].size();
      for (size_t i = 0; i < trace.size(); ++i)
        if (!is_device_work(trace.category(i))) {
          EXPECT_EQ(trace.tracks[trace.track[i]].pid, name.process == 0 ? "71" : "81");
        }
    }
    EXPECT_EQ(paths, (std::set<std::string>{path.string() + ", process 71", path.string() + ", process 81"}));
    EXPECT_EQ(kernels, path.extension() == ".db" ? 4U : 3U);
  }
  EXPECT_EQ(trace_files(folder_.path()).size(), 4U);
}

TEST_F(SqliteTrace, refuses_what_is_none) {
  const auto other = make("other.db", "CREATE TABLE a (b); INSERT INTO a VALUES (1);");
  EXPECT_NE(error_of([&] { read_any_trace({other}); }).find("neither one that nsys exported nor one of rocprofv3"),
            std::string::npos);
  const auto refused = [&](const std::string& change) {
    const auto path = folder_ / "changed.sqlite";
    std::filesystem::remove(path);
    test::run_sql(path, test::nsight_script());
    test::run_sql(path, change);
    return error_of<base::CorruptError>([&] { read_any_trace({path}); });
  };
  EXPECT_NE(refused("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1").find("ends before it begins"),
            std::string::npos);
  EXPECT_NE(refused("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 'one'")
                .find("deviceId of CUPTI_ACTIVITY_KIND_KERNEL is no whole number"),
            std::string::npos);
  EXPECT_NE(refused("UPDATE StringIds SET value = CAST(x'ff41' AS TEXT)").find("not UTF-8"), std::string::npos);
  EXPECT_NE(
      refused(
          "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
          "FROM n) SELECT id, 'x' AS value FROM n;")
          .find("more rows than its size allows"),
      std::string::npos);
  EXPECT_NE(
      refused(
          "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
          "FROM n) SELECT count(*) AS id, 'x' AS value FROM n;")
          .find("more work than its size allows"),
      std::string::npos);
  EXPECT_NE(error_of([&] { trace_files(make("a.nsys-rep", "CREATE TABLE a (b);")); }).find("nsys export --type sqlite"),
            std::string::npos);
}

// Cut anywhere it is refused, or reads as a shorter one does.
TEST_F(SqliteTrace, that_is_cut_or_broken_is_refused) {
  std::mt19937 random(7);
  for (const auto& path :
       {make("a.sqlite", test::nsight_script(true)), make("a.db", test::rocpd_script({{"0a1b", 71}}))}) {
    const auto good = base::real_files().read(path);
    int read = 0;
    for (int i = 0; i < 400; ++i) {
      const auto broken = i < 300
                              ? good.substr(0, 100 + static_cast<size_t>(i) * (good.size() - 100) / 100)
                              : testing::mutated(good, good.size(), {std::string(8, '\xff'), "\x01", "\x7f"}, random);
      std::ofstream(folder_ / "broken", std::ios::binary) << broken;
      try {
        analysis::analyze(read_any_trace({folder_ / "broken"}));
        ++read;
      } catch (const base::CorruptError&) {
      } catch (const base::FileError&) {
      }
    }
    EXPECT_GT(read, 20);
    EXPECT_LT(read, 380);
  }
}

}  // namespace
}  // namespace hyperion::trace
#endif
