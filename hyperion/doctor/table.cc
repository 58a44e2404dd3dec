#include "hyperion/doctor/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::doctor {
namespace {

constexpr size_t kTableWidth = 118;

struct Look {
  const char *mark, *color, *word;
};
Look look(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return {"✓", "\033[32m", "ok"};
    case Verdict::warn:
      return {"!", "\033[33m", "warn"};
    case Verdict::fail:
      break;
  }
  return {"✗", "\033[31m", "fail"};
}

std::string painted(const std::string& text, const char* color, bool use) {
  return use ? color + text + "\033[0m" : text;
}

int count(const std::vector<Check>& checks, Verdict verdict) {
  return static_cast<int>(
      std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.verdict == verdict; }));
}

// Breaks at blanks; later lines start below the first. A word longer than the room stays whole.
std::string wrapped(const std::string& text, size_t indent) {
  const size_t room = kTableWidth - indent;
  std::string out, line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + line;
}

std::string summary(const std::vector<Check>& checks) {
  const int warns = count(checks, Verdict::warn), fails = count(checks, Verdict::fail);
  const std::string counts =
      base::format("{} ok, {} {}, {} {}", count(checks, Verdict::ok), warns, warns == 1 ? "warning" : "warnings", fails,
                   fails == 1 ? "failure" : "failures");
  if (fails > 0) return counts + ": mend what is marked ✗, then run hyperion doctor again";
  return counts + (warns > 0 ? ": ready to train; the hints above would help" : ": ready to train");
}

}  // namespace

std::string doctor_table(const std::vector<Check>& checks, bool color) {
  size_t widest = 0;
  std::vector<std::string> groups;
  for (const Check& check : checks) {
    widest = std::max(widest, check.name.size());
    if (std::find(groups.begin(), groups.end(), check.group) == groups.end()) groups.push_back(check.group);
  }
  const size_t indent = 4 + widest + 2;
  std::string table;
  for (const std::string& group : groups) {
    table += painted(group, "\033[1m", color) + "\n";
    for (const Check& check : checks) {
      if (check.group != group) continue;
      const Look shown = look(check.verdict);
      table += base::format("  {} {:<{}}  {}\n", painted(shown.mark, shown.color, color), check.name, widest,
                            wrapped(check.finding, indent));
      if (!check.hint.empty())
        table += std::string(indent, ' ') + painted("hint:", shown.color, color) + " " +
                 wrapped(check.hint, indent + 6) + "\n";
    }
  }
  const Verdict worst = any_fail(checks)                   ? Verdict::fail
                        : count(checks, Verdict::warn) > 0 ? Verdict::warn
                                                           : Verdict::ok;
  return table + "\n" + painted(summary(checks), look(worst).color, color) + "\n";
}

std::string doctor_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    lines.push_back({{"group", check.group},
                     {"name", check.name},
                     {"verdict", look(check.verdict).word},
                     {"finding", check.finding},
                     {"hint", check.hint}});
  const nlohmann::ordered_json whole = {{"checks", lines},
                                        {"ok", count(checks, Verdict::ok)},
                                        {"warn", count(checks, Verdict::warn)},
                                        {"fail", count(checks, Verdict::fail)}};
  // Findings may quote file names, which need not be UTF-8.
  return whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool any_fail(const std::vector<Check>& checks) { return count(checks, Verdict::fail) > 0; }

}  // namespace hyperion::doctor
