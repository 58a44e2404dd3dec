#include "hyperion/command/profilers.h"

#include <cctype>

#include "hyperion/base/format.h"
#include "hyperion/host/programs.h"

namespace hyperion::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int kKernelsOfNcu = 50, kKernelsBeforeNcu = 200;  // it repeats each launch; the first are those of the start

// The work by itself; `traced`: with our own recording. What it leaves lies in folder/work.
ToolCall work_call(const ShortWork& work, const base::Path& folder, bool traced) {
  const auto steps = base::format("{}", work.steps), own = host::own_program();
  if (!work.is_recipe()) {
    Words words{own,   "bench",    "train",     work.name,  "--steps",
                steps, "--device", work.device, "--folder", (folder / "work").string()};
    if (!work.optimize.empty()) words.insert(words.end(), {"--optimize", work.optimize});
    if (traced) words.emplace_back("--trace");
    return {words, {}, {}, {}};
  }
  Words words{own,
              "train",
              work.name,
              "--run",
              "work",
              "--steps",
              steps,
              "--device",
              work.device,
              "--eval.every=0",
              "--checkpoint.every=0"};
  if (!work.optimize.empty()) words.insert(words.end(), {"--optimize", work.optimize});
  words.insert(words.end(), work.settings.begin(), work.settings.end());
  if (traced) words.insert(words.end(), {"--profile", base::format("1+3@{}", work.steps - 3)});
  return {words, {"HYPERION_RUNS=" + folder.string()}, {}, {}};
}

// `before`, then the work as it stands.
ToolCall around_work(Words before, const ShortWork& work, const base::Path& folder) {
  auto call = work_call(work, folder, false);
  before.insert(before.end(), call.words.begin(), call.words.end());
  call.words = std::move(before);
  return call;
}

}  // namespace

std::vector<ToolCall> calls_of(ProfilerTool tool, const base::Path& program, const base::Path& folder,
                               const ShortWork& work) {
  const auto named = [&](const char* name) { return (folder / name).string(); };
  const auto path = program.string();
  std::vector<ToolCall> calls;
  switch (tool) {
    case ProfilerTool::hyperion:
      calls.push_back(work_call(work, folder, true));
      break;
    case ProfilerTool::nsys:
      calls.push_back(
          around_work({path, "profile", "--output=" + named("work"), "--force-overwrite=true", "--trace=cuda,nvtx,osrt",
                       "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node"},
                      work, folder));
      calls.push_back({{path, "export", "--type=sqlite", "--force-overwrite=true", "--output=" + named("work.sqlite"),
                        named("work.nsys-rep")},
                       {},
                       {},
                       {}});
      break;
    case ProfilerTool::ncu:
      calls.push_back(around_work(
          {path, "--export", named("work"), "--force-overwrite", "--target-processes", "all", "--launch-skip",
           base::format("{}", kKernelsBeforeNcu), "--launch-count", base::format("{}", kKernelsOfNcu)},
          work, folder));
      calls.push_back({{path, "--import", named("work.ncu-rep"), "--csv", "--page", "raw", "--print-units", "base"},
                       {},
                       {},
                       folder / "raw.csv"});
      break;
    case ProfilerTool::rocprofv3:
      calls.push_back(around_work({path, "--sys-trace", "--output-format", "pftrace", "--output-directory",
                                   folder.string(), "--output-file", "work", "--"},
                                  work, folder));
      break;
    case ProfilerTool::rocprof_sys:  // its settings have kept their names longer than its flags
      calls.push_back(around_work({path, "--"}, work, folder));
      for (const char* setting : {"TRACE=ON", "PROFILE=OFF", "TIME_OUTPUT=OFF"})
        calls.back().environment.push_back(std::string("ROCPROFSYS_") + setting);
      calls.back().environment.push_back("ROCPROFSYS_OUTPUT_PATH=" + folder.string());
      break;
    case ProfilerTool::rocprof_compute:
      calls.push_back(around_work({path, "profile", "--name", "work", "--path", named("profile"), "--no-roof", "--"},
                                  work, folder));
      break;
  }
  for (auto& call : calls) call.log = folder / "log.txt";
  return calls;
}

std::vector<std::string> programs_of(ProfilerTool tool) {
  if (tool == ProfilerTool::rocprof_sys) return {"rocprof-sys-run", "rocprof-sys-sample"};
  return {words_of(tool).at(static_cast<size_t>(tool))};
}

std::string how_to_get(ProfilerTool tool) {
  switch (tool) {
    case ProfilerTool::hyperion:
      return "it is this program";
    case ProfilerTool::nsys:
      return "Nsight Systems: the package nsight-systems-cli of NVIDIA's repository, or the CUDA toolkit";
    case ProfilerTool::ncu:
      return "Nsight Compute: in the CUDA toolkit, or the package nsight-compute of NVIDIA's repository";
    case ProfilerTool::rocprofv3:
      return "ROCm 6.2 or later: the package rocprofiler-sdk";
    case ProfilerTool::rocprof_sys:
      return "ROCm Systems Profiler: the package rocprofiler-systems";
    case ProfilerTool::rocprof_compute:
      return "ROCm Compute Profiler: the package rocprofiler-compute";
  }
  return {};
}

std::string version_in(std::string_view text) {
  const auto digit = [&](size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (!digit(begin)) continue;
    size_t end = begin;
    while (digit(end)) ++end;
    if (end >= text.size() || text[end] != '.' || !digit(end + 1)) {
      begin = end;
      continue;
    }
    while (digit(end) || (end < text.size() && text[end] == '.' && digit(end + 1))) ++end;
    return std::string(text.substr(begin, end - begin));
  }
  return {};
}

}  // namespace hyperion::cli
