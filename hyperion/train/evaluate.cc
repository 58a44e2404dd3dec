#include "hyperion/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/models/decode.h"

namespace hyperion::train {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(std::min(text.size(), text.find_first_not_of(' ')));
}

}  // namespace

report::EvalRecord evaluate(models::LanguageModel& model, at::Device device, const data::Source& source,
                            const RunConfig& config) {
  base::OperationScope scope("evaluate");
  base::fault_point("train.evaluate");
  at::NoGradGuard no_grad;
  const int64_t length = config.train.length, rows = config.train.batch / config.train.accumulate;
  double loss = 0, right = 0;
  int64_t tokens = 0, sample = 0;
  for (int64_t batch = 0; batch < config.eval.batches && sample < source.samples(); ++batch) {
    base::throw_if_stopped("evaluating");
    const int64_t count = std::min(rows, source.samples() - sample);
    std::vector<int64_t> buffer(count * (length + 1));
    for (int64_t row = 0; row < count; ++row)
      source.read(sample++, std::span(buffer).subspan(row * (length + 1), length + 1));
    const auto all = at::from_blob(buffer.data(), {count, length + 1}, at::kLong).to(device);
    const auto targets = all.narrow(1, 1, length);
    nn::Pass pass;
    pass.reference = config.train.optimize == "reference";
    const auto logits = model.logits(all.narrow(1, 0, length), pass);
    const auto batch_tokens = static_cast<double>(count * length);
    loss += kernels::cross_entropy(logits, targets).item<double>() * batch_tokens;
    right += static_cast<double>(at::argmax(logits, -1).eq(targets).sum().item<int64_t>());
    tokens += count * length;
  }
  report::EvalRecord record;
  record.split = "validation";
  record.loss = loss / static_cast<double>(tokens);
  record.perplexity = std::exp(record.loss);
  record.token_accuracy = right / static_cast<double>(tokens);
  return record;
}

Answers answer_questions(models::LanguageModel& model, at::Device device, const std::vector<data::Question>& questions,
                         const std::function<void(size_t, size_t)>& on_progress) {
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
  options.stop_token = '\n';
  size_t done = 0;
  const auto said = models::decode(model, device, prompts, options, [&](size_t, int64_t token) {
    base::throw_if_stopped("answering questions");
    if (token == options.stop_token && on_progress) on_progress(++done, questions.size());
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
