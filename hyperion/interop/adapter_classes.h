// The classes that an adapter of an image model was trained on. PEFT keeps no names, and a config.json would make the
// adapter's folder a model's: they lie in a file of their own, which PEFT passes over.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// {"id2label": {"0": "cat", ...}, "label2id": {"cat": 0, ...}}, as in config.json.
constexpr const char* kAdapterClasses = "classes.json";

// As many names as `count`, from classes.json, else from a config.json that somebody put beside the adapter; empty
// where it has none. Throws CorruptError where classes.json is damaged or names another number.
std::vector<std::string> adapter_classes(base::FileSystem& files, const base::Path& folder, int64_t count);

// Those of a model's config.json, where they have names.
void write_adapter_classes(base::FileSystem& files, const base::Path& folder, const std::string& config);

}  // namespace hyperion::interop
