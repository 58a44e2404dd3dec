#include "hyperion/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/group.h"
#include "hyperion/data/images.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/models/decode.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/fused_blocks.h"

namespace hyperion::train {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(std::min(text.size(), text.find_first_not_of(' ')));
}

// Rows of one forward, fixed by model and batch alone: products of another size may round otherwise. No more than a
// batch has, and few enough for a model that must train on parts of its batches.
int64_t rows_at_once(const strategy::ModelShape& shape, const data::Split& split, const RunConfig& config) {
  constexpr int64_t kTokens = 8192, kLogits = 1 << 28, kPatch = 256;
  int64_t tokens = config.train.length;
  if (!split.validation) {
    const auto image = split.validation_images->shape();
    tokens = std::max<int64_t>(1, image.height * image.width / kPatch);
  }
  const int64_t logits = tokens * std::max<int64_t>(1, shape.vocabulary);
  return std::clamp<int64_t>(std::min(kTokens / tokens, kLogits / logits), 1, config.train.batch);
}

// How often the right class is among the k best.
at::Tensor among_best(const at::Tensor& logits, const at::Tensor& targets, int64_t k) {
  return std::get<1>(at::topk(logits, std::min(k, logits.size(-1)), -1)).eq(targets.unsqueeze(-1)).sum();
}

// Sums over some rows, fp64 [4] on their device: loss, right at first, right among five, counted.
at::Tensor sums_of(models::Model& model, const Batch& batch, const RunConfig& config,
                   parallel::TrainedWeights* weights) {
  nn::Pass pass;
  pass.reference = config.train.optimize == Optimize::reference;
  pass.fused_blocks = fuses_blocks(config.train.optimize, batch.inputs.is_cuda());
  batch.apply_to(pass);
  if (weights != nullptr) weights->begin_pass(), pass.block_hook = weights->block_hook();
  const auto logits = model.logits(batch.inputs, pass);
  if (weights != nullptr) weights->end_pass();
  if (!logits.defined()) return at::zeros({4}, batch.inputs.options().dtype(at::kDouble));
  const bool images = batch.targets.dim() == 1;
  const auto counted = static_cast<double>(batch.counted_in_all());
  const auto loss = kernels::cross_entropy(logits, batch.targets).to(at::kDouble).mul(counted);
  const auto right = among_best(logits, batch.targets, 1).to(at::kDouble);
  const auto right_of_5 = images ? among_best(logits, batch.targets, 5).to(at::kDouble) : at::zeros_like(right);
  return at::stack({loss, right, right_of_5, at::full_like(right, counted)});
}

}  // namespace

Evaluation evaluate(models::Model& model, at::Device device, const data::Split& split, const RunConfig& config,
                    const EvalRanks* among) {
  base::OperationScope scope("evaluate");
  base::fault_point("train.evaluate");
  at::NoGradGuard no_grad;
  const at::ScalarType type = model.parameters().front().tensor.scalar_type();
  const int64_t samples = std::min(validation_samples(split), config.eval.batches * config.train.batch);
  const int64_t rows = rows_at_once(model.shape(config.train.length), split, config);
  const int64_t parts = (samples + rows - 1) / rows;
  const auto [rank, ranks] = among != nullptr ? among->share : DataShard{};
  const bool several = among != nullptr && among->group.size() > 1;
  // By part; those of other ranks stay zero, so that adding up what all ranks have rounds nothing.
  const auto table = at::zeros({parts, 4}, at::TensorOptions(device).dtype(at::kDouble));
  for (int64_t first = 0; first < parts; first += ranks) {
    if (!several) base::throw_if_stopped("evaluating");
    // Where fewer parts than processes are left, some compute one that does not count, as all must take part.
    const int64_t part = std::min(first + rank, parts - 1), sample = part * rows;
    const Batch batch = validation_batch(split, sample, std::min(rows, samples - sample), config);
    const auto sums =
        sums_of(model, to_device(batch, device, type), config, among != nullptr ? among->weights : nullptr);
    if (part == first + rank) table[part].copy_(sums);
  }
  const auto known = table.cpu();
  if (several) among->group.all_reduce(known, "evaluation").wait();
  double loss = 0, right = 0, right_of_5 = 0, count = 0;
  for (const auto *sums = known.const_data_ptr<double>(), *end = sums + known.numel(); sums != end; sums += 4)
    loss += sums[0], right += sums[1], right_of_5 += sums[2], count += sums[3];
  Evaluation record;
  record.counted = std::llround(count);
  count = std::max(count, 1.0);
  record.split = "validation";
  record.loss = loss / count;
  if (split.validation) {
    record.perplexity = std::exp(record.loss);
    record.token_accuracy = right / count;
  } else {
    record.top_1 = right / count;
    if (model.shape(config.train.length).vocabulary > 5) record.top_5 = right_of_5 / count;
  }
  return record;
}

Answers answer_questions(models::Model& model, at::Device device, const std::vector<data::Question>& questions,
                         const std::function<void(size_t, size_t)>& on_progress, bool stoppable) {
  if (questions.empty()) return {};
  base::OperationScope scope("answer_questions");
  if (base::fault_point("train.answer") == base::Fault::memory) throw std::bad_alloc();
  std::vector<models::Tokens> prompts;
  size_t longest = 0;
  for (const auto& question : questions) {
    prompts.emplace_back();
    for (const char c : question.prompt) prompts.back().push_back(static_cast<unsigned char>(c));
    longest = std::max(longest, question.answer.size());
  }
  models::DecodeOptions options;
  options.new_tokens = static_cast<int64_t>(longest) + 8;  // room to be wrong in
  options.stop_tokens = {'\n'};
  size_t done = 0;
  const auto said = models::decode(model, device, prompts, options, [&](size_t, int64_t token) {
    if (stoppable) base::throw_if_stopped("answering questions");
    if (token == '\n' && on_progress) on_progress(++done, questions.size());
    return true;
  });
  Answers answers;
  size_t right = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    std::string text;
    for (const int64_t token : said[i]) text += static_cast<char>(token);
    const bool correct = text == questions[i].answer;
    right += correct;
    answers.samples.push_back({questions[i].prompt, trimmed(text), trimmed(questions[i].answer), correct});
  }
  answers.right = questions.empty() ? 0 : static_cast<double>(right) / static_cast<double>(questions.size());
  return answers;
}

namespace {

// A model may say any byte; a terminal should not have to obey it.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += base::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

std::string sample_lines(const std::vector<report::Sample>& samples, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(most, samples.size()); ++i) {
    const auto& sample = samples[i];
    const bool right = sample.right.value_or(true);
    out += base::format("  {:<9} {}{}\n", sample.question, printable(sample.answer),
                        right ? "" : base::format("   (wrong; {})", sample.expected));
  }
  return out;
}

}  // namespace hyperion::train
