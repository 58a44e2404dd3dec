// What is wrong with a command line, in words that help; CLI11's own speak of its types.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hyperion::cli {

// Checks for options. A refusal says what is allowed, with a did-you-mean for words.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator number(double low, double high);
CLI::Validator one_of(std::vector<std::string> choices);
// The words of an enum (base/words.h).
template <class Enum>
CLI::Validator one_word_of() {
  const auto words = words_of(Enum{});
  return one_of({words.begin(), words.end()});
}
CLI::Validator not_empty();
// What one_of allows this option; empty where it was not given one.
std::vector<std::string> choices_of(CLI::Option& option);

// What was meant by a word that a command which takes `settings` ("optim.lr") does not know.
std::string argument_hint(const CLI::App& command, const std::string& word, const std::vector<std::string>& settings);

// Prints "error: ..." and "hint: ..." for a command line that could not be read; returns the exit code.
int usage_error(CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

}  // namespace hyperion::cli
