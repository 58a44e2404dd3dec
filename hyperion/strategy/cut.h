// How the tensors of a model may be cut among the processes of tensor parallelism, and which experts a process of
// expert parallelism holds. Plain data: each family's stands beside its model (models/*_cuts.cc).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/strategy/mesh.h"
#include "hyperion/strategy/placement.h"

namespace hyperion::strategy {

enum class CutKind {
  none,             // all hold it
  row_bias,         // all hold it and one adds it: the bias of a layer whose weight is cut by rows
  column,           // by outputs: each process computes its own of them
  row,              // by inputs: what each computes is a part of a sum
  heads,            // by outputs, in whole heads of queries
  key_value_heads,  // by outputs, in whole heads; where these are fewer than processes, several hold the same one
  vocabulary        // by rows of a table of tokens or of an output over them, as evenly as it goes
};

// The gradients of elements that several processes hold: the same on each, or parts of a sum.
enum class Copies { same, partial };

struct Cut {
  CutKind kind = CutKind::none;
  int64_t dim = 0;                      // along which it is cut
  int64_t units = 0;                    // of a part, which stay whole: heads; 0: single rows or columns
  std::vector<std::string> parts = {};  // equal ones that lie side by side along the dim, each cut by itself
  Copies copies = Copies::same;
};

struct CutRule {
  std::string pattern;  // of whole names of parameters: # is a number, * anything at all
  Cut cut;
  int64_t experts = 0;  // above 0: the last # is which of so many experts it belongs to
};

bool matches(const CutRule& rule, const std::string& name);

struct FoundCut {
  Cut cut;
  int64_t experts = 0, expert = -1;  // of so many, this one's
};
// The cut of a parameter by its name. An adapter's sides (<layer>.lora_A.<adapter>.weight, lora_B) are cut as the
// layer's weight is; tokens that are trained by themselves (<table>.token_adapter...) are held by all. Throws
// ConfigError where no rule matches.
FoundCut cut_of(const std::vector<CutRule>& rules, const std::string& name);

// What process `index` of `size` holds of a tensor of shape `whole`: a box of each part, in their order. Throws
// ConfigError that names the tensor, and the sizes that would do, where it cannot be cut so.
std::vector<Placement> boxes_of(const Cut& cut, const std::string& name, const std::vector<int64_t>& whole,
                                int64_t size, int64_t index);

// The same as one placement, whose tensor has the boxes side by side.
Placement placement_of(const Cut& cut, const std::string& name, const std::vector<int64_t>& whole, int64_t size,
                       int64_t index);

// The processes that hold the same boxes as process `index` of `size`, itself among them: `count` that follow each
// other. Where copies are partial, their gradients are to be added.
struct Sharers {
  int64_t first, count;
};
Sharers sharers_of(const Cut& cut, int64_t size, int64_t index);

// Whether process `index` of `size` holds an expert: each as many, and neighbours together. Throws ConfigError where
// the size does not divide them.
bool holds_expert(int64_t expert, int64_t experts, int64_t size, int64_t index);

// Both together, for one process of a mesh; none: it holds nothing of that tensor.
std::vector<Placement> held_by(const Mesh& mesh, const std::vector<CutRule>& rules, const std::string& name,
                               const std::vector<int64_t>& whole);

}  // namespace hyperion::strategy
