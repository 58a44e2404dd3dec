#include "hyperion/bench/hardware.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/json.h"
#include "hyperion/base/signals.h"
#include "hyperion/bench/cpu_peak.h"
#include "hyperion/bench/device.h"

namespace hyperion::bench {
namespace {

HardwareOptions tiny_hardware() {
  HardwareOptions options;
  options.sizes = {64, 128};
  options.elements = {1000, 20000};
  options.device = "cpu";
  options.seconds_per_case = 0.003;
  options.quick = true;
  return options;
}

const HardwareResult& tiny_result() {
  static const HardwareResult result = run_hardware_bench(tiny_hardware());
  return result;
}

std::vector<std::string> left_out(const HardwareResult& result) {
  std::vector<std::string> notes;
  for (const std::string& note : result.notes) {
    if (note.find(" left out: ") != std::string::npos) notes.push_back(note);
  }
  return notes;
}

// What a test needs of the error: its hint.
std::string hint_of(const HardwareOptions& options) {
  try {
    run_hardware_bench(options);
  } catch (const base::ConfigError& error) {
    return error.hint();
  }
  return "no ConfigError";
}

std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) lines.back().push_back(cell);
  }
  return lines;
}

TEST(Hardware, a_cpu_bench_yields_a_row_a_case) {
  int products = 0, vectors = 0, latencies = 0;
  for (const HardwareRow& row : tiny_result().rows) {
    products += row.kind == "matmul", vectors += row.kind == "bandwidth", latencies += row.kind == "latency";
    EXPECT_TRUE(std::isfinite(row.value()) && row.value() > 0) << row.name;
    EXPECT_LE(row.low(), row.value()) << row.name;
    EXPECT_GE(row.high(), row.value()) << row.name;
    EXPECT_GE(row.seconds.repeats, 1) << row.name;
    EXPECT_EQ(row.peak > 0, row.name == "fp32") << row.name;
  }
  EXPECT_EQ(products, 2 * 3);
  EXPECT_EQ(vectors, 2 * 2);
  EXPECT_GE(latencies, 1);
  EXPECT_EQ(tiny_result().device, "cpu");
}

TEST(Hardware, rates_follow_from_work_and_time) {
  const HardwareRow product{"matmul", "bf16", 100, {2e-6, 1e-6, 4e-6, 5}, 2e6, 4};
  EXPECT_DOUBLE_EQ(product.value(), 1);
  EXPECT_DOUBLE_EQ(product.low(), 0.5);
  EXPECT_DOUBLE_EQ(product.high(), 2);
  EXPECT_DOUBLE_EQ(product.percent(), 25);
  const HardwareRow latency{"latency", "launch", 0, {2e-6, 1e-6, 4e-6, 5}, 0, 0};
  EXPECT_DOUBLE_EQ(latency.value(), 2);
  EXPECT_DOUBLE_EQ(latency.low(), 1);
  EXPECT_DOUBLE_EQ(latency.percent(), 0);
}

TEST(Hardware, measures_only_what_is_asked_for) {
  HardwareOptions options = tiny_hardware();
  options.only = {"matmul"};
  options.dtypes = {"bf16"};
  options.sizes = {32};
  const HardwareResult result = run_hardware_bench(options);
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_EQ(result.rows[0].name, "bf16");
  EXPECT_EQ(result.rows[0].size, 32);
}

TEST(Hardware, sizes_out_of_range_are_refused) {
  for (int64_t size : {int64_t{0}, int64_t{-8}, int64_t{1} << 40}) {
    HardwareOptions options = tiny_hardware();
    options.sizes = {64, size};
    EXPECT_THROW(run_hardware_bench(options), base::ConfigError) << size;
    options = tiny_hardware();
    options.elements = {size == int64_t{1} << 40 ? size + 1 : size};
    EXPECT_THROW(run_hardware_bench(options), base::ConfigError) << size;
  }
  HardwareOptions options = tiny_hardware();
  options.sizes = {};
  EXPECT_THROW(run_hardware_bench(options), base::ConfigError);
}

TEST(Hardware, seconds_out_of_range_are_refused) {
  for (double seconds : {0.0, -1.0, std::nan(""), 1e9}) {
    HardwareOptions options = tiny_hardware();
    options.seconds_per_case = seconds;
    EXPECT_THROW(run_hardware_bench(options), base::ConfigError) << seconds;
  }
}

TEST(Hardware, unknown_words_are_refused_with_the_nearest) {
  HardwareOptions options = tiny_hardware();
  options.dtypes = {"fp322"};
  EXPECT_NE(hint_of(options).find("did you mean fp32?"), std::string::npos) << hint_of(options);
  options = tiny_hardware();
  options.only = {"latencyy"};
  EXPECT_NE(hint_of(options).find("did you mean latency?"), std::string::npos) << hint_of(options);
  options = tiny_hardware();
  options.device = "cudaa";
  EXPECT_NE(hint_of(options).find("did you mean cuda?"), std::string::npos) << hint_of(options);
}

TEST(Hardware, a_dtype_the_device_lacks_is_refused_with_those_it_has) {
  HardwareOptions options = tiny_hardware();
  options.dtypes = {"tf32"};
  EXPECT_EQ(hint_of(options), "here: fp32, fp16, bf16");
}

TEST(Hardware, what_does_not_fit_in_memory_is_left_out_and_named) {
  HardwareOptions options = tiny_hardware();
  options.elements = {int64_t{1} << 40};
  options.quick = false;
  options.only = {"bandwidth"};
  const HardwareResult result = run_hardware_bench(options);
  EXPECT_TRUE(result.rows.empty());
  EXPECT_EQ(left_out(result).size(), 2u);
}

TEST(Hardware, a_quick_bench_says_which_vectors_it_left_out) {
  HardwareOptions options = tiny_hardware();
  options.elements = {1000, 200'000'000};
  options.only = {"bandwidth"};
  const HardwareResult result = run_hardware_bench(options);
  EXPECT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(left_out(result).size(), 2u);
}

TEST(HardwareDeathTest, a_stop_request_ends_the_bench) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stopped = [] {
    base::watch_stop_signals();
    ::raise(SIGTERM);
    try {
      run_hardware_bench(tiny_hardware());
    } catch (const base::Interrupted& error) {
      ::_exit(error.exit_code());
    }
  };
  EXPECT_EXIT(stopped(), testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(Hardware, json_parses_back_to_the_rows) {
  const base::Json json = base::parse_json(hardware_json(tiny_result()), "hardware.json");
  ASSERT_EQ(json["rows"].size(), tiny_result().rows.size());
  for (size_t i = 0; i < json["rows"].size(); ++i) {
    const HardwareRow& row = tiny_result().rows[i];
    EXPECT_EQ(json["rows"][i]["name"], row.name);
    EXPECT_EQ(json["rows"][i]["size"], row.size);
    EXPECT_DOUBLE_EQ(json["rows"][i]["value"].get<double>(), row.value());
    EXPECT_EQ(json["rows"][i]["percent_of_peak"].is_null(), row.peak == 0);
  }
}

TEST(Hardware, csv_parses_back_to_the_rows) {
  const auto lines = parse_csv(hardware_csv(tiny_result()));
  ASSERT_EQ(lines.size(), tiny_result().rows.size() + 1);
  for (size_t i = 1; i < lines.size(); ++i) {
    const HardwareRow& row = tiny_result().rows[i - 1];
    ASSERT_EQ(lines[i].size(), lines[0].size()) << row.name;
    EXPECT_EQ(lines[i][1], row.name);
    EXPECT_EQ(lines[i][2], std::to_string(row.size));
    EXPECT_NEAR(std::stod(lines[i][4]), row.value(), row.value() * 1e-4);
  }
}

TEST(Hardware, table_names_every_row_and_is_plain_without_colour) {
  const std::string plain = hardware_table(tiny_result(), false);
  for (const HardwareRow& row : tiny_result().rows) EXPECT_NE(plain.find(row.name), std::string::npos) << row.name;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(hardware_table(tiny_result(), true).find('\x1b'), std::string::npos);
}

TEST(Hardware, files_are_written_whole_or_not_at_all) {
  const base::Path folder = base::Path(testing::TempDir()) / "hardware_files";
  std::filesystem::remove_all(folder);
  base::FaultyFileSystem full;
  full.set_capacity(100);
  EXPECT_THROW(write_hardware_files(tiny_result(), folder, full), base::FileError);
  EXPECT_FALSE(std::filesystem::exists(folder / "hardware.json"));
  write_hardware_files(tiny_result(), folder);
  for (const char* name : {"hardware.json", "hardware.csv", "matmul.svg", "bandwidth.svg"}) {
    EXPECT_TRUE(std::filesystem::file_size(folder / name) > 0) << name;
  }
  EXPECT_NE(base::real_files().read(folder / "matmul.svg").find("<svg"), std::string::npos);
}

TEST(Hardware, the_cpu_peak_is_measured_on_the_threads_asked_for) {
  const CpuPeak peak = measure_cpu_peak(2, 0.01);
  EXPECT_GT(peak.tflops, 0);
  EXPECT_EQ(peak.threads, 2);
  EXPECT_FALSE(peak.vectors.empty());
}

TEST(Hardware, products_and_peak_are_of_the_same_threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto source = cpu_device(0.01)->peak_source();
  at::set_num_threads(before);
  EXPECT_NE(source.find("multiply-adds on 1 thread)"), std::string::npos) << source;
}

}  // namespace
}  // namespace hyperion::bench
