#include "hyperion/doctor/software_checks.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/nccl_settings.h"

namespace hyperion::doctor {
namespace {

// Major, minor, patch; what is not told is 0.
std::array<int, 3> numbers(const std::string& version) {
  std::array<int, 3> found{};
  const char* at = version.c_str();
  for (int& number : found) {
    char* end = nullptr;
    number = static_cast<int>(std::strtol(at, &end, 10));
    if (*end != '.') break;
    at = end + 1;
  }
  return found;
}

Verdict agreement(const comm::LibraryVersion& library) {
  const auto built = numbers(library.built), loaded = numbers(library.loaded);
  const bool exact = library.name == "NCCL" || library.name == "RCCL" || library.name == "LibTorch";
  if (built[0] != loaded[0]) return Verdict::fail;
  if (built[1] != loaded[1]) return exact || loaded[1] < built[1] ? Verdict::fail : Verdict::warn;
  return built[2] == loaded[2] ? Verdict::ok : Verdict::warn;
}

}  // namespace

Check check_library(const comm::LibraryVersion& library) {
  Check check{library.name, kLibraryGroup, Verdict::ok, "", ""};
  if (library.built.empty() && library.loaded.empty()) {
    check.finding = "not in this LibTorch";
  } else if (library.loaded.empty()) {
    check.verdict = Verdict::warn;
    check.finding = base::format("built against {}, the loaded one tells no version", library.built);
    check.hint = base::format("make sure that {} {} is installed and on the library path", library.name, library.built);
  } else if (library.built.empty()) {
    check.finding = library.loaded;
  } else {
    check.verdict = agreement(library);
    check.finding = base::format("{}, built against {}", library.loaded, library.built);
    if (check.verdict == Verdict::ok) check.finding = base::format("{}, the one built against", library.loaded);
    if (check.verdict != Verdict::ok)
      check.hint =
          base::format("install {} {}, or look for another copy in LD_LIBRARY_PATH", library.name, library.built);
  }
  return check;
}

Check check_torch(const comm::Versions& versions) {
  Check check = check_library(versions.torch);
  if (!versions.cpu_capability.empty()) check.finding += base::format("; CPU kernels: {}", versions.cpu_capability);
  return check;
}

Check check_gloo(const std::string& fault) {
  Check check{"Gloo", kLibraryGroup, Verdict::ok, "works: an all-reduce over 127.0.0.1 came out right", ""};
  if (fault.empty()) return check;
  check.verdict = Verdict::fail;
  check.finding = fault;
  check.hint = "check that the loopback interface is up, and GLOO_SOCKET_IFNAME where it is set";
  return check;
}

Check check_launch(const host::Lookup& lookup) {
  Check check{"launcher", kJobGroup, Verdict::ok, "", ""};
  try {
    const host::Launch launch = host::find_launch(lookup);
    check.finding = launch.text();
    if (!launch.note.empty()) {
      check.verdict = Verdict::warn;
      check.hint = launch.note;
    }
  } catch (const base::ConfigError& error) {
    check.verdict = Verdict::fail;
    check.finding = error.what();
    check.hint = error.hint();
  }
  return check;
}

Check check_nccl(const std::vector<std::string>& set, const std::vector<std::string>& gpus, bool slingshot) {
  Check check{"NCCL/RCCL settings", kJobGroup, Verdict::ok, "", ""};
  for (const auto& variable : set) check.finding += (check.finding.empty() ? "" : ", ") + variable;
  if (set.empty()) check.finding = "none in the environment; [nccl] of a recipe sets them";
  const bool mi250x =
      std::any_of(gpus.begin(), gpus.end(), [](const auto& name) { return name.find("MI250X") != name.npos; });
  if (!mi250x) return check;
  comm::NcclConfig preset;
  preset.preset = comm::NcclPreset::mi250x;
  std::string missing;
  for (const auto& [name, value, origin] : comm::nccl_variables(preset, slingshot)) {
    const bool there =
        std::any_of(set.begin(), set.end(), [&](const auto& text) { return text.starts_with(name + "="); });
    if (!there) missing += base::format("{}{}={}", missing.empty() ? "" : ", ", name, value);
  }
  if (missing.empty()) return check;
  check.verdict = Verdict::warn;
  check.hint = base::format("--nccl.preset=mi250x sets {}", missing);
  return check;
}

Check check_port(int port, bool is_free, const std::optional<host::Launch>& launch) {
  Check check{base::format("port {}", port), kJobGroup, Verdict::ok, "free on 127.0.0.1", ""};
  if (is_free) return check;
  check.finding = "taken on 127.0.0.1";
  if (launch && (launch->agent_store || launch->rank > 0)) {
    check.finding += ", as it should be: the launcher or rank 0 listens there";
  } else {
    check.verdict = Verdict::warn;
    check.hint =
        base::format("another job may be running; choose another with MASTER_PORT (see: ss -ltnp sport = :{})", port);
  }
  return check;
}

Check check_profilers(const std::vector<FoundProgram>& profilers) {
  Check check{"profilers", kToolGroup, Verdict::ok, "", ""};
  std::string found, missing;
  for (const auto& [name, path] : profilers) {
    if (path)
      found += (found.empty() ? "" : ", ") + path->string();
    else
      missing += (missing.empty() ? "" : ", ") + name;
  }
  check.finding = found.empty() ? "none installed" : found;
  if (!missing.empty()) check.finding += base::format(" (not found, not needed to train: {})", missing);
  return check;
}

Check check_features(const comm::Versions& versions, bool telemetry, const std::vector<std::string>& no_telemetry) {
  Check check{"features off", kToolGroup, Verdict::ok, "", ""};
  std::vector<std::string> off;
  if (!versions.gpu_form) off.emplace_back("CUDA kernels and NCCL (built with the cpu preset)");
  if (!telemetry) {
    std::string reasons;
    for (const std::string& reason : no_telemetry) reasons += (reasons.empty() ? "" : ", ") + reason;
    off.push_back(base::format("GPU telemetry ({})", reasons.empty() ? "no library" : reasons));
  }
  for (const std::string& feature : off) check.finding += (check.finding.empty() ? "" : "; ") + feature;
  if (off.empty()) check.finding = "none";
  return check;
}

}  // namespace hyperion::doctor
