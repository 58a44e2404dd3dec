// Hugging Face's cache, laid out as huggingface_hub does: models--OWNER--NAME/refs/main names a commit, whose files in
// snapshots/COMMIT/ are links to blobs/. Here it is only read.
#pragma once
#include <optional>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/hub/repo.h"

namespace hyperion::hub {

// HF_HUB_CACHE, else hub in HF_HOME, else in huggingface in XDG_CACHE_HOME or ~/.cache. Empty where none can be told.
base::Path cache_folder();

// What HF_TOKEN says, else the file `token` in HF_HOME. Empty where there is none.
std::string read_token(base::FileSystem& files);

base::Path repo_folder(const Repo& repo);

// The folder of the repository's revision, absolute; nothing where the cache has none.
std::optional<base::Path> find_snapshot(base::FileSystem& files, const Repo& repo);

// The folder that a word of the user stands for. A word that is a path, or names nothing of the hub, stays as it is; a
// model's name becomes its folder in the cache. OWNER/NAME that is neither is a ConfigError that says how to fetch it,
// unless OWNER is a folder here: then a path was meant.
std::string locate(base::FileSystem& files, const std::string& word);

// NAME of a folder of the cache; empty for other folders.
std::string repo_name_of(const base::Path& snapshot);

}  // namespace hyperion::hub
