// What the processes of a multi-rank test train: a model, how it is cut, and what is switched on besides.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hyperion/base/words.h"
#include "hyperion/parallel/processes.h"

namespace hyperion::testing {

// "gpt2 zero=2 accumulate=2 masked=1": a family, then settings.
struct Case {
  std::string text, family;
  std::map<std::string, std::string> settings;
  std::string value(const std::string& key, const std::string& otherwise) const;
  int64_t number(const std::string& key, int64_t otherwise) const;
  std::string layout() const;  // of parallel.layout
  template <class Enum>
  Enum choice(const std::string& key, Enum otherwise) const {
    return base::from_word<Enum>(value(key, base::word_of(otherwise))).value();
  }
};
Case read_case(const std::string& text);

struct Trained {
  std::vector<double> losses, norms;
  double validation = 0;                              // with same_bits: the loss afterwards
  std::string digest;                                 // of all weights, whole, wherever they are
  std::vector<double> largest;                        // in fp8: of each layer's matrices, over all steps
  int64_t weights = 0, gradients = 0, optimizer = 0;  // bytes this rank holds
  double seconds = 0, exposed = 0, under_way = 0;     // of the steps after the first; waited for others, and in all
  std::map<std::string, int64_t> sent, calls;         // bytes and calls of a step, by operation and caller
  std::map<std::string, double> planned;              // the bytes that a plan of the layout says, by the same keys
  double memory_off = 0;                              // of a plan's, as a part: of the rank that is farthest off
  bool recorded = false;                              // as a graph
  std::string routes;                                 // of mixtures: which tokens went to which experts, in all steps
  double route_margin = 1;                            // of one process alone: Routes::margin
  std::vector<int64_t> expert_load;                   // of mixtures: nn::ExpertCounters', of all, at the last step
  int64_t activations = 0;                            // bytes that a forward keeps; where the case says measured=1
  int64_t read = 0;                                   // bytes of the checkpoint that load= names, over all processes
  int64_t model = 0, made = 0;  // bytes: of all weights, and the most that making model and stepper took here
};

// Trains for the case's `steps`, 20 by default, on a batch of 24 shared by the processes.
Trained train_case(const Case& which, parallel::Processes& processes, at::Device device);

}  // namespace hyperion::testing
