#include "hyperion/cli/text_flags.h"

#include "hyperion/base/format.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"

namespace hyperion::cli {
namespace {

// What both commands have: the model, and how it chooses its words.
void add_text_flags(CLI::App* command, TextOptions& options) {
  command->add_option("MODEL", options.model, kModelMeaning)->required();
  command->add_option("--tokens", options.tokens, base::format("new tokens at most (default {})", options.tokens))
      ->check(whole_number(1, 1 << 20));
  command->add_option("--temperature", options.temperature, "0 always takes the likeliest (default 0)")
      ->check(number(0, 100));
  command->add_option("--top-k", options.top_k, "choose among the k likeliest; 0: all")
      ->check(whole_number(0, 1 << 20));
  command
      ->add_option("--top-p", options.top_p,
                   "choose among the fewest likeliest that reach this probability together (default 1: all)")
      ->check(number(0, 1));
  command
      ->add_option("--repetition-penalty", options.repetition_penalty,
                   "above 1: what stands in the text already is less likely (default 1)")
      ->check(number(0.01, 100));
  command->add_option("--seed", options.seed, "of the choices (default 1)")->check(whole_number(0, INT64_MAX));
  command->add_option("--stop", options.stop, "end once this text has come. Repeat it for several")
      ->allow_extra_args(false)
      ->check(not_empty());
  command->add_option("--device", options.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  command
      ->add_option("--adapter", options.adapters,
                   "a PEFT adapter: FOLDER, called as the folder is, or NAME=FOLDER; may be given again")
      ->allow_extra_args(false)
      ->check(not_empty());
  command->add_option("--use", options.use, "the adapter to use, by name (default: the first)");
  add_quantize_flag(command, options.quantize);
}

}  // namespace

void add_quantize_flag(CLI::App* command, std::string& quantize) {
  command
      ->add_option("--quantize", quantize,
                   "nf4: linear layers in 4 bits; none: whole (default: as the run was trained, a folder whole)")
      ->check(one_of({"none", "nf4"}));
}

void add_generate_command(Commands& commands) {
  const auto add_flags = [](CLI::App* generate, GenerateOptions& options) {
    add_text_flags(generate, options);
    generate
        ->add_option("--prompt", options.prompts, "the text to continue; - reads stdin. Repeat it for several texts")
        ->allow_extra_args(false);
    generate->add_option("--prompts", options.prompts_file, "a file with a text to continue on each line");
    generate->add_flag("--json", options.json, "as JSON: a list with an object for each text");
    generate->footer(
        "\nExamples:\n  hyperion generate quickstart --prompt '347+85:'\n  echo -n 12+30: | hyperion generate "
        "quickstart "
        "--prompt -\n  hyperion generate quickstart --prompt '1+2:' --prompt '347+85:' --temperature 0.8 --top-p 0.95\n"
        "  hyperion generate ./llama --adapter ./mine --prompt 'Once upon a time' --stop '.'");
  };
  commands.add<GenerateOptions>("generate", "continue texts with a model", add_flags, generate_command);
}

void add_chat_command(Commands& commands) {
  const auto add_flags = [](CLI::App* chat, ChatOptions& options) {
    add_text_flags(chat, options);
    chat->add_option("--system", options.system, "what the model is told first (default: the template's own)");
    chat->footer(
        "\nMODEL needs a tokenizer with a chat template: a Hugging Face folder, a run on dialogues, or one that "
        "started "
        "from such a folder.\nOn a terminal /help lists what can be said beside questions.\n\n"
        "Examples:\n  hyperion chat ./Qwen2.5-0.5B-Instruct\n  hyperion chat my-sft --temperature 0.7 --top-k 40\n"
        "  echo 'Why is the sky blue?' | hyperion chat ./Qwen2.5-0.5B-Instruct");
  };
  commands.add<ChatOptions>("chat", "talk with a model, in the words of its own chat template", add_flags,
                            chat_command);
}

}  // namespace hyperion::cli
