#include "hyperion/command/completion.h"

#include <algorithm>
#include <map>

#include "hyperion/base/format.h"

namespace hyperion::cli {
namespace {

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string value_case(const std::string& flag, const std::vector<std::string>& values) {
  return base::format("    {}) offers=\"{}\" ;;\n", flag, joined_words(values));
}

// Cases of `case $flag in`: a setting's values, under its own name and its short one.
std::string cases_of_settings(const std::vector<CompletionSetting>& settings) {
  std::string out, paths;
  for (const auto& setting : settings) {
    const auto other = setting.short_flag.empty() ? "" : "|" + setting.short_flag;
    if (!setting.values.empty()) out += value_case("--" + setting.name + other, setting.values);
    if (setting.is_model) out += base::format("    --{}) kind=d runs=1 ;;\n", setting.name);
    if (setting.is_path) paths += (paths.empty() ? "--" : "|--") + setting.name;
  }
  return paths.empty() ? out : out + base::format("    {}) kind=f ;;\n", paths);
}

// A flag of several commands offers what any of them takes.
std::string cases_of_flags(const std::vector<CompletionCommand>& commands,
                           const std::vector<CompletionSetting>& settings) {
  std::map<std::string, std::vector<std::string>> values;
  for (const auto& command : commands)
    for (const auto& flag : command.flags)
      for (const auto& value : flag.values) {
        auto& known = values[flag.name];
        if (std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
      }
  for (const auto& setting : settings) values.erase(setting.short_flag);
  std::string out;
  for (const auto& [flag, known] : values) out += value_case(flag, known);
  return out;
}

std::string sections_of(const std::vector<CompletionSetting>& settings) {
  std::vector<std::string> sections;
  for (const auto& setting : settings) {
    const auto section = "--" + setting.name.substr(0, setting.name.find('.') + 1);
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
  }
  return joined_words(sections);
}

}  // namespace

std::string bash_completion(const std::vector<CompletionCommand>& commands,
                            const std::vector<CompletionSetting>& settings) {
  std::string dotted;
  for (const auto& setting : settings) dotted += (dotted.empty() ? "--" : " --") + setting.name + "=";
  // No variable is called `path` or `words`: to zsh they are special. bash makes three words of --a.b=c, zsh one.
  // A folder without run.json is no run: benches and launches keep theirs beside. What a killed program had begun to
  // write (.partial-) is nothing to name. Of names only what is added to the typed part is quoted: that is as the user
  // began it, with backslashes or after a quotation mark, which the shell leaves where it is.
  std::string out =
      "# bash completion for hyperion; load it with: source <(hyperion completion bash)\n"
      "_hyperion_name() {\n"
      "  local rest=${1#\"$plain\"}\n"
      "  if [[ $1 != \"$plain\"* || $1 == *.partial-* ]]; then return; fi\n"
      "  if [ -n \"$rest\" ] && [ -z \"$mark\" ]; then printf -v rest %q \"$rest\"; fi\n"
      "  COMPREPLY+=(\"$lead$typed$rest\")\n"
      "}\n"
      "_hyperion_names() {\n"  // of runs, if $runs, and files or folders as $kind says, that begin with $1
      "  local typed=$1 plain=${1//\\\\/} mark= offer\n"
      "  case $typed in [\\\"\\']*) mark=1 typed=${typed#?} plain=$typed ;; esac\n"
      "  if [ -n \"$runs\" ]; then\n"
      "    for offer in \"${HYPERION_RUNS:-runs}\"/*/run.json; do\n"
      "      offer=${offer%/run.json}\n"
      "      if [ -e \"$offer/run.json\" ]; then _hyperion_name \"${offer##*/}\"; fi\n"
      "    done\n"
      "  fi\n"
      "  if [ -z \"$kind\" ]; then return; fi\n"
      "  if [ -z \"$mark\" ]; then case $plain in \"~/\"*) plain=$HOME/${plain#??} ;; esac; fi\n"
      "  for offer in \"$plain\"*; do\n"
      "    if [ -d \"$offer\" ] || [[ $kind == f && -e $offer ]]; then _hyperion_name \"$offer\"; fi\n"
      "  done\n"
      "}\n"
      "_hyperion() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} named=() i first=1\n"
      "  local offers= offer flag= value= lead= kind= runs=\n"
      "  COMPREPLY=()\n"
      "  if [[ $word == --*=* ]]; then flag=${word%%=*} value=${word#*=} lead=$flag=\n"
      "  elif [ \"$word\" = = ]; then flag=$before\n"
      "  elif [ \"$before\" = = ]; then flag=${COMP_WORDS[COMP_CWORD-2]} value=$word\n"
      "  elif [[ $before == --* && $word != -* ]]; then flag=$before value=$word; fi\n"
      "  case $flag in\n" +
      cases_of_settings(settings) + cases_of_flags(commands, settings) +
      "  esac\n"
      "  for offer in $(echo $offers); do\n"
      "    if [[ $offer == \"$value\"* ]]; then COMPREPLY+=(\"$lead$offer\"); fi\n"
      "  done\n"
      "  _hyperion_names \"$value\"\n"
      "  if [ -n \"$offers$lead$kind\" ] || [ \"$word\" = = ] || [ \"$before\" = = ]; then return; fi\n"
      "  if [ \"${COMP_WORDS[1]}\" = launch ]; then\n"
      "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
      "      if [ \"${COMP_WORDS[i]}\" = -- ]; then first=$((i + 1)); break; fi\n"
      "    done\n"
      "  fi\n"
      "  for ((i = first; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in -*) ;; *) named+=(\"${COMP_WORDS[i]}\") ;; esac\n"
      "  done\n"
      "  case \"${named[*]}\" in\n";
  // Longer paths first: `case` takes the first that fits.
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    std::vector<std::string> words = command->words;
    std::string extra;
    if (command->takes_settings) extra += base::format("; [[ $word == --*.* ]] && offers=\"{}\"", dotted);
    if (command->takes_run) extra += "; runs=1";
    if (command->takes_settings) words.push_back(sections_of(settings));
    out += base::format("    \"{}\"{}) offers=\"{}\"{} ;;\n", command->path, command->path.empty() ? "" : "*",
                        joined_words(words), extra);
  }
  out +=
      "  esac\n"
      "  for offer in $(echo $offers); do\n"
      "    if [[ $offer == -* && $word != -* ]]; then continue; fi\n"
      "    if [[ $offer == \"$word\"* ]]; then COMPREPLY+=(\"$offer\"); fi\n"
      "  done\n"
      "  _hyperion_names \"$word\"\n"
      "  if [ ${#COMPREPLY[@]} = 0 ]; then runs= kind=f; _hyperion_names \"$word\"; fi\n"
      "  if [[ ${COMPREPLY[0]-} == *[=.] ]]; then compopt -o nospace 2>/dev/null; fi\n"
      "}\n"
      "complete -F _hyperion hyperion\n";
  return out;
}

std::string zsh_completion(const std::vector<CompletionCommand>& commands,
                           const std::vector<CompletionSetting>& settings) {
  return "#compdef hyperion\n# zsh completion for hyperion; load it with: source <(hyperion completion zsh)\n"
         "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(commands, settings);
}

}  // namespace hyperion::cli
