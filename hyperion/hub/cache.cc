#include "hyperion/hub/cache.h"

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"

namespace hyperion::hub {
namespace {

using base::format;
using base::Path;

constexpr uint64_t kLongestLine = 4096;
constexpr std::string_view kModels = "models--", kSets = "datasets--", kBetween = "--";

std::string said_by(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// A leading ~ is the user's home, as huggingface_hub reads it.
Path folder_said_by(const char* variable) {
  const std::string text = said_by(variable);
  return text == "~" || text.starts_with("~/") ? Path(said_by("HOME") + text.substr(1)) : Path(text);
}

Path hub_home() {
  if (const Path home = folder_said_by("HF_HOME"); !home.empty()) return home;
  if (const Path caches = folder_said_by("XDG_CACHE_HOME"); !caches.empty()) return caches / "huggingface";
  const std::string home = said_by("HOME");
  return home.empty() ? Path() : Path(home) / ".cache" / "huggingface";
}

std::string first_word(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? "" : text.substr(begin, text.find_first_of(" \t\r\n", begin) - begin);
}

}  // namespace

Path cache_folder() {
  if (const Path cache = folder_said_by("HF_HUB_CACHE"); !cache.empty()) return cache;
  const Path home = hub_home();
  return home.empty() ? home : home / "hub";
}

std::string read_token(base::FileSystem& files) {
  std::string token = first_word(said_by("HF_TOKEN"));
  const Path home = hub_home();
  if (token.empty() && !home.empty() && files.exists(home / "token"))
    token = first_word(base::read_at_most(files, home / "token", kLongestLine));
  for (const char c : token)
    if (c < 0x21 || c == 0x7f)
      throw base::ConfigError("the token of the hub holds characters that no token has",
                              format("check HF_TOKEN, or {}", (home / "token").string()));
  return token;
}

Path repo_folder(const Repo& repo) {
  std::string name(repo.kind == RepoKind::model ? kModels : kSets);
  for (const char c : repo.name) name += c == '/' ? std::string(kBetween) : std::string(1, c);
  return cache_folder() / name;
}

std::optional<Path> find_snapshot(base::FileSystem& files, const Repo& repo) {
  if (cache_folder().empty()) return std::nullopt;
  const Path folder = repo_folder(repo), ref = folder / "refs" / repo.revision;
  std::string commit = repo.revision;
  if (!is_commit(commit)) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(ref, ignored)) return std::nullopt;
    commit = first_word(base::read_at_most(files, ref, kLongestLine));
    if (!is_commit(commit)) throw base::CorruptError(format("{} names no commit", ref.string()));
  }
  const Path snapshot = std::filesystem::absolute(folder / "snapshots" / commit).lexically_normal();
  return files.exists(snapshot) ? std::optional(snapshot) : std::nullopt;
}

std::string locate(base::FileSystem& files, const std::string& word) {
  if (files.exists(word)) return word;
  const auto repo = parse_repo(word, RepoKind::model);
  if (!repo) return word;
  if (const auto snapshot = find_snapshot(files, *repo)) return snapshot->string();
  const size_t slash = repo->name.find('/');
  if (slash == std::string::npos || files.exists(repo->name.substr(0, slash))) return word;
  throw base::ConfigError(
      format("{} is no path here, and no model of that name is in Hugging Face's cache, {}", word,
             cache_folder().empty() ? "whose place is not known (HF_HOME)" : cache_folder().string()),
      format("a model of the hub is fetched by `hyperion fetch {}`; else check the path", word));
}

std::string repo_name_of(const Path& snapshot) {
  const Path all = snapshot.parent_path();
  std::string name = all.parent_path().filename().string();
  if (!is_commit(snapshot.filename().string()) || all.filename() != "snapshots" || !name.starts_with(kModels))
    return {};
  name.erase(0, kModels.size());
  if (const size_t between = name.find(kBetween); between != name.npos) name.replace(between, kBetween.size(), "/");
  return name;
}

}  // namespace hyperion::hub
