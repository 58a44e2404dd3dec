// `hyperion bench data`: how fast text becomes token ids, on one thread and on all cores.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/bench/data_sets.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct DataRow {
  std::string tokenizer;  // the file's name
  int threads = 1;
  int64_t tokens = 0;       // of the whole text
  profile::Spread seconds;  // of one pass over it
};

struct DataResult {
  std::string text;  // the file's name, or what was made in its place
  int64_t bytes = 0;
  int cores = 1;
  std::vector<DataRow> rows;    // each tokenizer on one thread, then on all cores; none: only sets were measured
  std::vector<SetResult> sets;  // that were read

  double rate(const DataRow& row) const { return static_cast<double>(bytes) / 1e6 / row.seconds.median; }  // MB/s
  // Of a row on several threads: how much of the threads' number times the rate of one is reached, 0 to 1.
  double efficiency(const DataRow& row) const;
};

// Prose, code, numbers and other scripts, always the same; about so many bytes.
std::string mixed_text(size_t bytes);

// `tokenizers`: what open_tokenizer opens. Shows a progress line.
DataResult run_data_bench(const std::vector<std::string>& tokenizers, std::string_view text, const std::string& name,
                          int cores, double seconds);

std::string data_bench_table(const DataResult& result);  // Markdown
std::string data_bench_json(const DataResult& result);
std::string data_bench_csv(const DataResult& result);

}  // namespace hyperion::bench
