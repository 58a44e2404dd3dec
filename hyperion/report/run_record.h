// run.json: who a run is and how it stands, and the list of all runs in a folder.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

struct RunRecord {
  base::Path folder;  // where it was read
  std::string name, recipe, created, updated;
  std::string status = "running";  // running | complete | stopped | failed; shown also: killed, damaged
  std::string failure;             // why, when failed or damaged
  int64_t step = 0, steps = 0, parameters = 0;
  int64_t trained = 0;               // of the parameters, or of an adapter beside them
  double seconds = 0;                // of training, over all resumes
  int64_t restarts = 0;              // that its launcher made, after something failed
  std::string restarted;             // of the last one: from which step, and after what
  std::string data;                  // how much there is, and what was cut or left out
  std::string ended;                 // why it is complete before its last step
  std::optional<int64_t> best_step;  // of the lowest validation loss, whose checkpoint is kept
  std::optional<double> best_loss;
  std::optional<int64_t> saved_step;  // of the newest complete checkpoint, as far as it was told
  int64_t failed_saves = 0;           // so far
  std::string failed_save;            // the last one, where none was complete since: which step, and why
  std::optional<double> loss, validation_loss, perplexity, token_accuracy, answers_right, top_1, top_5;
  std::vector<std::pair<std::string, std::string>> environment;
};

// "633,984 parameters", or of an adapter "16,384 of 650,368 parameters trained".
std::string parameters_text(int64_t parameters, int64_t trained);

std::string to_json(const RunRecord& record);
RunRecord run_record_from_json(const std::string& text, const std::string& place);

void write_run_record(base::FileSystem& files, const base::Path& run, const RunRecord& record);
// Its name is that of the folder, whatever the file says: a folder may have been moved.
RunRecord read_run_record(base::FileSystem& files, const base::Path& run);

// Every run of the folder, newest first. One whose run.json cannot be read is "damaged", with what is wrong; one that
// has none yet is "running".
std::vector<RunRecord> list_runs(base::FileSystem& files, const base::Path& runs);

std::string runs_table(const std::vector<RunRecord>& records);
std::string run_text(const RunRecord& record);  // one run in full, for people

}  // namespace hyperion::report
