#include "hyperion/parallel/pipeline_runner.h"

#include <ATen/ops/empty.h>

#include <deque>
#include <map>
#include <utility>

#include "hyperion/base/error.h"

namespace hyperion::parallel {
namespace {

using strategy::Does;
using strategy::Instruction;
using strategy::Payload;

const char* caller_of(Payload payload) {
  return payload == Payload::hidden_states ? "hidden states" : "hidden gradients";
}

int other(const comm::Group& link) { return 1 - link.rank(); }

// What arrives from one neighbour, in its order, the next one always asked for already.
class Inbox {
 public:
  Inbox(comm::Group* link, const at::TensorOptions& options) : link_(link), options_(options) {}

  void expect(const Instruction& letter) { expected_.push_back(&letter); }

  void ask() {
    if (expected_.empty()) return;
    const auto& letter = *expected_.front();
    expected_.pop_front();
    HYPERION_CHECK(link_ != nullptr && link_->size() == 2, "a letter comes over a link");
    tensor_ = at::empty(letter.shape, options_);
    pending_ = link_->receive(tensor_, other(*link_), 0, caller_of(letter.payload));
  }

  at::Tensor take() {
    pending_.wait();
    auto tensor = std::exchange(tensor_, {});
    ask();
    return tensor;
  }

 private:
  comm::Group* link_;
  at::TensorOptions options_;
  std::deque<const Instruction*> expected_;
  at::Tensor tensor_;
  comm::Pending pending_;
};

class Runner {
 public:
  Runner(PipelineStages& stages, const PipelineLinks& links, const at::TensorOptions& hidden)
      : stages_(stages), links_(links), states_(links.states_in, hidden), gradients_(links.gradients_in, hidden) {}

  std::vector<at::Tensor> run(const std::vector<Instruction>& list) {
    for (const auto& instruction : list)
      if (instruction.does == Does::receive) inbox(instruction.payload).expect(instruction);
    states_.ask(), gradients_.ask();
    for (const auto& instruction : list) step(instruction);
    for (auto& last : last_sent_) last.wait();
    std::vector<at::Tensor> losses;
    for (const auto& [micro_batch, loss] : losses_) losses.push_back(loss);
    return losses;
  }

 private:
  using Piece = std::pair<int64_t, int64_t>;  // stage, micro-batch
  struct Kept {                               // from a forward to its backward
    at::Tensor hidden, given;
  };

  Inbox& inbox(Payload payload) { return payload == Payload::hidden_states ? states_ : gradients_; }

  void step(const Instruction& instruction) {
    const Piece piece = {instruction.stage, instruction.micro_batch};
    switch (instruction.does) {
      case Does::receive: {
        auto& arrived = instruction.payload == Payload::hidden_states ? inputs_ : gradients_of_;
        arrived[piece] = inbox(instruction.payload).take();
        break;
      }
      case Does::forward:
        forward(piece);
        break;
      case Does::backward:
        backward(piece);
        break;
      case Does::send:
        send(instruction, piece);
        break;
      default:  // of other axes, and of the whole step
        break;
    }
  }

  // A neighbour that is this rank itself hands over without wires: what a stage gave is there for the next.
  at::Tensor input_of(const Piece& piece) {
    if (const auto found = inputs_.extract(piece)) return found.mapped();
    const auto before = kept_.find({piece.first - 1, piece.second});
    return before == kept_.end() ? at::Tensor() : before->second.given.detach();
  }

  void forward(const Piece& piece) {
    auto hidden = input_of(piece);
    if (hidden.defined()) hidden.requires_grad_();
    const auto given = stages_.forward(piece.first, piece.second, hidden);
    kept_[piece] = {hidden, given};
  }

  void backward(const Piece& piece) {
    const auto found = kept_.extract(piece);
    HYPERION_CHECK(!found.empty(), "a backward comes after its forward");
    const auto& [hidden, given] = found.mapped();
    at::Tensor gradient;
    if (const auto arrived = gradients_of_.extract(piece)) gradient = arrived.mapped();
    stages_.backward(piece.first, piece.second, given, gradient);
    if (!gradient.defined()) losses_[piece.second] = given.detach();
    if (!hidden.defined()) return;
    const auto next = std::exchange(hidden.mutable_grad(), {});
    HYPERION_CHECK(next.defined(), "a stage depends on what comes into it");
    if (kept_.contains({piece.first - 1, piece.second}))
      gradients_of_[{piece.first - 1, piece.second}] = next;
    else
      to_send_[piece] = next;
  }

  void send(const Instruction& instruction, const Piece& piece) {
    const bool states = instruction.payload == Payload::hidden_states;
    auto* link = states ? links_.states_out : links_.gradients_out;
    HYPERION_CHECK(link != nullptr && link->size() == 2, "a letter goes over a link");
    at::Tensor tensor;
    if (states)
      tensor = kept_.at(piece).given.detach();
    else
      tensor = to_send_.extract(piece).mapped();
    HYPERION_CHECK(tensor.sizes() == at::IntArrayRef(instruction.shape), "what is sent has the shape of the plan");
    last_sent_[states ? 0 : 1] = link->send(tensor.contiguous(), other(*link), 0, caller_of(instruction.payload));
  }

  PipelineStages& stages_;
  PipelineLinks links_;
  Inbox states_, gradients_;
  std::map<Piece, at::Tensor> inputs_, gradients_of_, to_send_;
  std::map<Piece, Kept> kept_;
  std::map<int64_t, at::Tensor> losses_;  // by micro-batch
  comm::Pending last_sent_[2];            // the others of a link have arrived before its last
};

}  // namespace

std::vector<at::Tensor> run_pipeline(const std::vector<strategy::Instruction>& list, PipelineStages& stages,
                                     const PipelineLinks& links, const at::TensorOptions& hidden) {
  return Runner(stages, links, hidden).run(list);
}

}  // namespace hyperion::parallel
