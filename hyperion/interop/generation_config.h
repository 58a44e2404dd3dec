// Hugging Face's generation_config.json: how texts are made of a model, and what ends them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::interop {

constexpr const char* kGenerationConfig = "generation_config.json";

// The ids that end a text, as the generation_config.json or config.json of a folder says; none where neither does.
std::vector<int64_t> end_tokens(const base::Path& folder);

// That of `base_folder`, unchanged unless the one in `own` says more: a token that ends no text of the base's.
// Either may be empty or have none; empty where none has.
std::string generation_config(base::FileSystem& files, const base::Path& base_folder, const base::Path& own);

// Whether all that ends a text in `own` ends one of the base too; also where `own` says nothing of it.
bool ends_likewise(const base::Path& own, const base::Path& base_folder);

}  // namespace hyperion::interop
