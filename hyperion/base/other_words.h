// The words that users of other trainers type first, and what is written for them here. One table of each kind, in
// other_words.cc; they name settings and commands of folders above as plain text, held against those by tests.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::base {

// How the command takes settings that the flag was given to: as --section.key, as --set section.key, or not at all.
// `eval` is as `model`, but for data, which it takes.
enum class FlagOf { settings, set, model, eval, launch };

// Each takes a flag with or without its dashes and value, or a key, in any case, with - or _ ("--Learning-Rate=1",
// "learning_rate"), and is empty where the word is not known.

// For a key of a recipe: "did you mean optim.lr?", and what is counted otherwise here.
std::string setting_hint(std::string_view word);
// What to write in place of that flag of a command of that kind.
std::string flag_hint(std::string_view word, FlagOf command);
// "did you mean `hyperion generate`? ..." for "infer".
std::string command_hint(std::string_view word);
// The name here of a section of a recipe: "optim" for "optimizer".
std::string section_meant(std::string_view word);
// Among `choices`, what that value is called here ("cuda" for "gpu"), or the nearest in spelling.
std::string choice_meant(std::string_view word, const std::vector<std::string>& choices);

// Every setting that the tables name, for the test that they exist.
std::vector<std::string> settings_named_for_other_words();
std::vector<std::string> commands_named_for_other_words();

}  // namespace hyperion::base
