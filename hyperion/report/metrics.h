// What a run measured: written as it happens, one line a record, and read back for pages and `runs show`.
//
// metrics.jsonl (rank 0): one object a step with the keys below in this order, and one object with a `split` an
// evaluation, and "samples": [{"prompt", "text"}, ...] in it where there are prompts. What cannot be had is null. A
// loss or gradient norm that is not finite is null too, beside "nonfinite": true. metrics.rank-N.csv (each rank): a
// header, then one row a step; what cannot be had is empty, else nan and inf are written so.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/report/metric_records.h"

namespace hyperion::report {

// Of a run's file: some million steps. A longer one is refused before memory is taken for it.
constexpr uint64_t kLongestMetrics = uint64_t{4} << 30;

// A line is in the operating system's hands when write returns: kill -9 loses none. Nothing is synced, so a power cut
// may lose the last ones. Lines that a full or failing disk refuses wait in memory, which is told once, and go with the
// next. A part of a line that a kill left is dropped by the next writer of the run.
class MetricsWriter {
 public:
  // Opens or creates the files in folder `run`. Of what is there it keeps whole records up to and with step
  // `last_step_to_keep` (a fresh run: 0), of evaluations those before `evaluations_before`, and replaces a file
  // atomically where something had to go. Lines that are no records or out of their order, and steps of metrics.jsonl
  // that have none, give a warning.
  MetricsWriter(base::FileSystem& files, const base::Path& run, int rank, int64_t last_step_to_keep,
                int64_t evaluations_before = INT64_MAX);

  void write(const StepRecord& record);
  void write(const EvalRecord& record);  // ranks other than 0 ignore it
  void flush();                          // what waits; throws FileError where it is refused still

 private:
  class Appender {
   public:
    Appender(base::FileSystem& files, base::Path path);
    void append(const std::string& line);
    void flush();

   private:
    base::FileSystem& files_;
    base::Path path_;
    uint64_t size_;  // of what is whole
    std::unique_ptr<base::WritableFile> file_;
    std::string waiting_;
  };
  std::optional<Appender> jsonl_, csv_;  // no jsonl_ but on rank 0
};

struct Metrics {
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evaluations;
};

// Reads the text of a metrics.jsonl; null numbers come back as NaN or nullopt. A torn last line is skipped. Any other
// line that is no record is a CorruptError naming `place` and the line.
Metrics read_metrics(std::string_view text, const std::string& place = "metrics.jsonl");

}  // namespace hyperion::report
