#include "hyperion/base/fault.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::base {
namespace {

struct Armed {
  Fault action = Fault::none;
  int64_t passings_left = 1;
  int64_t again_after = 0;  // 0: once
};

// 0 where it is none.
int64_t whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

std::map<std::string, Armed, std::less<>> parse(std::string_view specs) {
  static const std::map<std::string, Fault, std::less<>> actions = {
      {"kill", Fault::kill},           {"throw", Fault::fail},
      {"enospc", Fault::disk_full},    {"tear", Fault::tear},
      {"interrupt", Fault::interrupt}, {"sleep", Fault::sleep},
      {"memory", Fault::memory},       {"freeze", Fault::freeze},
      {"stall", Fault::stall},         {"operation", Fault::operation},
      {"shape", Fault::shape},         {"type", Fault::type},
      {"flip", Fault::flip},           {"drop", Fault::drop}};
  std::map<std::string, Armed, std::less<>> armed;
  while (!specs.empty()) {
    const std::string_view spec = specs.substr(0, specs.find(','));
    specs.remove_prefix(std::min(specs.size(), spec.size() + 1));
    const size_t equals = spec.find('='), at = spec.find('@', std::min(equals, spec.size()));
    const auto action = equals == spec.npos ? actions.end() : actions.find(spec.substr(equals + 1, at - equals - 1));
    const std::string_view when = at == spec.npos ? "1" : spec.substr(at + 1);
    const size_t slash = when.find('/');
    const int64_t nth = whole_number(when.substr(0, slash)),
                  again = slash == when.npos ? 0 : whole_number(when.substr(slash + 1));
    const std::string name(spec.substr(0, equals));
    if (action == actions.end() || nth < 1 || again < (slash == when.npos ? 0 : 1) || name.empty() ||
        name.find('@') != name.npos)
      throw ConfigError(
          format("fault spec \"{}\" cannot be read", spec),
          "write name=kill|throw|enospc|tear|interrupt|freeze|stall|sleep|memory|operation|shape|type|flip|drop, "
          "optionally followed by @n or @n/m");
    armed[name] = {action->second, nth, again};
  }
  return armed;
}

struct Registry {
  std::mutex mutex;
  bool from_environment = true;
  std::map<std::string, Armed, std::less<>> armed;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

Fault take(std::string_view name) {
  Registry& faults = registry();
  std::lock_guard lock(faults.mutex);
  if (faults.from_environment) {
    faults.from_environment = false;
    if (const char* specs = std::getenv("HYPERION_FAULTS")) faults.armed = parse(specs);
  }
  const auto found = faults.armed.find(name);
  if (found == faults.armed.end() || --found->second.passings_left != 0) return Fault::none;
  found->second.passings_left = found->second.again_after;  // from 0 it never comes back to 0
  return found->second.action;
}

}  // namespace

void warn_of_test_variables() {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"HYPERION_FAULTS", "this program fails there on purpose"},
      {"HYPERION_SLOW_LINK", "links between ranks are made slower than they are"},
      {"HYPERION_FUSED_BLOCKS", "a CPU trains by the fused blocks of a GPU"}};
  for (const auto& [name, effect] : kVariables)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      log_warn(format("{}=\"{}\" is set: {}; it is for tests, unset it otherwise", name, value, effect));
}

void set_faults(std::string_view specs) {
  auto armed = parse(specs);
  std::lock_guard lock(registry().mutex);
  registry().from_environment = false;
  registry().armed = std::move(armed);
}

Fault fault_point(std::string_view name) {
  const Fault fault = take(name);
  switch (fault) {
    case Fault::kill:
      ::kill(::getpid(), SIGKILL);
      break;
    case Fault::interrupt:
      ::kill(::getpid(), SIGINT);
      break;
    case Fault::freeze:
      ::kill(::getpid(), SIGSTOP);
      break;
    case Fault::stall:
      log_warn(format("fault point {} stalls", name));
      while (true) ::sleep(3600);  // a signal cuts it short
    case Fault::sleep:
      ::usleep(300'000);
      break;
    case Fault::fail:
      throw Error(format("fault point {} was switched on", name));
    default:
      break;
  }
  return fault;
}

}  // namespace hyperion::base
