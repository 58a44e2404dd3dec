// Judgements of the libraries, the launcher's variables and the tools beside them.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/comm/versions.h"
#include "hyperion/doctor/check.h"
#include "hyperion/host/launch.h"

namespace hyperion::doctor {

// Built against and loaded must agree: another major version, an older minor one, or for NCCL, RCCL and LibTorch any
// other minor version, is a fail; what is merely newer is a warn.
Check check_library(const comm::LibraryVersion& library);

// The same of LibTorch, with the vector set its CPU kernels use.
Check check_torch(const comm::Versions& versions);

Check check_gloo(const std::string& fault);  // as comm::gloo_fault() gives it
Check check_launch(const host::Lookup& lookup);

// Variables of NCCL, RCCL and the network under them; what nccl.preset would add to them on nodes it is made for.
Check check_nccl(const std::vector<std::string>& set, const std::vector<std::string>& gpus, bool slingshot);

// `launch` is nothing where its variables could not be read.
Check check_port(int port, bool is_free, const std::optional<host::Launch>& launch);

using FoundProgram = std::pair<std::string, std::optional<base::Path>>;
Check check_profilers(const std::vector<FoundProgram>& profilers);

// What this program leaves out here, and why; fine in itself.
Check check_features(const comm::Versions& versions, bool telemetry, const std::vector<std::string>& no_telemetry);

}  // namespace hyperion::doctor
