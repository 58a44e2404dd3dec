#include "hyperion/analysis/graph_kernels.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "hyperion/analysis/timeline.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/trace_builder.h"

namespace hyperion::analysis {
namespace {

// Device work by begin, as timeline_of() has it in its lanes: by device and stream.
std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> work_by_stream(const trace::Trace& trace) {
  std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> streams;
  for (size_t i = 0; i < trace.size(); ++i)
    if (is_device_work(trace.category(i)) && trace.duration[i] >= 0 && trace.begin[i] != trace::kNoTime)
      streams[{trace.device(i), trace.stream(i)}].push_back(static_cast<uint32_t>(i));
  for (auto& [place, events] : streams)
    std::sort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
      return trace.begin[a] != trace.begin[b] ? trace.begin[a] < trace.begin[b] : a < b;
    });
  return streams;
}

// Of each device work in that order the operation that launched it: the outermost one that is none of autograd's own.
std::vector<uint32_t> operations_of(const trace::Trace& trace) {
  std::unordered_map<int64_t, uint32_t> names;
  for (size_t i = 0; i < trace.size(); ++i)
    if (trace.category(i) == trace::Category::cpu_op && trace.external(i) != trace::kNone)
      names.try_emplace(trace.external(i), trace.name[i]);
  std::vector<uint32_t> operations;
  for (const auto& [place, events] : work_by_stream(trace))
    for (const auto event : events) {
      const auto found = names.find(trace.external(event));
      operations.push_back(found == names.end() ? trace::kNoString : found->second);
    }
  return operations;
}

// Myers' greedy search for the fewest differences: how far each diagonal reached with 0 of them, 1, 2, ...; of d of
// them diagonals -d to d. What lies to the right was left out, what lies below was put in.
using Reached = std::vector<std::vector<int64_t>>;

// Whether the way to this diagonal with the next difference comes from above.
bool from_above(const std::vector<int64_t>& reached, int64_t diagonal) {
  const auto differences = static_cast<int64_t>(reached.size()) / 2 + 1;
  const auto at = [&](int64_t of) { return reached[static_cast<size_t>(of + differences - 1)]; };
  return diagonal == -differences || (diagonal != differences && at(diagonal - 1) < at(diagonal + 1));
}

std::optional<Reached> fewest_differences(const std::vector<uint32_t>& known, const std::vector<uint32_t>& other,
                                          int64_t most) {
  const auto rows = static_cast<int64_t>(known.size()), columns = static_cast<int64_t>(other.size());
  Reached all;
  for (int64_t differences = 0; differences <= most; ++differences) {
    std::vector<int64_t> now(static_cast<size_t>(2 * differences + 1), 0);
    for (int64_t diagonal = -differences; diagonal <= differences; diagonal += 2) {
      int64_t x = 0;
      if (differences > 0) {
        const auto before = [&](int64_t of) { return all.back()[static_cast<size_t>(of + differences - 1)]; };
        x = from_above(all.back(), diagonal) ? before(diagonal + 1) : before(diagonal - 1) + 1;
      }
      while (x < rows && x - diagonal < columns &&
             known[static_cast<size_t>(x)] == other[static_cast<size_t>(x - diagonal)])
        ++x;
      now[static_cast<size_t>(diagonal + differences)] = x;
      if (x < rows || x - diagonal < columns) continue;
      all.push_back(std::move(now));
      return all;
    }
    all.push_back(std::move(now));
  }
  return std::nullopt;
}

// What is left over lies between two that are matched, and is laid beside what lies between these; where nothing does,
// it goes with what follows.
void lay_beside(std::vector<uint32_t>& places, size_t known) {
  for (size_t first = 0; first < places.size(); ++first) {
    if (places[first] != trace::kNoString) continue;
    size_t last = first;
    while (last < places.size() && places[last] == trace::kNoString) ++last;
    const size_t begin = first == 0 ? 0 : places[first - 1] + size_t{1};
    const size_t end = last == places.size() ? known : places[last];
    for (size_t i = first; i < last; ++i)
      places[i] =
          static_cast<uint32_t>(std::min(begin < end ? std::min(begin + (i - first), end - 1) : end, known - 1));
    first = last;
  }
}

}  // namespace

Alignment align(const std::vector<uint32_t>& known, const std::vector<uint32_t>& other, size_t most) {
  Alignment found;
  const auto reached =
      fewest_differences(known, other, static_cast<int64_t>(std::min(most, known.size() + other.size())));
  if (!reached || known.empty()) return found;
  found.places.assign(other.size(), trace::kNoString);
  auto x = static_cast<int64_t>(known.size()), y = static_cast<int64_t>(other.size());
  for (auto differences = static_cast<int64_t>(reached->size()) - 1; differences >= 0; --differences) {
    int64_t from_x = 0, from_y = 0;
    if (differences > 0) {
      const auto& before = (*reached)[static_cast<size_t>(differences - 1)];
      const int64_t diagonal = from_above(before, x - y) ? x - y + 1 : x - y - 1;
      from_x = before[static_cast<size_t>(diagonal + differences - 1)], from_y = from_x - diagonal;
    }
    for (; x > from_x && y > from_y; ++found.alike) found.places[static_cast<size_t>(--y)] = static_cast<uint32_t>(--x);
    x = from_x, y = from_y;
  }
  lay_beside(found.places, known.size());
  return found;
}

void GraphKernels::learn(trace::Trace&& step) {
  const auto operations = operations_of(step);
  const auto timeline = timeline_of(std::move(step));
  std::vector<std::pair<const Piece*, uint32_t>> ran;
  size_t number = 0;
  for (const auto& lane : timeline.lanes) {
    if (!lane.device) continue;
    for (uint32_t p = lane.first; p < lane.last; ++p, ++number)
      ran.emplace_back(&timeline.pieces[p], number < operations.size() ? operations[number] : trace::kNoString);
  }
  std::stable_sort(ran.begin(), ran.end(),
                   [](const auto& a, const auto& b) { return a.first->begin < b.first->begin; });
  Pattern pattern;
  for (const auto& [piece, operation] : ran) {
    const auto block = block_of(timeline.names[piece->layer]);
    pattern.push_back({std::string(timeline.names[piece->name]), std::string(phase_text(piece->phase)),
                       std::string(block.empty() ? std::string_view(kOutsideBlocks) : block),
                       std::string(timeline.names[operation])});
  }
  if (!pattern.empty()) patterns_.push_back(std::move(pattern));
}

std::vector<const GraphKernels::Kernel*> GraphKernels::meaning_of(const trace::Trace& trace,
                                                                  const Order& replay) const {
  constexpr double kLike = 0.75;
  std::vector<const Kernel*> best(replay.size(), nullptr);
  size_t most_alike = 0;
  for (const auto& pattern : patterns_) {
    std::unordered_map<std::string_view, uint32_t> numbers;
    const auto number_of = [&](std::string_view name) {
      return numbers.try_emplace(name, static_cast<uint32_t>(numbers.size())).first->second;
    };
    std::vector<uint32_t> known, other;
    for (const auto& kernel : pattern) known.push_back(number_of(kernel.name));
    for (const auto event : replay) other.push_back(number_of(trace.name_text(event)));
    const auto found = align(known, other);
    if (found.alike <= most_alike || static_cast<double>(found.alike) < kLike * static_cast<double>(replay.size()))
      continue;
    most_alike = found.alike;
    for (size_t i = 0; i < replay.size(); ++i)
      best[i] = found.places[i] == trace::kNoString ? nullptr : &pattern[found.places[i]];
  }
  return best;
}

trace::Trace GraphKernels::tell(trace::Trace&& trace) const {
  std::unordered_map<int64_t, Order> replays;  // by correlation
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto category = trace.category(i);
    if ((category == trace::Category::runtime || category == trace::Category::driver) &&
        is_graph_launch(trace.name_text(i)))
      replays.try_emplace(trace.correlation(i));
  }
  if (patterns_.empty() || replays.empty()) return std::move(trace);
  for (const auto& [stream, events] : work_by_stream(trace))
    for (const auto event : events)
      if (const auto replay = replays.find(trace.correlation(event)); replay != replays.end())
        replay->second.push_back(event);
  std::unordered_map<uint32_t, const Kernel*> meanings;
  for (auto& [correlation, order] : replays) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return trace.begin[a] < trace.begin[b]; });
    const auto meaning = meaning_of(trace, order);
    for (size_t i = 0; i < order.size(); ++i)
      if (meaning[i] != nullptr) meanings[order[i]] = meaning[i];
  }
  trace::TraceBuilder told;
  told.facts() = std::move(trace.facts);
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto& type = trace.types[trace.type[i]];
    const auto& track = trace.tracks[trace.track[i]];
    auto members = trace.fields.text(i);
    if (const auto found = meanings.find(static_cast<uint32_t>(i)); found != meanings.end()) {
      const auto& kernel = *found->second;
      const auto args = trace.args(i);
      const size_t at = args.empty() ? members.npos : members.find(args);
      auto more = base::format(R"("{}": {}, "{}": {}, "{}": {})", kPhaseArgument, quoted(kernel.phase), kLayerArgument,
                               quoted(kernel.layer), kOperationArgument, quoted(kernel.operation));
      if (at == members.npos) {
        members += base::format(R"({}"args": {{{}}})", members.empty() ? "" : ", ", more);
      } else {
        const size_t end = at + args.find_last_of('}');
        members.insert(end, (args.find(':') == args.npos ? "" : ", ") + more);
      }
    }
    told.add({.phase = type.phase,
              .category = type.category_name == trace::kNoString ? std::string_view() : trace.names[type.category_name],
              .name = trace.name_text(i),
              .pid = track.pid,
              .tid = track.tid,
              .begin = trace.begin[i],
              .duration = trace.duration[i],
              .members = members});
  }
  return std::move(told).take();
}

}  // namespace hyperion::analysis
