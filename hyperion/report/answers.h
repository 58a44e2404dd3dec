// answers.json: what a run's model answered to held-out questions, so that its page can be made anew.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

struct Sample {
  std::string question, answer;
  std::string expected;       // empty: nothing to compare with
  std::optional<bool> right;  // unknown: not marked
};

struct AnswerRecord {
  int64_t step = 0;  // that it answered after
  double right = 0;  // part of all questions, of which only some are kept
  std::vector<Sample> samples;
};

void write_answers(base::FileSystem& files, const base::Path& run, const AnswerRecord& record);
// Nothing where the run never answered. Throws CorruptError where the file is not one of these.
std::optional<AnswerRecord> read_answers(base::FileSystem& files, const base::Path& run);

}  // namespace hyperion::report
