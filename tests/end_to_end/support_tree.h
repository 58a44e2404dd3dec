// What lies in a folder, to show that nothing was lost, changed or left behind.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "tests/end_to_end/support_program.h"

namespace hyperion::testing {

// Relative path -> content, of every file below; folders end with '/'. Empty where there is no folder.
std::map<std::string, std::string> tree(const std::filesystem::path& folder);

// Names below the folder that a crash or failure may not leave: partial and replaced files and folders.
std::string leftovers(const std::filesystem::path& folder);

// A text long enough to train on; its runs need no questions answered and take half a second.
std::vector<std::string> text_data(const Scratch& scratch);

// A tiny model of a text that --data.path names: a validation each second step, a checkpoint each fifth, one kept.
inline constexpr char kTextRecipe[] = R"([train]
steps = 12
batch = 4
length = 16
[model]
layers = 1
heads = 2
width = 16
context = 16
[data]
source = "text"
validation = 0.2
[optim]
lr = 0.01
warmup = 0
schedule = "constant"
[eval]
every = 2
batches = 1
[checkpoint]
every = 5
keep = 1
)";

// 'error: ' and 'hint: ' lines as they were printed, "" without one.
std::string error_line(const Finished& finished);
std::string hint_line(const Finished& finished);

}  // namespace hyperion::testing
