#include "hyperion/command/usage.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/other_words.h"

namespace hyperion::cli {
namespace {

using base::format;

constexpr const char* kChoices = "one of";

template <class T>
CLI::Validator in_range(T low, T high, const char* kind) {
  const auto check = [=](std::string& text) -> std::string {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc{} && end == text.data() + text.size();
    if (read && value >= low && value <= high) return "";  // NaN is neither
    return format("\"{}\" is not {} from {} to {}", text, kind, low, high);
  };
  return {check, "", "range"};
}

std::string nearest_of(const std::string& word, const std::vector<std::string>& known) {
  return base::nearest(word, known.data(), known.data() + known.size());
}

struct Message {
  std::string what, hint;
};

// The command the words name, as far as they are known, and the first word that is not.
struct Named {
  CLI::App* command;
  std::string path, unknown_word, unknown_flag;
};

bool has_flag(const CLI::App& command, const std::string& flag) {
  for (const auto* option : command.get_options())
    if (option->check_name(flag)) return true;
  return false;
}

CLI::App* child_of(CLI::App& command, const std::string& name) {
  for (auto* child : command.get_subcommands({}))
    if (child->check_name(name)) return child;
  return nullptr;
}

// Whether it only has commands of its own, and takes no words itself.
bool is_group(const CLI::App& command) {
  if (command.get_subcommands({}).empty()) return false;
  const auto options = command.get_options();
  return std::none_of(options.begin(), options.end(), [](const auto* option) { return option->get_positional(); });
}

Named walk(CLI::App& app, int argc, char** argv) {
  Named named{&app, "hyperion", "", ""};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], flag = word.substr(0, word.find('='));
    const bool is_flag =
        word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0);
    if (is_flag) {
      if (named.unknown_flag.empty() && !has_flag(*named.command, flag)) named.unknown_flag = flag;
    } else if (auto* child = child_of(*named.command, word)) {
      named.command = child;
      named.path += " " + word;
      named.unknown_flag.clear();
    } else if (is_group(*named.command)) {
      named.unknown_word = word;
      return named;
    }
  }
  return named;
}

Message unknown_command(const Named& named) {
  std::vector<std::string> known;
  std::string all;
  for (const auto* child : named.command->get_subcommands({})) {
    if (child->get_group().empty()) continue;  // not for people
    known.push_back(child->get_name());
    all += (all.empty() ? "" : ", ") + child->get_name();
  }
  if (named.unknown_word.empty())
    return {format("`{}` needs a command", named.path), format("one of {}; `{} --help` says more", all, named.path)};
  const auto meant = named.command->get_parent() == nullptr ? base::command_hint(named.unknown_word) : "";
  const auto near = base::choice_meant(named.unknown_word, known);
  return {format("unknown command `{} {}`", named.path, named.unknown_word),
          !meant.empty() ? meant
          : near.empty() ? format("one of {}", all)
                         : format("did you mean `{} {}`?", named.path, near)};
}

// Whether a hint of the form "write --tokens N" names a flag that the command has.
bool fits_command(const std::string& hint, const CLI::App& command) {
  constexpr std::string_view kWrite = "write ";
  if (!hint.starts_with(kWrite)) return !hint.empty();
  return has_flag(command, hint.substr(kWrite.size(), hint.find(' ', kWrite.size()) - kWrite.size()));
}

std::string other_flag_hint(const CLI::App& command, const std::string& flag) {
  const bool launch = command.get_name() == "launch", eval = command.get_name() == "eval";
  // Of `eval` and `bench data` --set names folders.
  const bool set = !eval && has_flag(command, "--set") && has_flag(command, "--precision");
  if (!launch && !set && !has_flag(command, "MODEL")) return {};
  const auto hint = base::flag_hint(flag, launch ? base::FlagOf::launch
                                          : set  ? base::FlagOf::set
                                          : eval ? base::FlagOf::eval
                                                 : base::FlagOf::model);
  if (fits_command(hint, command)) return hint;
  if (flag.find('.') == flag.npos) return {};
  if (launch) return format("settings stand after --: hyperion launch -n N -- train RECIPE {}=VALUE", flag);
  if (set) return format("write --set {}=VALUE", flag.substr(2));
  return "settings are of training; a model is used as it was trained";
}

Message unknown_flag(const Named& named) {
  if (const auto hint = other_flag_hint(*named.command, named.unknown_flag); !hint.empty())
    return {format("unknown flag {} of `{}`", named.unknown_flag, named.path), hint};
  std::vector<std::string> known;
  for (const auto* option : named.command->get_options())
    if (option->get_name().starts_with("--")) known.push_back(option->get_name());
  const auto near = nearest_of(named.unknown_flag, known);
  return {format("unknown flag {} of `{}`", named.unknown_flag, named.path),
          near.empty() ? format("`{} --help` lists the flags", named.path) : format("did you mean {}?", near)};
}

Message explain(CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const Named named = walk(app, argc, argv);
  const bool flag_unknown = !named.unknown_flag.empty() && !named.command->get_allow_extras();
  if (flag_unknown) return unknown_flag(named);
  if (!named.unknown_word.empty() || is_group(*named.command)) return unknown_command(named);
  const std::string help = format("see `{} --help`", named.path), what = error.what();
  if (error.get_name() == "ArgumentMismatch") {
    const std::string flag = what.substr(0, what.find(':'));
    if (what.find("At Most") != what.npos) return {format("{} is given more than once", flag), "leave all but one out"};
    return {format("{} needs a value", flag), help};
  }
  // CLI11 names it after the command, and its words from the last to the first.
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const auto words = named.command->remaining();
    const std::string first = words.empty() ? what.substr(what.rfind(' ') + 1) : words.front();
    return {format("unexpected argument {}", first),
            named.command->get_name() == "launch"
                ? "the command to start comes after --: hyperion launch -n 4 -- train recipe.toml"
                : help};
  }
  if (error.get_name() == "ExcludesError") return {what, "leave one of them out"};
  return {what, help};
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) { return in_range(low, high, "a whole number"); }
CLI::Validator number(double low, double high) { return in_range(low, high, "a number"); }

CLI::Validator one_of(std::vector<std::string> choices) {
  std::string name = kChoices;  // no one is shown a validator's name
  for (const auto& choice : choices) name += " " + choice;
  const auto check = [choices = std::move(choices)](std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
    std::string all;
    for (const auto& choice : choices) all += (all.empty() ? "" : ", ") + choice;
    const auto near = base::choice_meant(text, choices);
    return format("\"{}\" is not one of {}{}", text, all, near.empty() ? "" : format("; did you mean {}?", near));
  };
  return {check, "", name};
}

std::vector<std::string> choices_of(CLI::Option& option) {
  std::string name;
  try {
    name = option.get_validator()->get_name();
  } catch (const CLI::OptionNotFound&) {  // it has none
  }
  if (!name.starts_with(kChoices)) return {};
  std::istringstream words(name.substr(std::string_view(kChoices).size()));
  return {std::istream_iterator<std::string>(words), {}};
}

CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string { return text.empty() ? "must not be empty" : ""; }, "", "not empty"};
}

namespace {

// A setting's key without its section, or a setting without its dashes: "--warmup", "optim.lr=1e-3".
std::string settings_meant(const std::string& word, const std::vector<std::string>& settings) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  std::string key = word.substr(dashes, word.find('=') - dashes), owners;
  std::replace(key.begin(), key.end(), '-', '_');
  for (const auto& name : settings)
    if (name == key || name.substr(name.find('.') + 1) == key) owners += (owners.empty() ? "--" : " or --") + name;
  return owners;
}

// "hyperion bench memory"
std::string whole_name(const CLI::App& command) {
  const auto* above = command.get_parent();
  return above == nullptr ? command.get_name() : whole_name(*above) + " " + command.get_name();
}

}  // namespace

std::string argument_hint(const CLI::App& command, const std::string& word, const std::vector<std::string>& settings) {
  if (const auto hint = base::flag_hint(word, base::FlagOf::settings); !hint.empty()) return hint;
  if (const auto meant = settings_meant(word, settings); !meant.empty()) return format("did you mean {}?", meant);
  std::vector<std::string> known;
  for (const auto* option : command.get_options()) known.push_back(option->get_name());
  for (const auto& name : settings) known.push_back("--" + name);
  const auto near = nearest_of(word.substr(0, word.find('=')), known);
  return near.empty() ? format("`{} --help` lists the flags", whole_name(command)) : format("did you mean {}?", near);
}

int usage_error(CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const Message message = explain(app, error, argc, argv);
  std::fputs(base::error_text(base::ConfigError(message.what, message.hint)).c_str(), stderr);
  return 2;
}

}  // namespace hyperion::cli
