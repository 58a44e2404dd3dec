#include "hyperion/hub/repo.h"

#include <algorithm>
#include <vector>

namespace hyperion::hub {
namespace {

constexpr size_t kLongestName = 96, kLongestRevision = 200, kLongestPart = 255, kLongestFileName = 1024;

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t slash = text.find('/');
    parts.push_back(text.substr(0, slash));
    if (slash == text.npos) return parts;
    text.remove_prefix(slash + 1);
  }
}

// The hub's own rule.
bool is_name_part(std::string_view part) {
  const auto edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && std::all_of(part.begin(), part.end(), is_word_letter) && !edge(part.front()) &&
         !edge(part.back()) && part.find("--") == part.npos && part.find("..") == part.npos;
}

bool is_revision(std::string_view text) {
  if (text.size() > kLongestRevision) return false;
  for (const auto part : parts_of(text)) {
    const bool spelled = std::all_of(part.begin(), part.end(), [](char c) { return is_word_letter(c) || c == '+'; });
    if (part.empty() || !spelled || part.front() == '.' || part.find("..") != part.npos) return false;
  }
  return true;
}

}  // namespace

std::string Repo::text() const { return revision == "main" ? name : name + "@" + revision; }

std::optional<Repo> parse_repo(std::string_view text, RepoKind kind) {
  const size_t at = text.find('@');
  Repo repo{kind, std::string(text.substr(0, at))};
  const auto parts = parts_of(repo.name);
  if (repo.name.size() > kLongestName || parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), is_name_part))
    return std::nullopt;
  if (at == text.npos) return repo;
  repo.revision = text.substr(at + 1);
  return is_revision(repo.revision) ? std::optional(repo) : std::nullopt;
}

bool is_hexadecimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_commit(std::string_view text) { return text.size() == 40 && is_hexadecimal(text); }

bool is_safe_file_name(std::string_view name) {
  if (name.size() > kLongestFileName) return false;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), control)) return false;
  for (const auto part : parts_of(name))
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart) return false;
  return true;
}

}  // namespace hyperion::hub
