#include "hyperion/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/group.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/models/decode.h"
#include "hyperion/parallel/data_parallel.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(std::min(text.size(), text.find_first_not_of(' ')));
}

// How often the right class is among the k best.
double among_best(const at::Tensor& logits, const at::Tensor& targets, int64_t k) {
  const auto best = std::get<1>(at::topk(logits, std::min(k, logits.size(-1)), -1));
  return static_cast<double>(best.eq(targets.unsqueeze(-1)).sum().item<int64_t>());
}

}  // namespace

report::EvalRecord evaluate(models::Model& model, at::Device device, const data::Split& split, const RunConfig& config,
                            const Among* among) {
  base::OperationScope scope("evaluate");
  base::fault_point("train.evaluate");
  at::NoGradGuard no_grad;
  const at::ScalarType type = model.parameters().front().tensor.scalar_type();
  const int64_t rows = config.train.batch / config.train.accumulate, samples = validation_samples(split);
  const int64_t ranks = among != nullptr ? among->group.size() : 1, rank = among != nullptr ? among->group.rank() : 0;
  double loss = 0, right = 0, right_of_5 = 0, count = 0;
  int64_t sample = 0;
  for (int64_t batch = 0; batch < config.eval.batches && sample < samples; ++batch) {
    if (ranks == 1) base::throw_if_stopped("evaluating");
    const Batch whole = validation_batch(split, sample, std::min(rows, samples - sample), config);
    sample += whole.rows();
    // Where there are fewer rows than processes, some compute a row that does not count, as all must take part.
    const bool counts = rank < whole.rows();
    const auto part = to_device(counts ? whole.part(rank, ranks) : whole.part(0, whole.rows()), device, type);
    nn::Pass pass;
    pass.reference = config.train.optimize == "reference";
    pass.fused_blocks = !pass.reference && device.is_cuda();
    part.tell(pass);
    if (among != nullptr && among->weights != nullptr) {
      among->weights->begin_pass();
      if (among->weights->weights_are_cut()) pass.around = among->weights;
    }
    const auto logits = model.logits(part.inputs, pass);
    if (among != nullptr && among->weights != nullptr) among->weights->end_pass();
    if (!counts) continue;
    const auto here = static_cast<double>(part.counted_in_all());
    loss += kernels::cross_entropy(logits, part.targets).item<double>() * here;
    right += among_best(logits, part.targets, 1);
    if (!split.validation) right_of_5 += among_best(logits, part.targets, 5);
    count += here;
  }
  if (ranks > 1) {
    const auto sums = at::tensor({loss, right, right_of_5, count}, at::kDouble);
    among->group.all_reduce(sums, "evaluation").wait();
    const auto* values = sums.const_data_ptr<double>();
    loss = values[0], right = values[1], right_of_5 = values[2], count = values[3];
  }
  count = std::max(count, 1.0);
  report::EvalRecord record;
  record.split = "validation";
  record.loss = loss / count;
  if (split.validation) {
    record.perplexity = std::exp(record.loss);
    record.token_accuracy = right / count;
  } else {
    record.top_1 = right / count;
    record.top_5 = right_of_5 / count;
  }
  return record;
}

Answers answer_questions(models::Model& model, at::Device device, const std::vector<data::Question>& questions,
                         const std::function<void(size_t, size_t)>& on_progress) {
  if (questions.empty()) return {};
  base::OperationScope scope("answer_questions");
  base::fault_point("train.answer");
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
    base::throw_if_stopped("answering questions");
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
