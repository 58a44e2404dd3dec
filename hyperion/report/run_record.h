// run.json: who a run is and how it stands, and the list of all runs in a folder.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

struct RunRecord {
  std::string name, recipe, created, updated;
  std::string status = "running";  // running | complete | stopped | failed
  std::string failure;             // why, when failed
  int64_t step = 0, steps = 0, parameters = 0;
  int64_t trained = 0;  // of the parameters, or of an adapter beside them
  double seconds = 0;   // of training, over all resumes
  std::optional<double> loss, validation_loss, perplexity, token_accuracy, answers_right, top_1, top_5;
  std::vector<std::pair<std::string, std::string>> environment;
};

// "633,984 parameters", or of an adapter "16,384 of 650,368 parameters trained".
std::string parameters_text(int64_t parameters, int64_t trained);

std::string to_json(const RunRecord& record);
RunRecord run_record_from_json(const std::string& text, const std::string& place);

void write_run_record(base::FileSystem& files, const base::Path& run, const RunRecord& record);
RunRecord read_run_record(base::FileSystem& files, const base::Path& run);

// Every folder with a readable run.json, newest first; the others are passed over.
std::vector<RunRecord> list_runs(base::FileSystem& files, const base::Path& runs);

std::string runs_table(const std::vector<RunRecord>& records);
std::string run_text(const RunRecord& record);  // one run in full, for people

}  // namespace hyperion::report
