#include "hyperion/cli/completion.h"

#include "hyperion/base/format.h"

namespace hyperion::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

}  // namespace

std::string bash_completion(const std::vector<CompletionCommand>& commands, const std::vector<std::string>& settings) {
  std::string dotted;
  for (const auto& name : settings) dotted += (dotted.empty() ? "--" : " --") + name + "=";
  // No variable is called `path` or `words`: to zsh they are special.
  std::string out =
      "# bash completion for hyperion; load it with: source <(hyperion completion bash)\n"
      "_hyperion() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} named=() i\n"
      "  COMPREPLY=()\n"
      "  if [ \"$word\" = = ] || [ \"${COMP_WORDS[COMP_CWORD-1]}\" = = ]; then return; fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in -*) ;; *) named+=(\"${COMP_WORDS[i]}\") ;; esac\n"
      "  done\n"
      "  local offers= offer runs=${HYPERION_RUNS:-runs}\n"
      "  case \"${named[*]}\" in\n";
  // Longer paths first: `case` takes the first that fits.
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    std::vector<std::string> words = command->words;
    std::string extra;
    if (command->takes_settings) extra += base::format("; [[ $word == --*.* ]] && offers=\"{}\"", dotted);
    if (command->takes_run) extra += "; offers+=\" $(ls -1 -- \"$runs\" 2>/dev/null)\"";
    if (command->takes_settings) words.push_back("--train. --eval. --checkpoint. --model. --data. --optim.");
    out += base::format("    \"{}\"{}) offers=\"{}\"{} ;;\n", command->path, command->path.empty() ? "" : "*",
                        joined(words), extra);
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

std::string zsh_completion(const std::vector<CompletionCommand>& commands, const std::vector<std::string>& settings) {
  return "#compdef hyperion\n# zsh completion for hyperion; load it with: source <(hyperion completion zsh)\n"
         "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(commands, settings);
}

}  // namespace hyperion::cli
