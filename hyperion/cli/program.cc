// The only place with main, argv and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/signals.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/cli/classify_command.h"
#include "hyperion/cli/comm_commands.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/compare_command.h"
#include "hyperion/cli/completion.h"
#include "hyperion/cli/eval_command.h"
#include "hyperion/cli/fetch_command.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/cli/program.h"
#include "hyperion/cli/recipe_templates.h"
#include "hyperion/cli/runs_commands.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/cli/timing_commands.h"
#include "hyperion/cli/usage.h"
#include "hyperion/host/blas.h"
#include "hyperion/kernels/device.h"
#include "hyperion/train/memory.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

struct Flags {
  TrainOptions train;
  ResumeOptions resume;
  ConfigOptions config;
  EvalOptions eval;
  CompareOptions compare;
  ClassifyOptions classify;
  GenerateOptions generate;
  ChatOptions chat;
  ProbeOptions probe;
  ExportOptions export_;
  FetchOptions fetch;
  BenchOptions bench;
  BenchMemoryOptions bench_memory;
  BenchDataOptions bench_data;
  DataOptions data;
  TrainTokenizerOptions train_tokenizer;
  PrepareOptions prepare;
  InspectOptions inspect;
  LaunchOptions launch;
  RendezvousOptions rendezvous;
  RunsOptions runs;
  host::RankFlags rank;
  InitOptions init;
  std::string shell;
  bool json = false, quick = false;
  std::string steps, seed, device, precision, optimize, memory_budget, on_oom, output, on_bad;
  std::string parallel, zero, zeropp, deterministic;
};

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

// What is left over after the known flags: --section.key=value or --section.key value.
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

void collect(CLI::App* app, const std::string& path, std::vector<CompletionCommand>& commands) {
  CompletionCommand command{path, {}, {}};
  for (auto* option : app->get_options()) {
    const std::string name = option->get_name();
    const auto choices = choices_of(*option);
    if (name.starts_with("--")) command.words.push_back(name);
    if (name.starts_with("--") && !choices.empty()) command.flags.push_back({name, choices});
    if (!name.starts_with("-")) command.words.insert(command.words.end(), choices.begin(), choices.end());
    command.takes_run |= name == "RUN" || name == "MODEL";
    if (name != "WORKLOAD") continue;
    for (const auto& workload : bench::workloads()) command.words.emplace_back(workload.name);
  }
  for (auto* child : app->get_subcommands({}))
    if (!child->get_group().empty()) command.words.push_back(child->get_name());  // no group: hidden
  command.takes_settings = app->get_allow_extras();
  commands.push_back(command);
  for (auto* child : app->get_subcommands({}))
    collect(child, path.empty() ? child->get_name() : path + " " + child->get_name(), commands);
}

int completion_command(CLI::App& app, const std::string& shell) {
  std::vector<CompletionCommand> commands;
  collect(&app, "", commands);
  std::printf("%s", (shell == "bash" ? bash_completion : zsh_completion)(commands, completion_settings()).c_str());
  return 0;
}

int dispatch_data(CLI::App* command, Flags& flags) {
  if (command->got_subcommand("prepare"))
    return flags.prepare.overrides = overrides_of(command->get_subcommands().front(), flags),
           prepare_command(flags.prepare);
  if (command->got_subcommand("inspect")) return inspect_command(flags.inspect);
  if (command->got_subcommand("verify")) return verify_command(flags.inspect);
  if (command->got_subcommand("tokenize")) return tokenize_command(flags.data);
  if (command->got_subcommand("detokenize")) return detokenize_command(flags.data);
  return train_tokenizer_command(flags.train_tokenizer);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

int dispatch(CLI::App& app, Flags& flags) {
  if (const auto code = run_timing_command(app)) return *code;
  if (const auto code = run_comm_command(app)) return *code;
  auto* command = app.get_subcommands().front();
  const std::string name = command->get_name();
  if (name == "train") return flags.train.overrides = overrides_of(command, flags), train_command(flags.train);
  if (name == "resume") return flags.resume.overrides = overrides_of(command, flags), resume_command(flags.resume);
  if (name == "rendezvous") return rendezvous_command(flags.rendezvous);
  if (name == "launch") return launch_command(flags.launch, command_names(app));
  if (name == "config")
    return flags.config.overrides = overrides_of(command->get_subcommands().front(), flags),
           config_command(flags.config);
  if (name == "init") return init_command(flags.init);
  if (name == "eval") return eval_command(flags.eval);
  if (name == "compare") return compare_command(flags.compare);
  if (name == "classify") return classify_command(flags.classify);
  if (name == "chat") return chat_command(flags.chat);
  if (name == "generate") return generate_command(flags.generate);
  if (name == "probe") return probe_command(flags.probe);
  if (name == "export") return export_command(flags.export_);
  if (name == "fetch") return fetch_command(flags.fetch);
  if (name == "data") return dispatch_data(command, flags);
  if (name == "doctor") return doctor_command(flags.json, flags.quick);
  if (name == "bench" && command->got_subcommand("memory"))
    return flags.bench_memory.overrides = overrides_of(command->get_subcommands().front(), flags),
           bench_memory_command(flags.bench_memory);
  if (name == "bench" && command->got_subcommand("data")) return bench_data_command(flags.bench_data);
  if (name == "bench") return bench_hardware_command(flags.bench);
  if (name == "presets") return presets_command();
  if (name == "completion") return completion_command(app, flags.shell);
  return run_runs_command(app, flags.runs).value();
}

// CLI11 would take the next word for the value. A setting (--section.key=) may well be empty.
void refuse_empty_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || !word.ends_with('=') || word.find('.') != word.npos) continue;
    const auto flag = word.substr(0, word.size() - 1);
    throw base::ConfigError(base::format("{} has no value", word),
                            base::format("write {} VALUE, or leave it out; {} '' is an empty one", flag, flag));
  }
}

int run(int argc, char** argv) {
  CLI::App app{
      "hyperion trains deep networks, from a laptop's CPU to a cluster of GPUs, and shows where time and memory went."};
  app.name("hyperion");
  app.set_version_flag(
      "--version", [] { return version_lines(); }, "versions of hyperion and what is under it");
  app.set_help_flag("-h,--help", "show this help");
  app.require_subcommand(1);
  app.footer(
      "\nExamples:\n  hyperion doctor\n  hyperion train recipes/quickstart.toml --run first\n  hyperion generate first "
      "--prompt '347+85:'\n"
      "\nRuns live in ./runs, or where HYPERION_RUNS says. Exit codes: 0 fine, 1 failed, 2 usage, 3 preflight, 75 "
      "preempted, 130 Ctrl-C.");
  Flags flags;
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
  flags.launch.command = take_launched_command(argc, argv);
  refuse_empty_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error, argc, argv);
  }
  host::set_rank_flags(flags.rank);
  return dispatch(app, flags);
}

// Errors of the libraries under us. LibTorch's messages carry a backtrace after the first line.
base::Error in_our_words(const std::exception& error, const char* command) {
  if (train::is_out_of_memory(error))
    return train::out_of_memory_error(error, base::format("running `hyperion {}`", command));
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return base::Error("a further thread could not be started",
                       "raise `ulimit -u` or `ulimit -v`, or ask for fewer threads");
  const std::string what = error.what();
  return base::Error(what.substr(0, what.find('\n')));
}

}  // namespace
}  // namespace hyperion::cli

namespace {

int guarded_run(int argc, char** argv) {
  using hyperion::base::Error;
  using hyperion::base::Interrupted;
  try {
    return hyperion::cli::run(argc, argv);
  } catch (const Interrupted& stop) {
    std::fprintf(stderr, "%s\n", stop.what());
    if (!stop.hint().empty()) std::fprintf(stderr, "hint: %s\n", stop.hint().c_str());
    return stop.exit_code();
  } catch (const Error& error) {
    std::fputs(hyperion::base::error_text(error).c_str(), stderr);
    return error.exit_code();
  } catch (const std::exception& error) {
    const auto told = hyperion::cli::in_our_words(error, argc > 1 ? argv[1] : "");
    std::fputs(hyperion::base::error_text(told).c_str(), stderr);
    return told.exit_code();
  }
}

// A closed stdout's number would be given to the next file opened, and what is printed would land in it.
void open_standard_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // takes the lowest free number, this one
}

[[noreturn]] void refuse_start(const std::string& what, const char* hint) {
  std::fprintf(stderr, "error: %s\nhint: %s\n", what.c_str(), hint);
  ::_exit(2);
}

// OpenMP takes no notice of such a value, and says so before this program begins, without a word of what to do.
void warn_of_thread_count() {
  const char* value = std::getenv("OMP_NUM_THREADS");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.find_first_not_of("0123456789, ") != text.npos)
    hyperion::base::log_warn(hyperion::base::format(
        "OMP_NUM_THREADS=\"{}\" is no number of threads, and is ignored; set it to one, as OMP_NUM_THREADS=4, or unset "
        "it",
        hyperion::base::printable(text)));
  constexpr int64_t kMost = 4096;  // as train.threads has it; OpenMP ends the program where they cannot be made
  if (std::strtoll(std::string(text).c_str(), nullptr, 10) > kMost)
    refuse_start(
        hyperion::base::format("OMP_NUM_THREADS={} is more than {} threads", hyperion::base::printable(text), kMost),
        "set it to as many as there are cores, or unset it");
}

int flush_output(int code) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  if (errno == EPIPE) return 128 + SIGPIPE;  // the reader has seen enough
  std::fprintf(
      stderr,
      "error: the output could not be written: %s\nhint: the work itself is done; give stdout somewhere to go\n",
      errno != 0 ? std::strerror(errno) : "an earlier line was lost");
  return 1;
}

}  // namespace

void hyperion::cli::program(int argc, char** argv) {
  open_standard_streams();
  hyperion::base::raise_descriptor_limit();
  ::setenv("ONEDNN_JIT_PROFILE", "0", /*overwrite=*/0);  // it leaves a file in /tmp for each process
  hyperion::host::settle_blas();
  hyperion::base::watch_stop_signals();
  hyperion::kernels::log_library_warnings();
  hyperion::base::watch_mapped_files();
  hyperion::base::warn_of_test_variables();
  warn_of_thread_count();
  const int code = flush_output(guarded_run(argc, argv));
  std::fflush(stderr);
  // Not through static destructors: LibTorch's own, beside CUDA's libraries, are not safe to run.
  ::_exit(code);
}
