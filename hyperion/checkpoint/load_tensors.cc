// All ranks make the same plan: block by block of the files, who needs which part of it, and which of these reads it.
// They carry it out in rounds, so that no more than a round is on its way at a time.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/together.h"
#include "hyperion/profile/span.h"

namespace hyperion::checkpoint {
namespace {

using base::format;
using strategy::Overlap;
using strategy::Run;
using Piece = OpenedCheckpoint::Piece;

constexpr int64_t kRoundBytes = int64_t{64} << 20;

// By name, what each rank holds of a tensor; no runs: nothing.
using Needs = std::map<std::string, std::vector<std::vector<Run>>>;

std::string needs_text(const std::vector<nn::Parameter>& into) {
  auto list = base::Json::array();
  for (const auto& item : into) {
    const auto& held = item.placement;
    list.push_back({item.name, item.tensor.numel(), held.begin, held.offset, held.size, held.parts, held.dim});
  }
  return list.dump();
}

// Machines whose folders are not one and the same would fill one model from several checkpoints.
void check_step(const std::vector<std::string>& steps) {
  for (size_t rank = 1; rank < steps.size(); ++rank)
    if (steps[rank] != steps[0])
      throw base::Error(
          format("rank 0 finds the checkpoint of step {}, rank {} that of step {}", steps[0], rank, steps[rank]),
          "all ranks must see the same folder of runs");
}

Needs gather_needs(const OpenedCheckpoint& from, const std::vector<nn::Parameter>& into, comm::Group& ranks) {
  Needs needs;
  const auto texts = ranks.gather_text(needs_text(into), "checkpoint");
  for (size_t rank = 0; rank < texts.size(); ++rank)
    for (const auto& item : base::parse_json(texts[rank], "what a rank needs")) {
      const auto name = item.at(0).get<std::string>();
      const strategy::Placement placement{from.shape(name),
                                          item.at(2).get<int64_t>(),
                                          item.at(3).get<std::vector<int64_t>>(),
                                          item.at(4).get<std::vector<int64_t>>(),
                                          item.at(5).get<int64_t>(),
                                          item.at(6).get<int64_t>()};
      auto& by_rank = needs[name];
      by_rank.resize(texts.size());
      by_rank[rank] = strategy::runs_of(placement, item.at(1).get<int64_t>());
    }
  return needs;
}

// Where a tensor of ours is filled: its own memory, or memory on the host from which it is copied in the end.
class Target {
 public:
  explicit Target(const at::Tensor& tensor) : tensor_(tensor) {
    const bool plain = tensor.is_cpu() && tensor.is_contiguous();
    host_ = plain ? tensor.detach() : at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
  }
  char* bytes() const { return static_cast<char*>(host_.mutable_data_ptr()); }
  void finish() const {
    if (!host_.is_alias_of(tensor_)) tensor_.copy_(host_);
  }

 private:
  at::Tensor tensor_, host_;
};

// A block of a file, and what each rank needs of it.
struct Block {
  const Piece* piece;
  int64_t element_bytes;
  int64_t begin, end;  // of its bytes in the stored tensor
  int reader = -1;
  std::vector<std::vector<Overlap>> needs;  // by rank, in elements of the stored tensor
  std::shared_ptr<Target> target;           // ours, where we need it
};

class Loading {
 public:
  Loading(comm::Group& ranks, int64_t all) : ranks_(ranks), assigned_(static_cast<size_t>(ranks.size())), all_(all) {}

  void add(const Piece& piece, const std::vector<std::vector<Run>>& needs, int64_t element_bytes,
           const std::shared_ptr<Target>& target) {
    std::vector<std::vector<Overlap>> left;
    for (const auto& runs : needs) left.push_back(strategy::overlaps_of(piece.runs, runs));
    const auto bytes = static_cast<int64_t>(piece.shard->file().bytes(piece.stored).size());
    for (int64_t begin = 0; begin < bytes; begin += piece.shard->block_bytes()) {
      const int64_t end = std::min(bytes, begin + piece.shard->block_bytes());
      Block block{&piece, element_bytes, begin, end, -1, {}, target};
      for (auto& overlaps : left) block.needs.push_back(take(overlaps, end / element_bytes));
      add(std::move(block));
    }
  }
  // Before a target is let go.
  void finish_with(std::shared_ptr<Target> target) { done_.push_back(std::move(target)); }

  void flush() {
    carry_out();
    for (const auto& target : done_) target->finish();
    done_.clear();
    round_.clear();
    round_bytes_ = 0;
    if (ranks_.rank() == 0) line_.show(planned_, all_);
  }
  const LoadTraffic& traffic() const { return traffic_; }
  const std::string& wrong() const { return wrong_; }

 private:
  // The overlaps before element `end`; what is left of them stays for the next block.
  static std::vector<Overlap> take(std::vector<Overlap>& overlaps, int64_t end) {
    std::vector<Overlap> inside;
    size_t used = 0;
    for (; used < overlaps.size() && overlaps[used].from < end; ++used) {
      Overlap& overlap = overlaps[used];
      const int64_t count = std::min(overlap.count, end - overlap.from);
      inside.push_back({overlap.from, overlap.to, count});
      if (count == overlap.count) continue;
      overlap = {overlap.from + count, overlap.to + count, overlap.count - count};
      break;
    }
    overlaps.erase(overlaps.begin(), overlaps.begin() + static_cast<int64_t>(used));
    return inside;
  }

  // Of those who need most of it the one with the least to read so far.
  void add(Block block) {
    int64_t most = 0;
    for (size_t rank = 0; rank < block.needs.size(); ++rank) {
      int64_t count = 0;
      for (const Overlap& overlap : block.needs[rank]) count += overlap.count;
      if (count == 0 || count < most) continue;
      const bool better = count > most || assigned_[rank] < assigned_[static_cast<size_t>(block.reader)];
      if (better) block.reader = static_cast<int>(rank);
      most = count;
    }
    if (block.reader < 0) return;
    const int64_t bytes = block.end - block.begin;
    assigned_[static_cast<size_t>(block.reader)] += bytes;
    planned_ += bytes, round_bytes_ += bytes;
    round_.push_back(std::move(block));
    if (round_bytes_ >= kRoundBytes) flush();
  }

  // A rank that cannot read a block goes on, so that no other waits for it; in the end all are told.
  const char* read(const Block& block) {
    try {
      block.piece->shard->verify(block.piece->stored, block.begin, block.end);
    } catch (const base::Error& error) {
      if (wrong_.empty()) wrong_ = error.what();
    }
    traffic_.read += block.end - block.begin;
    return block.piece->shard->file().bytes(block.piece->stored).data();
  }

  void carry_out() {
    const int own = ranks_.rank();
    std::vector<std::string> letters(static_cast<size_t>(ranks_.size()));
    std::vector<int64_t> sizes(static_cast<size_t>(ranks_.size()));  // of those that come
    for (const Block& block : round_) {
      if (block.reader != own) {
        for (const Overlap& overlap : block.needs[static_cast<size_t>(own)])
          sizes[static_cast<size_t>(block.reader)] += overlap.count * block.element_bytes;
        continue;
      }
      const char* bytes = read(block);
      for (size_t rank = 0; rank < block.needs.size(); ++rank)
        for (const auto& [from, to, count] : block.needs[rank]) {
          const std::string_view part(bytes + from * block.element_bytes,
                                      static_cast<size_t>(count * block.element_bytes));
          if (static_cast<int>(rank) == own)
            std::memcpy(block.target->bytes() + to * block.element_bytes, part.data(), part.size());
          else
            letters[rank] += part;
        }
    }
    const auto arrived = exchange(letters, sizes);
    std::vector<int64_t> reached(arrived.size());
    for (const Block& block : round_) {
      if (block.reader == own) continue;
      const auto reader = static_cast<size_t>(block.reader);
      for (const auto& [from, to, count] : block.needs[static_cast<size_t>(own)]) {
        const int64_t bytes = count * block.element_bytes;
        std::memcpy(block.target->bytes() + to * block.element_bytes,
                    arrived[reader].const_data_ptr<uint8_t>() + reached[reader], static_cast<size_t>(bytes));
        reached[reader] += bytes;
      }
    }
  }

  std::vector<at::Tensor> exchange(const std::vector<std::string>& letters, const std::vector<int64_t>& sizes) {
    std::vector<at::Tensor> arrived(sizes.size());
    std::vector<comm::Letter> sends, receives;
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      if (!letters[rank].empty()) {
        const auto letter = at::empty({static_cast<int64_t>(letters[rank].size())}, at::kByte);
        std::memcpy(letter.mutable_data_ptr(), letters[rank].data(), letters[rank].size());
        sends.push_back({letter, static_cast<int>(rank)});
        traffic_.sent += letter.numel();
      }
      if (sizes[rank] == 0) continue;
      arrived[rank] = at::empty({sizes[rank]}, at::kByte);
      receives.push_back({arrived[rank], static_cast<int>(rank)});
      traffic_.received += sizes[rank];
    }
    if (!sends.empty() || !receives.empty())
      ranks_.exchange(std::move(sends), std::move(receives), "checkpoint").wait();
    return arrived;
  }

  comm::Group& ranks_;
  std::vector<int64_t> assigned_;  // bytes that each rank reads
  std::vector<Block> round_;
  std::vector<std::shared_ptr<Target>> done_;
  int64_t round_bytes_ = 0, planned_ = 0, all_;
  LoadTraffic traffic_;
  std::string wrong_;
  ReadingLine line_{"reading the checkpoint"};
};

void check_alike(const OpenedCheckpoint& from, const std::vector<nn::Parameter>& into) {
  for (const auto& item : into) {
    const auto& shape = from.shape(item.name);
    const bool same = item.placement.cut() ? shape == item.placement.whole : item.tensor.sizes() == shape;
    if (!same || from.type(item.name) != item.tensor.scalar_type())
      throw base::ConfigError(
          format("{} of {} has another shape or type than this run's", item.name, from.path.string()),
          "the model and precision of a run cannot change on resume");
  }
}

}  // namespace

LoadTraffic load_tensors(const OpenedCheckpoint& from, const std::vector<nn::Parameter>& into, comm::Group& ranks) {
  const at::NoGradGuard no_grad;
  const base::OperationScope scope("checkpoint.load");
  profile::Span span("checkpoint load");
  check_step(together(ranks, "the checkpoint cannot be loaded by ", "", [&] {
    check_alike(from, into);
    return std::to_string(from.step);
  }));
  std::map<std::string, at::Tensor> own;
  for (const auto& item : into)
    HYPERION_CHECK(own.emplace(item.name, item.tensor).second, "a rank holds one part of " + item.name);
  const Needs needs = gather_needs(from, into, ranks);
  int64_t all = 0;
  for (const auto& [name, by_rank] : needs)
    for (const auto& piece : from.entry(name).pieces)
      all += static_cast<int64_t>(piece.shard->file().bytes(piece.stored).size());
  span.add_bytes(all);
  Loading loading(ranks, all);
  for (const auto& [name, by_rank] : needs) {
    const auto& entry = from.entry(name);
    const auto found = own.find(name);
    const auto target = found == own.end() ? nullptr : std::make_shared<Target>(found->second);
    for (const auto& piece : entry.pieces)
      loading.add(piece, by_rank, static_cast<int64_t>(c10::elementSize(entry.type)), target);
    if (target) loading.finish_with(target);
  }
  loading.flush();
  for (const auto& wrong : ranks.gather_text(loading.wrong(), "checkpoint"))
    if (!wrong.empty()) throw base::CorruptError(wrong);
  return loading.traffic();
}

}  // namespace hyperion::checkpoint
