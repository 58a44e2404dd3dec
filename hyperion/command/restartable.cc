#include "hyperion/command/restartable.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::cli {
namespace {

using Words = std::vector<std::string>;

// The value of "--flag VALUE" or "--flag=VALUE".
std::optional<std::string> value_of(const Words& words, const std::string& flag) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + "=")) return words[i].substr(flag.size() + 1);
    if (words[i] == flag && i + 1 < words.size()) return words[i + 1];
  }
  return std::nullopt;
}

// The recipe is the first word that names a file; a flag's value may stand before it.
std::string recipe_of(const Words& words, size_t begin) {
  for (size_t i = begin; i < words.size(); ++i)
    if (words[i].ends_with(".toml")) return words[i];
  return "run.toml";
}

// The end of a file; empty where there is none.
std::string tail_of(const base::Path& path) {
  constexpr std::streamoff kTail = 1 << 20;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  std::string text(static_cast<size_t>(std::min(size, kTail)), '\0');
  file.seekg(size - static_cast<std::streamoff>(text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// Where the command's own name stands.
size_t verb_of(const Words& command) {
  return command.size() > 1 && base::Path(command[0]).filename() == "hyperion" ? 1 : 0;
}

// The whole lines at the end of a run's metrics, the last one first, until `use` returns false.
void each_of_last_records(const base::Path& run, const std::function<bool(const base::Json&)>& use) {
  const base::Path metrics = run / "metrics.jsonl";
  const std::string text = tail_of(metrics);
  for (size_t end = text.rfind('\n'); end != text.npos && end > 0;) {
    const size_t before = text.rfind('\n', end - 1), begin = before == text.npos ? 0 : before + 1;
    try {
      const auto record = base::parse_json(text.substr(begin, end - begin), metrics.string());
      if (record.contains("step") && !use(record)) return;
    } catch (const std::exception&) {  // a torn line, or one that the tail begins in
    }
    end = before;
  }
}

}  // namespace

bool trains_a_run(const Words& command) {
  if (command.empty()) return false;
  const std::string& verb = command[verb_of(command)];
  return verb == "train" || verb == "resume";
}

Restartable restartable(Words command, double unix_seconds) {
  if (!trains_a_run(command)) return {std::move(command), {}};
  const size_t verb = verb_of(command);
  if (command[verb] == "resume") {
    for (size_t i = verb + 1; i < command.size(); ++i)
      if (!command[i].starts_with("-"))
        if (auto run = interop::named_run(base::real_files(), command[i])) return {std::move(command), std::move(run)};
    return {std::move(command), {}};
  }
  auto name = value_of(command, "--run");
  const bool named_here = !name;
  if (named_here) {
    name = train::default_run_name(recipe_of(command, verb + 1), unix_seconds);
    command.insert(command.end(), {"--run", *name});
  }
  if (std::find(command.begin(), command.end(), "--or-resume") == command.end()) command.push_back("--or-resume");
  return {std::move(command), interop::runs_folder() / *name, named_here};
}

int64_t saved_step(const base::Path& run) {
  const base::Path folder = run / "checkpoints";
  if (!base::real_files().exists(folder)) return 0;
  const auto found = checkpoint::list_checkpoints(base::real_files(), folder);
  return found.empty() ? 0 : found.front().step;
}

int64_t reached_step(const base::Path& run) {
  int64_t step = 0;
  each_of_last_records(run, [&](const base::Json& record) {
    step = record.at("step").get<int64_t>();
    return false;
  });
  return step;
}

double slow_step(const base::Path& run) {
  constexpr size_t kFewest = 20, kMost = 500;
  std::vector<double> seconds;
  each_of_last_records(run, [&](const base::Json& record) {
    if (record.contains("step_ms") && record.at("step_ms").is_number())
      seconds.push_back(record.at("step_ms").get<double>() / 1e3);
    return seconds.size() < kMost;
  });
  if (seconds.size() < kFewest) return 0;
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() * 99 - 1) / 100];
}

}  // namespace hyperion::cli
