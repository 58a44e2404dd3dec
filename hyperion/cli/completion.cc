#include "hyperion/cli/completion.h"

#include <algorithm>

#include "hyperion/base/format.h"

namespace hyperion::cli {
namespace {

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Cases of `case $flag in`: a setting's values, under its own name and its short one.
std::string cases_of_values(const std::vector<CompletionSetting>& settings) {
  std::string out;
  for (const auto& setting : settings) {
    if (setting.values.empty()) continue;
    const auto other = setting.short_flag.empty() ? "" : "|" + setting.short_flag;
    out += base::format("    --{}{}) offers=\"{}\" ;;\n", setting.name, other, joined_words(setting.values));
  }
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
  std::string out =
      "# bash completion for hyperion; load it with: source <(hyperion completion bash)\n"
      "_hyperion() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} named=() i\n"
      "  local offers= offer runs=${HYPERION_RUNS:-runs} flag= value= lead=\n"
      "  COMPREPLY=()\n"
      "  if [[ $word == --*=* ]]; then flag=${word%%=*} value=${word#*=} lead=$flag=\n"
      "  elif [ \"$word\" = = ]; then flag=$before\n"
      "  elif [ \"$before\" = = ]; then flag=${COMP_WORDS[COMP_CWORD-2]} value=$word\n"
      "  elif [[ $before == --* && $word != -* ]]; then flag=$before value=$word; fi\n"
      "  case $flag in\n" +
      cases_of_values(settings) +
      "  esac\n"
      "  for offer in $(echo $offers); do\n"
      "    if [[ $offer == \"$value\"* ]]; then COMPREPLY+=(\"$lead$offer\"); fi\n"
      "  done\n"
      "  if [ -n \"$offers$lead\" ] || [ \"$word\" = = ] || [ \"$before\" = = ]; then return; fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in -*) ;; *) named+=(\"${COMP_WORDS[i]}\") ;; esac\n"
      "  done\n"
      "  case \"${named[*]}\" in\n";
  // Longer paths first: `case` takes the first that fits.
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    std::vector<std::string> words = command->words;
    std::string extra;
    if (command->takes_settings) extra += base::format("; [[ $word == --*.* ]] && offers=\"{}\"", dotted);
    if (command->takes_run)  // a folder without run.json is no run: benches and launches keep theirs beside
      extra +=
          "; for offer in \"$runs\"/*/run.json; do offer=${offer%/run.json}; [ ! -e \"$offer/run.json\" ] || "
          "offers+=\" ${offer##*/}\"; done";
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
      "  if [ ${#COMPREPLY[@]} = 0 ]; then COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
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
