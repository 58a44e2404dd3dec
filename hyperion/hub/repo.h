// A repository of Hugging Face's hub as users write it: OWNER/NAME, or the NAME alone of an old model, and @REVISION.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hyperion::hub {

enum class RepoKind { model, set };

struct Repo {
  RepoKind kind = RepoKind::model;
  std::string name;               // Qwen/Qwen2.5-0.5B
  std::string revision = "main";  // a branch, a tag or a commit
  std::string text() const;       // NAME, with @REVISION where it is not main
};

// Nothing where the text cannot name one, as most paths cannot. What it holds is safe as parts of paths and addresses.
std::optional<Repo> parse_repo(std::string_view text, RepoKind kind);

bool is_commit(std::string_view text);       // 40 hexadecimal digits in lower case
bool is_hexadecimal(std::string_view text);  // likewise, of any length but 0

// Whether a server's name of a file may become a path below a folder: no "..", no root, no control characters.
bool is_safe_file_name(std::string_view name);

}  // namespace hyperion::hub
