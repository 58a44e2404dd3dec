// What an instruction of a plan says, and what it sends.
#include <functional>
#include <numeric>

#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::strategy {

using base::format;

int64_t Instruction::bytes() const {
  return shape.empty() ? 0 : std::accumulate(shape.begin(), shape.end(), element, std::multiplies<>());
}

std::string Plan::text(const Instruction& instruction) const {
  std::string out = base::word_of(instruction.does);
  if (instruction.payload != Payload::nothing) out += format(" {}", base::word_of(instruction.payload));
  for (size_t i = 0; i < instruction.shape.size(); ++i) out += format("{}{}", i == 0 ? " " : "x", instruction.shape[i]);
  if (instruction.stage >= 0) out += format(", stage {}", instruction.stage);
  if (instruction.micro_batch >= 0) out += format(", micro-batch {}", instruction.micro_batch);
  if (instruction.peer >= 0)
    out += format(", {} rank {}", instruction.does == Does::send ? "to" : "from", instruction.peer);
  if (instruction.group < 0) return out;
  if (instruction.group >= static_cast<int>(groups.size())) return out + ", in no group";
  const auto& group = groups[static_cast<size_t>(instruction.group)];
  out += format(", {} of ranks", group.name);
  for (const int rank : group.ranks) out += format(" {}", rank);
  return out;
}

double Plan::bytes_sent(const Instruction& instruction) const {
  const auto bytes = static_cast<double>(instruction.bytes());
  if (instruction.does == Does::send || instruction.does == Does::pass_on) return bytes;
  if (!is_collective(instruction.does)) return 0;
  const auto size = static_cast<double>(groups[static_cast<size_t>(instruction.group)].ranks.size());
  return (instruction.does == Does::all_reduce ? 2 : 1) * bytes * (size - 1) / size;
}

}  // namespace hyperion::strategy
