#include "hyperion/base/other_words.h"

#include <algorithm>
#include <cctype>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {

// Words between blanks, small letters, _ for -. `here` is a setting, or a setting=value.
struct OtherSetting {
  std::string_view words, here, note;
};
constexpr std::string_view kBatch = "it counts the samples of one update, of all processes and parts together";
constexpr OtherSetting kSettings[] = {
    {"lr learning_rate max_lr peak_lr base_lr", "optim.lr", ""},
    {"batch_size bs train_batch_size global_batch_size b per_device_train_batch_size per_device_batch_size "
     "micro_batch_size train_micro_batch_size_per_gpu per_gpu_train_batch_size device_batch_size mbs gbs",
     "train.batch", kBatch},
    {"gradient_accumulation_steps grad_accum grad_accumulation accumulate_grad_batches gradient_accumulation "
     "accumulation_steps grad_accum_steps",
     "train.accumulate", "it cuts train.batch into that many parts, and does not enlarge it"},
    {"epochs num_epochs num_train_epochs max_epochs n_epochs e", "train.epochs", "in place of train.steps"},
    {"max_steps num_steps train_steps total_steps iterations max_iters train_iters num_train_steps iters n_steps",
     "train.steps", ""},
    {"warmup_steps lr_warmup_steps num_warmup_steps warmup_iters lr_warmup_iters", "optim.warmup", ""},
    {"warmup_ratio warmup_fraction", "optim.warmup", "it counts steps: ratio x train.steps"},
    {"lr_scheduler lr_scheduler_type scheduler lr_schedule lr_decay_style", "optim.schedule", ""},
    {"min_lr final_lr min_lr_ratio", "optim.final_lr_ratio", "it is a part of optim.lr"},
    {"optimizer optim_type", "optim.rule", ""},
    {"wd", "optim.weight_decay", ""},
    {"adam_beta1 betas", "optim.beta1", "and optim.beta2"},
    {"adam_beta2", "optim.beta2", ""},
    {"adam_epsilon eps adam_eps", "optim.epsilon", ""},
    {"max_grad_norm clip_grad grad_clip gradient_clip_val clip_grad_norm gradient_clipping", "optim.clip", ""},
    {"seq_len seq_length sequence_length max_seq_len max_seq_length max_length block_size cutoff_len sequence_len",
     "train.length", ""},
    {"random_seed", "train.seed", ""},
    {"fp16 half", "train.precision=fp16", ""},
    {"bf16 bfloat16", "train.precision=bf16", ""},
    {"fp8", "train.precision=fp8", ""},
    {"tf32 allow_tf32", "train.precision=tf32", ""},
    {"fp32 float32", "train.precision=fp32", ""},
    {"dtype mixed_precision torch_dtype amp autocast", "train.precision", ""},
    {"cpu no_cuda use_cpu", "train.device=cpu", ""},
    {"cuda gpu use_cuda", "train.device=cuda", ""},
    {"accelerator", "train.device", ""},
    {"compile torch_compile", "train.optimize=max", ""},
    {"gradient_checkpointing activation_checkpointing recompute checkpoint_activations", "memory.recompute=full", ""},
    {"cpu_offload offload offload_optimizer", "memory.offload_optimizer=true", ""},
    {"zero_stage zero3 fsdp sharding", "parallel.zero", "0 to 3: 3 shares weights too, as FSDP does"},
    {"deepspeed deepspeed_config ds_config", "parallel.zero", "`hyperion init --from-deepspeed FILE` reads its JSON"},
    {"sync_bn syncbn", "parallel.sync_batch_norm=true", ""},
    {"eval_steps eval_interval eval_every val_check_interval evaluation_strategy eval_strategy val_interval",
     "eval.every", "in steps"},
    {"eval_iters eval_batches limit_val_batches", "eval.batches", ""},
    {"save_steps save_interval save_every checkpoint_every save_strategy checkpointing_steps ckpt_interval",
     "checkpoint.every", "in steps"},
    {"save_total_limit keep_checkpoints", "checkpoint.keep", ""},
    {"load_best_model_at_end save_best_only save_best keep_best", "checkpoint.best=true", "RUN@best names it"},
    {"early_stopping_patience early_stopping early_stop", "train.patience", "in validations"},
    {"early_stopping_threshold early_stopping_delta", "train.min_delta", ""},
    {"logging_steps log_interval log_freq log_steps", "train.log_every", ""},
    {"report_to", "train.report_to", ""},
    {"num_workers dataloader_num_workers workers", "data.threads", ""},
    {"data dataset train_file data_dir data_path dataset_path dataset_name train_data train_files dataset_dir",
     "data.path", "with data.source, which says of what kind it is"},
    {"model model_name arch architecture model_type", "model.preset",
     "`hyperion presets` lists them; model.from starts from the weights of a run or a Hugging Face folder"},
    {"model_name_or_path base_model pretrained pretrained_model pretrained_model_name_or_path model_path ckpt "
     "checkpoint from_pretrained init_from load_from base_model_name_or_path model_dir",
     "model.from", ""},
    {"num_layers n_layer n_layers num_hidden_layers depth", "model.layers", ""},
    {"hidden_size d_model n_embd dim embed_dim hidden_dim", "model.width", ""},
    {"num_heads n_head n_heads num_attention_heads", "model.heads", ""},
    {"intermediate_size ffn_dim ffn_hidden_size d_ff", "model.inner", ""},
    {"max_position_embeddings n_positions context_length ctx_len n_ctx", "model.context", ""},
    {"vocab_size padded_vocab_size", "model.vocabulary", ""},
    {"num_classes num_labels", "model.classes", ""},
    {"image_size img_size", "model.image", ""},
    {"patch_size", "model.patch", ""},
    {"lora_r lora_rank r lora use_lora use_peft adapter", "lora.rank", "above 0 it trains an adapter"},
    {"lora_alpha", "lora.alpha", ""},
    {"lora_dropout", "lora.dropout", ""},
    {"lora_target_modules target_modules lora_target", "lora.targets", ""},
    {"load_in_4bit qlora 4bit use_4bit quantization bits", "model.quantize=nf4", "with lora.rank above 0"},
};

struct OtherFlag {
  FlagOf command;
  std::string_view words, hint;
};
constexpr std::string_view kModelFirst =
    "the model is named without a flag: a run's name or folder, a checkpoint's, or a Hugging Face folder";
constexpr std::string_view kRanks = "write -n N, the processes on all machines together";
constexpr OtherFlag kFlags[] = {
    {FlagOf::settings, "gpus num_gpus n_gpus ngpus nproc_per_node nproc num_processes devices n np",
     "several processes are started by launch: hyperion launch -n N -- train RECIPE"},
    {FlagOf::settings, "nnodes num_nodes num_machines hostfile",
     "several machines are started by launch: hyperion launch --nodes host:slots,host:slots -- train RECIPE"},
    {FlagOf::settings, "output output_dir out out_dir save_dir o exp_name experiment logdir run_name name",
     "--run NAME names the run; HYPERION_RUNS is the folder where runs lie"},
    {FlagOf::settings, "config c recipe config_file", "the recipe is named without a flag: hyperion train RECIPE"},
    {FlagOf::settings, "resume resume_from_checkpoint resume_from continue",
     "write hyperion resume RUN, or train RECIPE --run NAME --or-resume"},
    {FlagOf::settings, "wandb tensorboard mlflow use_wandb",
     "--train.report_to=tensorboard,wandb,mlflow,prometheus says which tools' files a run writes into its folder"},
    {FlagOf::eval,
     "data.path data dataset data_path dataset_path dataset_name data_dir dataset_dir eval_data test_data",
     "write --set FOLDER, which `hyperion data prepare` made"},
    {FlagOf::model,
     "model model.from model_name model_path model_name_or_path checkpoint ckpt run m pretrained from "
     "model_dir checkpoint_path base_model",
     kModelFirst},
    {FlagOf::model, "max_tokens max_new_tokens n_predict max_length num_tokens", "write --tokens N"},
    {FlagOf::model, "temp t", "write --temperature X"},
    {FlagOf::model, "repeat_penalty", "write --repetition-penalty X"},
    {FlagOf::model, "lora adapters peft lora_path adapter_path", "write --adapter FOLDER"},
    {FlagOf::model, "load_in_4bit 4bit nf4 load_in_8bit model.quantize quantization", "write --quantize nf4"},
    {FlagOf::model, "cuda gpu", "write --device cuda"},
    {FlagOf::model, "cpu", "write --device cpu"},
    {FlagOf::model, "text input_text p", "write --prompt TEXT"},
    {FlagOf::model, "prompt_file prompts_file file", "write --prompts FILE"},
    {FlagOf::model, "system_prompt", "write --system TEXT"},
    {FlagOf::model, "output output_dir out out_dir o save_dir",
     "`hyperion export MODEL --to FOLDER` names what it writes"},
    {FlagOf::launch, "gpus num_gpus n_gpus ngpus nproc_per_node nproc num_processes np devices", kRanks},
    {FlagOf::launch, "nnodes num_nodes num_machines", "write --node-count N"},
    {FlagOf::launch, "master_addr master_port rdzv_endpoint main_process_ip main_process_port",
     "write --master HOST:PORT"},
    {FlagOf::launch, "hostfile hosts host h machinefile", "write --nodes host:slots,host:slots"},
    {FlagOf::launch, "machine_rank", "write --node-rank N"},
};

struct OtherCommand {
  std::string_view words, here, note;
};
constexpr OtherCommand kCommands[] = {
    {"serve server api deploy", "chat",
     "there is no server: generate and chat answer here, and export writes a folder that others serve"},
    {"finetune fine_tune sft lora qlora", "train",
     "a recipe says so: model.from names the weights to start from, lora.rank above 0 trains an adapter"},
    {"pretrain fit learn run start", "train", "it takes a recipe; `hyperion init` writes one"},
    {"dpo rlhf ppo grpo", "train", "there is no training on preferences, only on texts, dialogues and images"},
    {"test evaluate evaluation validate val score", "eval", ""},
    {"infer inference predict complete completions sample", "generate", ""},
    {"talk ask interact", "chat", ""},
    {"convert merge save", "export", ""},
    {"quantize quantise", "generate", "--quantize nf4 puts the weights into 4 bits as they are read"},
    {"prepare preprocess tokenize tokenise detokenize dataset inspect verify", "data", ""},
    {"continue restart recover", "resume", ""},
    {"distributed torchrun mpirun parallel accelerate deepspeed spawn", "launch", ""},
    {"ls list ps show status log logs tail rm delete remove rename", "runs", ""},
    {"plot html dashboard tensorboard", "report", ""},
    {"info env check diagnose system nvidia_smi", "doctor", ""},
    {"benchmark perf profile speed time", "bench", ""},
    {"diff", "compare", ""},
    {"models list_models zoo", "presets", ""},
    {"new create setup recipe template", "init", ""},
    {"settings options", "config", ""},
    {"help usage", "--help", ""},
    {"version", "--version", ""},
    {"download pull fetch", "presets",
     "nothing is downloaded: put a Hugging Face folder here, and name it as MODEL or model.from"},
};

struct OtherName {
  std::string_view words, here;
};
constexpr OtherName kSections[] = {
    {"training trainer train_args training_arguments loop", "train"},
    {"optimizer optimiser scheduler lr_scheduler optimization", "optim"},
    {"dataset datasets dataloader", "data"},
    {"peft adapter lora_config", "lora"},
    {"evaluation validation val", "eval"},
    {"distributed fsdp deepspeed", "parallel"},
    {"checkpointing save", "checkpoint"},
    {"network architecture", "model"},
    {"augmentation transforms", "augment"},
};
constexpr OtherName kChoices[] = {
    {"gpu hip rocm nvidia", "cuda"},
    {"float32 float 32 full", "fp32"},
    {"bfloat16", "bf16"},
    {"float16 half 16", "fp16"},
    {"float8", "fp8"},
    {"4bit int4 4 bnb fp4", "nf4"},
    {"adam adamw_torch", "adamw"},
    {"momentum", "sgd"},
    {"eager", "reference"},
    {"compile", "max"},
    {"ndjson json_lines", "jsonl"},
    {"webdataset", "tar"},
    {"const constant_with_warmup", "constant"},
    {"list", "ls"},
    {"delete remove", "rm"},
    {"mv move", "rename"},
    {"log logs follow", "tail"},
    {"info describe status", "show"},
};

bool among(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// "--Learning-Rate=1" -> "learning_rate"
std::string as_listed(std::string_view word) {
  word = word.substr(0, word.find('='));
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string key(word);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

template <class Row, size_t count>
const Row* row_of(const Row (&rows)[count], std::string_view word) {
  const std::string key = as_listed(word);
  if (key.empty()) return nullptr;
  const auto found = std::find_if(rows, rows + count, [&](const Row& row) { return among(row.words, key); });
  return found == rows + count ? nullptr : found;
}

// As a recipe writes it: train.precision = "bf16".
std::string as_toml(std::string_view here) {
  const size_t equals = here.find('=');
  if (equals == here.npos) return std::string(here);
  const auto value = here.substr(equals + 1);
  const char* quote = value == "true" ? "" : "\"";
  return format("{} = {}{}{}", here.substr(0, equals), quote, value, quote);
}

std::string with_note(std::string text, std::string_view note) {
  return note.empty() ? text : format("{} {}", text, note);
}

}  // namespace

std::string setting_hint(std::string_view word) {
  const auto* row = row_of(kSettings, word);
  return row == nullptr ? "" : with_note(format("did you mean {}?", as_toml(row->here)), row->note);
}

std::string flag_hint(std::string_view word, FlagOf command) {
  const std::string key = as_listed(word);
  for (const auto& flag : kFlags)
    if ((flag.command == command || (flag.command == FlagOf::model && command == FlagOf::eval)) &&
        among(flag.words, key))
      return std::string(flag.hint);
  const auto* row = row_of(kSettings, word);
  if (row == nullptr) return {};
  const std::string here = format("--{}{}", row->here, row->here.find('=') == row->here.npos ? "=VALUE" : "");
  switch (command) {
    case FlagOf::settings:
      return with_note(format("did you mean {}?", here), row->note);
    case FlagOf::set:
      return with_note(format("did you mean --set {}?", here.substr(2)), row->note);
    case FlagOf::launch:
      return format("what is trained is told after --: hyperion launch -n N -- train RECIPE {}", here);
    case FlagOf::model:
    case FlagOf::eval:
      break;
  }
  return format("{} is a setting of training; a model is used as it was trained", here);
}

std::string command_hint(std::string_view word) {
  const auto* row = row_of(kCommands, word);
  return row == nullptr ? "" : with_note(format("did you mean `hyperion {}`?", row->here), row->note);
}

std::string section_meant(std::string_view word) {
  const auto* row = row_of(kSections, word);
  return row == nullptr ? "" : std::string(row->here);
}

std::string choice_meant(std::string_view word, const std::vector<std::string>& choices) {
  const auto* row = row_of(kChoices, word);
  if (row != nullptr && std::find(choices.begin(), choices.end(), row->here) != choices.end())
    return std::string(row->here);
  return nearest(word, choices.data(), choices.data() + choices.size());
}

std::vector<std::string> settings_named_for_other_words() {
  std::vector<std::string> names;
  for (const auto& row : kSettings) names.emplace_back(row.here);
  return names;
}

std::vector<std::string> commands_named_for_other_words() {
  std::vector<std::string> names;
  for (const auto& row : kCommands) names.emplace_back(row.here);
  return names;
}

}  // namespace hyperion::base
