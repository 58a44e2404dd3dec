// Where what a MODEL argument names lies, and what is known of it without its weights.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::checkpoint {
struct OpenedCheckpoint;
}

namespace hyperion::interop {

// Where a run keeps the tokenizer of the set it was trained on.
constexpr const char* kRunTokenizer = "tokenizer";

// And how its images became numbers.
constexpr const char* kRunProcessor = "processor";

// The folder of the checkpoint that a MODEL names, verified: of a run its newest good one. Empty: a Hugging Face
// folder.
base::Path checkpoint_folder(base::FileSystem& files, const std::string& argument);

// Where a MODEL lies: the argument itself, or for RUN@best the checkpoint's folder, or for the name of a model in
// Hugging Face's cache its folder there. Throws ConfigError that says how to fetch it where the cache has it not, or
// not whole.
std::string find_model(base::FileSystem& files, const std::string& argument);

// The preprocessor_config.json of a MODEL that takes images; empty where it has none.
base::Path image_processor(base::FileSystem& files, const std::string& argument);

// Where the tokenizer and generation_config.json of a MODEL lie, as far as it has them.
base::Path tokenizer_folder(base::FileSystem& files, const std::string& argument);

// The config.json of a MODEL, without its weights.
std::string read_model_config(base::FileSystem& files, const std::string& argument);

// Of what find_model gives: whether it is a Hugging Face folder, not a run or a checkpoint. Throws ConfigError where it
// is another folder, or a file.
bool names_folder(base::FileSystem& files, const std::string& argument);

// Else: the checkpoint named by itself, or the newest good one of the run, which is told.
checkpoint::OpenedCheckpoint find_checkpoint(base::FileSystem& files, const std::string& argument, base::Path& run);
std::string config_of(const checkpoint::OpenedCheckpoint& loaded);

}  // namespace hyperion::interop
