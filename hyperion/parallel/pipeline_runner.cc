#include "hyperion/parallel/pipeline_runner.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/words.h"
#include "hyperion/profile/span.h"

namespace hyperion::parallel {
namespace {

using strategy::Does;
using strategy::Instruction;
using strategy::Payload;

const char* caller_of(Payload payload) {
  return payload == Payload::hidden_states ? "hidden states" : "hidden gradients";
}

int other(const comm::Group& link) { return 1 - link.rank(); }

// Over which one of these passes.
comm::Group* link_of(const PipelineLinks& links, const Instruction& letter) {
  const auto& own = links.of(letter.stage);
  const bool states = letter.payload == Payload::hidden_states;
  return letter.does == Does::send ? (states ? own.states_out : own.gradients_out)
                                   : (states ? own.states_in : own.gradients_in);
}

// What arrives from one neighbour, in its order, the next one always asked for already.
class Inbox {
 public:
  Inbox(comm::Group* link, const at::TensorOptions& options, int64_t beside)
      : link_(link), options_(options), beside_(beside) {
    HYPERION_CHECK(link_ != nullptr && link_->size() == 2, "a letter comes over a link");
  }

  void expect(const Instruction& letter) { expected_.push_back(&letter); }

  void ask() {
    if (expected_.empty()) return;
    const auto& letter = *expected_.front();
    expected_.pop_front();
    next_.states = at::empty(letter.shape, options_);
    pending_ = link_->receive(next_.states, other(*link_), 0, caller_of(letter.payload));
    if (beside_ == 0) return;
    next_.beside = at::empty({beside_}, options_.dtype(at::kFloat));
    pending_ = link_->receive(next_.beside, other(*link_), 0, caller_of(letter.payload));  // which comes behind
  }

  StageTensors take() {
    pending_.wait();
    auto tensors = std::exchange(next_, {});
    ask();
    return tensors;
  }

 private:
  comm::Group* link_;
  at::TensorOptions options_;
  int64_t beside_;
  std::deque<const Instruction*> expected_;
  StageTensors next_;
  comm::Pending pending_;
};

class Runner {
 public:
  Runner(PipelineStages& stages, const PipelineLinks& links, const at::TensorOptions& hidden, int64_t beside,
         PipelineTimes* times)
      : stages_(stages), links_(links), times_(times), hidden_(hidden), beside_(beside) {}

  std::vector<at::Tensor> run(const std::vector<Instruction>& list) {
    for (const auto& instruction : list) {
      if (instruction.does == Does::receive) inbox(instruction).expect(instruction);
      shared_ = shared_ || instruction.does == Does::receive || instruction.does == Does::send;
    }
    for (auto& [link, letters] : inboxes_) letters.ask();
    for (size_t i = 0; i < list.size(); ++i) {
      if (strategy::computes(list[i].does))
        compute(list[i], i);
      else
        step(list[i]);
    }
    for (auto& [link, last] : last_sent_) last.wait();
    std::vector<at::Tensor> losses;
    for (const auto& [micro_batch, loss] : losses_) losses.push_back(loss);
    return losses;
  }

 private:
  using Piece = std::pair<int64_t, int64_t>;  // stage, micro-batch
  struct Kept {                               // from a forward to its backward
    StageTensors hidden, given;
  };

  Inbox& inbox(const Instruction& letter) {
    auto* link = link_of(links_, letter);
    return inboxes_.try_emplace(link, link, hidden_, beside_).first->second;
  }

  void compute(const Instruction& instruction, size_t place) {
    std::optional<profile::Span> span;
    if (shared_) {
      span.emplace("stage", base::word_of(instruction.does));
      span->set_piece(instruction.stage, instruction.micro_batch);
    }
    if (times_ != nullptr) times_->start(place);
    step(instruction);
    if (times_ != nullptr) times_->stop();
  }

  void step(const Instruction& instruction) {
    const Piece piece = {instruction.stage, instruction.micro_batch};
    switch (instruction.does) {
      case Does::receive: {
        auto& arrived = instruction.payload == Payload::hidden_states ? inputs_ : gradients_of_;
        arrived[piece] = inbox(instruction).take();
        break;
      }
      case Does::forward:
        forward(piece);
        break;
      case Does::backward:
        backward(piece);
        stages_.backward_weights(piece.first, piece.second);
        break;
      case Does::backward_input:
        backward(piece);
        break;
      case Does::backward_weights:
        stages_.backward_weights(piece.first, piece.second);
        break;
      case Does::send:
        send(instruction, piece);
        break;
      default:  // of other axes, and of the whole step
        break;
    }
  }

  static StageTensors apart(const StageTensors& given) {  // from the graph that made them
    return {given.states.detach(), given.beside.defined() ? given.beside.detach() : at::Tensor()};
  }

  // A neighbour that is this rank itself hands over without wires: what a stage gave is there for the next.
  StageTensors input_of(const Piece& piece) {
    if (const auto found = inputs_.extract(piece)) return found.mapped();
    const auto before = kept_.find({piece.first - 1, piece.second});
    return before == kept_.end() ? StageTensors() : apart(before->second.given);
  }

  void forward(const Piece& piece) {
    auto hidden = input_of(piece);
    if (hidden.states.defined()) hidden.states.requires_grad_();
    if (hidden.beside.defined()) hidden.beside.requires_grad_();
    const auto given = stages_.forward(piece.first, piece.second, hidden);
    kept_[piece] = {hidden, given};
  }

  void backward(const Piece& piece) {
    const auto found = kept_.extract(piece);
    HYPERION_CHECK(!found.empty(), "a backward comes after its forward");
    const auto& [hidden, given] = found.mapped();
    StageTensors gradient;
    if (const auto arrived = gradients_of_.extract(piece)) gradient = arrived.mapped();
    stages_.backward(piece.first, piece.second, given, gradient);
    if (!gradient.states.defined()) losses_[piece.second] = given.states.detach();
    if (!hidden.states.defined()) return;
    StageTensors next{std::exchange(hidden.states.mutable_grad(), {})};
    HYPERION_CHECK(next.states.defined(), "a stage depends on what comes into it");
    if (hidden.beside.defined()) next.beside = std::exchange(hidden.beside.mutable_grad(), {});
    if (hidden.beside.defined() && !next.beside.defined()) next.beside = at::zeros_like(hidden.beside);
    if (kept_.contains({piece.first - 1, piece.second}))
      gradients_of_[{piece.first - 1, piece.second}] = next;
    else
      to_send_[piece] = next;
  }

  void send(const Instruction& instruction, const Piece& piece) {
    const bool states = instruction.payload == Payload::hidden_states;
    auto* link = link_of(links_, instruction);
    HYPERION_CHECK(link != nullptr && link->size() == 2, "a letter goes over a link");
    const auto tensors = states ? apart(kept_.at(piece).given) : to_send_.extract(piece).mapped();
    HYPERION_CHECK(tensors.states.sizes() == at::IntArrayRef(instruction.shape),
                   "what is sent has the shape of the plan");
    auto& last = last_sent_[link];
    last = link->send(tensors.states.contiguous(), other(*link), 0, caller_of(instruction.payload));
    if (tensors.beside.defined())
      last = link->send(tensors.beside.contiguous(), other(*link), 0, caller_of(instruction.payload));
  }

  PipelineStages& stages_;
  PipelineLinks links_;
  PipelineTimes* times_;
  at::TensorOptions hidden_;
  int64_t beside_;
  bool shared_ = false;  // other processes have stages too
  std::map<comm::Group*, Inbox> inboxes_;
  std::map<Piece, StageTensors> inputs_, gradients_of_, to_send_;
  std::map<Piece, Kept> kept_;
  std::map<int64_t, at::Tensor> losses_;             // by micro-batch
  std::map<comm::Group*, comm::Pending> last_sent_;  // the others of a link have arrived before its last
};

}  // namespace

std::vector<at::Tensor> run_pipeline(const std::vector<strategy::Instruction>& list, PipelineStages& stages,
                                     const PipelineLinks& links, const at::TensorOptions& hidden, int64_t beside,
                                     PipelineTimes* times) {
  return Runner(stages, links, hidden, beside, times).run(list);
}

}  // namespace hyperion::parallel
