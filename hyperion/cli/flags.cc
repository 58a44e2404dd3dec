#include "hyperion/cli/flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/cli/comm_commands.h"
#include "hyperion/cli/timing_commands.h"
#include "hyperion/cli/usage.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

// The flags everyone types, each a short name of a setting.
void add_short_flags(CLI::App* command, Flags& flags) {
  command->add_option("--steps", flags.steps, "same as --train.steps");
  command->add_option("--seed", flags.seed, "same as --train.seed");
  command->add_option("--device", flags.device, "cpu, cuda or auto");
  command->add_option("--precision", flags.precision, "fp32, tf32, bf16, fp16 or fp8");
  command->add_option("--optimize", flags.optimize, "reference, fused, graph or max");
  command->add_option("--memory-budget", flags.memory_budget, "same as --memory.budget: 16GiB");
  command->add_option("--on-oom", flags.on_oom, "same as --memory.on_oom: fail or adapt");
  command->add_option("--parallel", flags.parallel, "same as --parallel.layout: dp=4, for 4 processes");
  command->add_option("--zero", flags.zero, "same as --parallel.zero: 0, 1, 2 or 3");
  command->add_option("--zeropp", flags.zeropp, "same as --parallel.zeropp: weights,secondary,grads");
  command
      ->add_option("--deterministic", flags.deterministic,
                   "true: repeatable on a GPU too; layout: on any number of processes, a power of two; or false")
      ->check(one_of({"true", "false", "layout"}));
  command->allow_extras();
}

// --steps 5 --train.steps=6
void refuse_contradictions(const std::vector<Override>& overrides) {
  std::map<std::string, const Override*> given;
  for (const auto& one : overrides) {
    const auto& first = *given.emplace(one.name, &one).first->second;
    if (first.value != one.value)
      throw ConfigError(
          format("{} is given twice: {}={} and {}={}", one.name, first.flag, first.value, one.flag, one.value),
          "leave one of them out");
  }
}

void add_train_commands(CLI::App& app, Flags& flags) {
  auto* train = app.add_subcommand("train", "train a model from a recipe");
  train->add_option("RECIPE", flags.train.recipe, "a TOML file, such as recipes/quickstart.toml")->required();
  train->add_option("--run", flags.train.run, "name of the run (default: recipe and time)")->check(not_empty());
  train->add_flag("--or-resume", flags.train.or_resume,
                  "go on with --run from its newest good checkpoint where it is there, so that the same command can be "
                  "started again");
  train->add_flag("--dry-run", flags.train.dry_run, "show what would be run; write nothing");
  add_short_flags(train, flags);
  add_rank_flags(train, flags.rank);
  train->footer(
      "\nExamples:\n  hyperion train recipes/quickstart.toml\n  hyperion train recipes/quickstart.toml --run mine "
      "--steps 200 --optim.lr=1e-3\n"
      "  HYPERION_OPTIM__LR=1e-3 hyperion train recipes/quickstart.toml --precision bf16\n\nSettings (recipe < "
      "HYPERION_SECTION__KEY < flag):\n" +
      settings_help());
  auto* resume = app.add_subcommand("resume", "go on with a run from its newest good checkpoint");
  resume->add_option("RUN", flags.resume.run, "the run's name or folder")->required();
  add_short_flags(resume, flags);
  add_rank_flags(resume, flags.rank);
  resume->footer(
      "\nExamples:\n  hyperion resume quickstart\n  hyperion resume quickstart --steps 3000\n\nThe model, data, seed, "
      "precision and length of a run cannot change, only where its data lies. What else changes is said. More steps "
      "keep "
      "the last learning rate, unless --optim.decay_steps says where the schedule ends.");
  auto* config = app.add_subcommand("config", "look at settings")->require_subcommand(1);
  config->footer("\nExample:\n  hyperion config show recipes/quickstart.toml --origin");
  auto* show = config->add_subcommand("show", "the settings a recipe, the environment and flags give together");
  show->add_option("RECIPE", flags.config.recipe, "a TOML file; defaults without");
  show->add_flag("--origin", flags.config.origin, "say where each value came from");
  show->add_flag("--json", flags.config.json, "as JSON, with origins");
  add_short_flags(show, flags);
  show->footer("\nExample:\n  hyperion config show recipes/quickstart.toml --origin --optim.lr=1e-3");
  auto* init = app.add_subcommand("init", "write a recipe to start from");
  auto* folder = init->add_option("FOLDER", flags.init.folder, "where (default: here)");
  init->add_option("-o,--output", flags.init.output, "the file to write (default: recipe.toml in FOLDER)")
      ->check(not_empty())
      ->excludes(folder);
  std::string kinds;
  for (const auto& kind : recipe_templates())
    kinds += format("{}{}: {}", kinds.empty() ? "" : "; ", kind.name, kind.meaning);
  auto* kind = init->add_option("--template", flags.init.kind, kinds + " (default: every setting with its default)")
                   ->check(one_of(template_names()));
  auto* deepspeed =
      init->add_option("--from-deepspeed", flags.init.deepspeed, "DeepSpeed's JSON file, in the words of a recipe")
          ->check(not_empty())
          ->excludes(kind);
  init->add_option("--ranks", flags.init.ranks, "processes that this JSON is for (default: as its batch sizes say)")
      ->check(whole_number(1, 1 << 20))
      ->needs(deepspeed);
  init->footer(
      "\nExamples:\n  hyperion init my-model && hyperion train my-model/recipe.toml\n  hyperion init my-adapter "
      "--template lora\n  hyperion init --from-deepspeed ds_config.json -o recipe.toml");
}

void add_exchange_commands(CLI::App& app, Flags& flags) {
  const char* model =
      "a run's name or folder, RUN@best, a checkpoint's folder, a Hugging Face folder, or OWNER/NAME of the hub "
      "(`hyperion fetch`)";
  auto* probe = app.add_subcommand(
      "probe", "run a model on given token ids or images, to compare it with the same model elsewhere");
  probe->add_option("MODEL", flags.probe.model, model)->required();
  probe
      ->add_option("--input", flags.probe.input,
                   "safetensors: input_ids (int64, batch x length) or pixel_values (fp32, batch x channels x height x "
                   "width); optional attention_mask, labels")
      ->required();
  probe->add_option("--output", flags.probe.output, "safetensors: logits; with labels also loss (fp32)")->required();
  probe->add_option("--adapter", flags.probe.adapter, "a PEFT folder; --grads then gives its gradients, under its keys")
      ->check(not_empty());
  probe->add_flag("--grads", flags.probe.grads, "also the gradient of every parameter, under its Hugging Face name");
  probe->add_option("--device", flags.probe.device, "cpu, cuda or auto (default cpu)")
      ->check(one_of({"auto", "cpu", "cuda"}));
  probe->add_option("--precision", flags.probe.precision, "fp32 or bf16 (default fp32)")
      ->check(one_of({"fp32", "bf16"}));
  add_quantize_flag(probe, flags.probe.quantize);
  probe->footer("\nExample:\n  hyperion probe ./gpt2 --input in.safetensors --output out.safetensors --grads");
  auto* out = app.add_subcommand("export", "write a model as a Hugging Face folder");
  out->add_option("MODEL", flags.export_.model, model)->required();
  out->add_option("--to", flags.export_.folder, "the folder to write; must not exist")->required()->check(not_empty());
  out->add_option("--adapter", flags.export_.adapter, "a PEFT folder, merged into the model's weights")
      ->check(not_empty());
  out->add_flag("--as-adapter", flags.export_.as_adapter, "write the adapter alone, as a PEFT folder");
  out->footer(
      "\nExamples:\n  hyperion export quickstart --to ./quickstart-hf\n  hyperion export ./llama --adapter ./mine --to "
      "./llama-mine");
}

void add_data_commands(CLI::App& app, Flags& flags) {
  auto& options = flags.data;
  auto* data = app.add_subcommand("data", "prepare text and images for training")->require_subcommand(1);
  data->footer(
      "\nExamples:\n  hyperion data prepare recipes/wikitext.toml --output sets/wikitext\n  hyperion data inspect "
      "sets/wikitext\n  hyperion data verify sets/wikitext");
  auto* prepare = data->add_subcommand("prepare", "make a set to train on from files: tokenized, indexed, hashed");
  prepare->add_option("RECIPE", flags.prepare.recipe, "a TOML file with [prepare], such as recipes/wikitext.toml")
      ->required();
  prepare->add_option("--output", flags.output, "same as --prepare.output: the folder to make");
  prepare->add_option("--on-bad", flags.on_bad, "same as --prepare.on_bad: fail or skip");
  prepare->add_flag("--dry-run", flags.prepare.dry_run, "show the settings and the files; write nothing");
  prepare->allow_extras();
  prepare->footer(
      "\nExamples:\n  hyperion data prepare recipes/wikitext.toml --output sets/wikitext\n  hyperion data prepare "
      "mine.toml --on-bad skip --prepare.files='data/*.jsonl.gz'\n\nStopped or killed, the same command goes on where "
      "it was. The same inputs and settings again find the set that is there.\n\nSettings (recipe < "
      "HYPERION_PREPARE__KEY < flag):\n" +
      prepare_help());
  auto* inspect = data->add_subcommand("inspect", "what a prepared set holds: counts, lengths, samples");
  inspect->add_option("FOLDER", flags.inspect.folder, "a prepared set")->required();
  inspect->add_option("--samples", flags.inspect.samples, "decoded documents to show (default 3)")
      ->check(whole_number(0, 1000));
  inspect->add_option("--grid", flags.inspect.grid, "of images: write some of them as one picture, a PNG file");
  inspect->add_flag("--json", flags.inspect.json, "as JSON");
  inspect->footer(
      "\nExamples:\n  hyperion data inspect sets/wikitext\n  hyperion data inspect sets/food101 --grid food.png");
  auto* verify = data->add_subcommand("verify", "check every hash, index, token and label of a prepared set");
  verify->add_option("FOLDER", flags.inspect.folder, "a prepared set")->required();
  verify->footer("\nExample:\n  hyperion data verify sets/wikitext");
  const auto add_tokenizer = [&](CLI::App* command) {
    command
        ->add_option(
            "--tokenizer", options.tokenizer,
            "a Hugging Face folder, a tokenizer.json, a vocab.json with merges.txt beside it, or a .tiktoken file")
        ->required();
    command
        ->add_option("--pattern", options.pattern, "how a .tiktoken file's text is cut (default: by its name or size)")
        ->check(one_of({"gpt2", "llama3", "qwen2", "cl100k", "o200k"}));
    command->add_flag("--lines", options.lines, "each line by itself");
  };
  auto* tokenize = data->add_subcommand("tokenize", "token ids of the text on stdin, separated by spaces");
  add_tokenizer(tokenize);
  auto* ids = tokenize->add_flag("--ids", options.ids, "print ids (the default)");
  auto* tokens = tokenize->add_flag("--tokens", options.tokens, "print tokens as the tokenizer's file spells them");
  auto* count = tokenize->add_flag("--count", options.count, "print only how many there are");
  auto* offsets = tokenize->add_flag("--offsets", options.offsets,
                                     "print ID:BEGIN-END, the bytes of the text that a token came from");
  ids->excludes(tokens)->excludes(count)->excludes(offsets);
  tokens->excludes(count)->excludes(offsets);
  count->excludes(offsets);
  tokenize->add_option("--threads", options.threads, "for a long text (default: all cores)")
      ->check(whole_number(1, 1024));
  tokenize->add_flag("--no-special", options.no_special, "without what the tokenizer puts around a text, such as <s>");
  tokenize->footer(
      "\nExamples:\n  hyperion data tokenize --tokenizer ./gpt2 < book.txt > book.ids\n  echo hello | hyperion data "
      "tokenize "
      "--tokenizer gpt2.tiktoken --tokens");
  auto* detokenize = data->add_subcommand("detokenize", "the text of the token ids on stdin");
  add_tokenizer(detokenize);
  detokenize->add_flag("--skip-special", options.skip_special, "leave special tokens out");
  detokenize->footer("\nExample:\n  hyperion data detokenize --tokenizer ./gpt2 < book.ids");
  auto& training = flags.train_tokenizer;
  auto* train = data->add_subcommand("train-tokenizer", "train a byte-level BPE tokenizer on texts");
  train->add_option("FILES", training.files, "texts, each a document of its own; - is stdin")->required();
  train->add_option("--to", training.to, "the tokenizer.json to write; must not exist")->required();
  train->add_option("--vocab-size", training.vocabulary, "tokens in all (default 32000)")
      ->check(whole_number(256, 1 << 24));
  train->add_option("--min-frequency", training.min_frequency, "merge no pair that is rarer (default 2)")
      ->check(whole_number(0, INT64_MAX));
  train->add_option("--pattern", training.pattern, "how text is cut into pieces: gpt2 (default), llama3 or qwen2")
      ->check(one_of({"gpt2", "llama3", "qwen2"}));
  train->add_option("--special", training.special, "a special token, such as <|endoftext|>; may be given again");
  train->footer(
      "\nExample:\n  hyperion data train-tokenizer book.txt --vocab-size 8000 --special '<|endoftext|>' --to "
      "tokenizer.json");
}

void add_machine_commands(CLI::App& app, Flags& flags) {
  auto* doctor = app.add_subcommand("doctor", "check this machine, and say what to do");
  doctor->add_flag("--json", flags.json, "as JSON");
  doctor->add_flag("--quick", flags.quick, "skip what is tried: the disk's write, the CPU in 16 bits");
  doctor->footer("\nExits with 3 when something would stop training.\n\nExample:\n  hyperion doctor");
  auto* bench = app.add_subcommand("bench", "measure this machine")->require_subcommand(1);
  bench->footer(
      "\nExamples:\n  hyperion bench hardware --quick\n  hyperion bench train tiny --device cpu --steps 10\n  hyperion "
      "bench data --set sets/wikitext");
  auto* hardware = bench->add_subcommand("hardware", "matrix products, memory bandwidth, transfers, launch latency");
  hardware->add_option("--sizes", flags.bench.sizes, "sides of square matrices (default 1024,2048,4096,8192)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 1 << 20));
  hardware->add_option("--dtypes", flags.bench.dtypes, "of fp32,tf32,fp16,bf16,fp8 (default: all supported)")
      ->delimiter(',')
      ->allow_extra_args(false);
  hardware->add_option("--only", flags.bench.only, "of matmul,bandwidth,transfer,latency (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  hardware->add_option("--device", flags.bench.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  hardware->add_option("--elements", flags.bench.elements, "vector lengths (default 10 to 500 million)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, int64_t{1} << 40));
  hardware->add_option("--seconds", flags.bench.seconds, "time for each case (default 1)")->check(number(0.01, 3600));
  hardware->add_option("--folder", flags.bench.folder,
                       "where the files go (default: bench-hardware and time, among the runs)");
  hardware->add_flag("--quick", flags.bench.quick, "short: fewer repeats, no long cases");
  hardware->add_flag("--json", flags.bench.json, "as JSON");
  hardware->footer(
      "\nExamples:\n  hyperion bench hardware --quick\n  hyperion bench hardware --sizes 4096,8192 --dtypes bf16");
  auto* memory = bench->add_subcommand("memory", "what each memory technique saves and costs on one workload");
  memory->add_option("RECIPE", flags.bench_memory.recipe, "its model, batch, length and [lora]; the data is random")
      ->required();
  memory->add_option("--repeats", flags.bench_memory.steps, "steps timed for each (default 10)")
      ->check(whole_number(1, 100'000));
  memory->add_option("--device", flags.device, "cpu, cuda or auto");
  memory->add_flag("--json", flags.bench_memory.json, "as JSON");
  memory->allow_extras();
  memory->footer("\nExample:\n  hyperion bench memory recipes/workloads/gpt2-774m-b8.toml");
  auto* data = bench->add_subcommand("data", "how fast text becomes token ids, and prepared sets become batches");
  data->add_option("--tokenizer", flags.bench_data.tokenizers,
                   "a tokenizer's file or folder, measured on one thread and on all cores; may be "
                   "given again");
  data->add_option("--set", flags.bench_data.sets,
                   "a prepared set: how fast it is opened and read; may be given again");
  data->add_option("--text", flags.bench_data.text, "a file of text (default: a mixed text is made)");
  data->add_option("--megabytes", flags.bench_data.megabytes, "of the text that is made (default 16)")
      ->check(whole_number(1, 4096));
  data->add_option("--seconds", flags.bench_data.seconds, "time for each row (default 3)")->check(number(0.01, 3600));
  data->add_option("--folder", flags.bench_data.folder,
                   "where the files go (default: bench-data and time, among the runs)");
  data->add_flag("--json", flags.bench_data.json, "as JSON");
  data->footer(
      "\nExamples:\n  hyperion bench data --tokenizer gpt2.tiktoken --tokenizer ./Qwen2.5-0.5B --text book.txt\n"
      "  hyperion bench data --set sets/wikitext");
  add_timing_commands(app, *bench);
  add_comm_commands(app, *bench, flags.rank);
  app.add_subcommand("presets", "the models a recipe can name")->footer("\nExample:\n  hyperion presets");
  add_runs_commands(app, flags.runs);
  auto* completion = app.add_subcommand("completion", "print shell completion");
  completion->add_option("SHELL", flags.shell, "bash or zsh")->required()->check(one_of({"bash", "zsh"}));
  completion->footer("\nExample:\n  source <(hyperion completion bash)");
}

}  // namespace

void add_commands(CLI::App& app, Flags& flags) {
  add_train_commands(app, flags);
  add_launch_command(app, flags.launch);
  add_rendezvous_command(app, flags.rendezvous, flags.rank);
  add_eval_command(app, flags.eval);
  add_compare_command(app, flags.compare);
  add_generate_command(app, flags.generate);
  add_chat_command(app, flags.chat);
  add_classify_command(app, flags.classify);
  add_exchange_commands(app, flags);
  add_fetch_command(app, flags.fetch);
  add_data_commands(app, flags);
  add_machine_commands(app, flags);
}

std::vector<Override> overrides_of(CLI::App* command, const Flags& flags) {
  std::vector<Override> overrides;
  const std::pair<const char*, const std::string*> shorts[] = {{"steps", &flags.steps},
                                                               {"seed", &flags.seed},
                                                               {"device", &flags.device},
                                                               {"precision", &flags.precision},
                                                               {"optimize", &flags.optimize}};
  for (const auto& [name, value] : shorts)
    if (!value->empty()) overrides.push_back({format("train.{}", name), *value, format("--{}", name)});
  if (!flags.memory_budget.empty()) overrides.push_back({"memory.budget", flags.memory_budget, "--memory-budget"});
  if (!flags.on_oom.empty()) overrides.push_back({"memory.on_oom", flags.on_oom, "--on-oom"});
  if (!flags.parallel.empty()) overrides.push_back({"parallel.layout", flags.parallel, "--parallel"});
  if (!flags.zero.empty()) overrides.push_back({"parallel.zero", flags.zero, "--zero"});
  if (!flags.zeropp.empty()) overrides.push_back({"parallel.zeropp", flags.zeropp, "--zeropp"});
  if (!flags.deterministic.empty()) {
    const bool layout = flags.deterministic == "layout";
    overrides.push_back({"train.deterministic", layout ? "true" : flags.deterministic, "--deterministic"});
    if (layout) overrides.push_back({"parallel.same_bits", "true", "--deterministic"});
  }
  if (!flags.output.empty()) overrides.push_back({"prepare.output", flags.output, "--output"});
  if (!flags.on_bad.empty()) overrides.push_back({"prepare.on_bad", flags.on_bad, "--on-bad"});
  const auto rest = command->remaining();
  for (size_t i = 0; i < rest.size(); ++i) {
    const std::string& word = rest[i];
    const size_t equals = word.find('='), dot = word.find('.');
    if (!word.starts_with("--") || dot == word.npos || dot > equals) {
      throw ConfigError(format("unexpected argument {}", word), argument_hint(*command, word, setting_names()));
    }
    const std::string name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
    if (equals == word.npos && i + 1 == rest.size())
      throw ConfigError(format("{} needs a value", word), format("write {}=VALUE", word));
    overrides.push_back({name, equals == word.npos ? rest[++i] : word.substr(equals + 1), "--" + name});
  }
  refuse_contradictions(overrides);
  return overrides;
}

}  // namespace hyperion::cli
