#include "hyperion/doctor/links.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/device/device.h"
#include "hyperion/doctor/collectives.h"

namespace hyperion::doctor {
namespace {

using base::format;

constexpr const char* kLinks = "links";
constexpr int kTag = 1, kTrials = 2, kMostAlone = 16;
constexpr double kLongRound = 0.1;        // seconds: a message that takes longer is sent once
constexpr double kLeastLateness = 20e-6;  // what a scheduler may do to a link that is fine

using base::now;

// One pair of ranks, from the side of one of them.
class PairTest {
 public:
  PairTest(const LinkMeasurement& how, int other)
      : how_(how),
        group_(how.group),
        device_(how.device),
        other_(other),
        word_(at::zeros({1}, at::TensorOptions(at::kFloat).device(how.device))) {
    const int64_t count = std::max<int64_t>(how.bytes / 4, 1);
    own_ = known_values(kSeed, group_.rank(), 0, count).to(device_);
    theirs_ = at::zeros_like(own_);
  }

  void lead(Link& link) {
    link.latency = 1e9;
    for (int i = 0; i < how_.latency_rounds; ++i) link.latency = std::min(link.latency, timed(word_) / 2);
    for (int i = 0; i < how_.bandwidth_rounds; ++i) {
      const double seconds = timed(own_);
      link.bandwidth = std::max(link.bandwidth, static_cast<double>(own_.nbytes()) / seconds);
      const bool last = i + 1 == how_.bandwidth_rounds || seconds > kLongRound;
      word_.fill_(last ? 1 : 0);
      group_.send(word_, other_, kTag, kLinks).wait();
      if (last) return;
    }
  }

  void follow(Link& link) {
    for (int i = 0; i < how_.latency_rounds; ++i) answer(word_);
    const auto right = known_values(kSeed, other_, 0, theirs_.numel()).to(device_);
    do {
      theirs_.zero_();
      answer(theirs_);
      link.wrong += theirs_.ne(right).sum().item<int64_t>();
      group_.receive(word_, other_, kTag, kLinks).wait();
    } while (word_.item<float>() == 0);
  }

 private:
  static constexpr uint64_t kSeed = 7;

  double timed(const at::Tensor& message) {
    device::synchronize(device_);
    const double start = now();
    group_.send(message, other_, kTag, kLinks).wait();
    group_.receive(receipt_, other_, kTag, kLinks).wait();
    device::synchronize(device_);
    return std::max(now() - start, 1e-9);
  }
  void answer(const at::Tensor& place) {
    group_.receive(place, other_, kTag, kLinks).wait();
    group_.send(receipt_, other_, kTag, kLinks).wait();
  }

  const LinkMeasurement& how_;
  comm::Group& group_;
  c10::Device device_;
  int other_;
  at::Tensor word_, own_, theirs_;
  at::Tensor receipt_ = at::zeros({1}, word_.options());
};

// What this rank learned of its two links with another.
void measure_pair(const LinkMeasurement& how, int other, Link& out, Link& in) {
  PairTest test(how, other);
  if (how.group.rank() < other) {
    test.lead(out);
    test.follow(in);
  } else {
    test.follow(in);
    test.lead(out);
  }
}

using Pair = std::pair<int, int>;

void keep_better(Link& known, const Link& again) {
  known.wrong += again.wrong;
  if (again.bandwidth <= 0) return;  // seen from its far end, which does not time it
  known.bandwidth = std::max(known.bandwidth, again.bandwidth);
  known.latency = known.latency > 0 ? std::min(known.latency, again.latency) : again.latency;
}

// Each rank tells what it saw; all add it up in the same order.
void share(comm::Group& control, const std::map<Pair, Link>& seen, std::map<Pair, Link>& all) {
  base::Json list = base::Json::array();
  for (const auto& [place, link] : seen) list.push_back({link.from, link.to, link.latency, link.bandwidth, link.wrong});
  for (const auto& text : control.gather_text(list.dump(), kLinks))
    for (const auto& entry : base::parse_json(text, "what a rank measured")) {
      const Link link{entry.at(0), entry.at(1), entry.at(2), entry.at(3), entry.at(4)};
      const auto [known, fresh] = all.try_emplace({link.from, link.to}, Link{link.from, link.to});
      keep_better(known->second, link);
    }
}

std::vector<Link> listed(const std::map<Pair, Link>& all) {
  std::vector<Link> list;
  for (const auto& [place, link] : all) list.push_back(link);
  return list;
}

// The better quarter: of bandwidths the high ones.
double better_quarter(std::vector<double> values, bool high) {
  std::sort(values.begin(), values.end());
  if (high) std::reverse(values.begin(), values.end());
  return values[(values.size() - 1) / 4];
}

struct Usual {
  double latency = 0, bandwidth = 0;
};

Usual usual_of(const std::vector<Link>& links) {
  std::vector<double> latencies, bandwidths;
  for (const auto& link : links) latencies.push_back(link.latency), bandwidths.push_back(link.bandwidth);
  return {better_quarter(latencies, false), better_quarter(bandwidths, true)};
}

std::string value_text(LinkFaultKind kind, const Link& link) {
  return kind == LinkFaultKind::bandwidth ? rate_text(link.bandwidth)
         : kind == LinkFaultKind::latency ? time_text(link.latency)
                                          : base::with_commas(link.wrong) + " wrong numbers";
}

std::string named(int rank, const std::vector<std::string>& hosts) {
  return format("rank {} ({})", rank, hosts[static_cast<size_t>(rank)]);
}

std::string fault_text(const std::string& where, const LinkFault& fault, const Link& link) {
  const auto value = value_text(fault.kind, link);
  if (fault.kind == LinkFaultKind::wrong) return format("{}: {}", where, value);
  const bool slow = fault.kind == LinkFaultKind::bandwidth;
  return format("{}: {} {}, where others have {}", where, slow ? "bandwidth" : "latency", value,
                slow ? rate_text(fault.usual) : time_text(fault.usual));
}

// Faults of one kind, by their place in `links`; those told of a whole rank are taken out.
class RankFaults {
 public:
  RankFaults(const std::vector<Link>& links, std::map<size_t, LinkFault> left, int ranks)
      : links_(links), left_(std::move(left)), ranks_(ranks) {}

  bool all(int rank, bool out, bool in) const {
    int found = 0;
    for (const auto& [place, fault] : left_) found += touches(place, rank, out, in);
    return ranks_ > 2 && found == (ranks_ - 1) * (out + in);
  }
  // The worst of them.
  LinkFault take(int rank, bool out, bool in) {
    std::vector<LinkFault> taken;
    for (auto at = left_.begin(); at != left_.end();)
      if (touches(at->first, rank, out, in)) {
        taken.push_back(at->second);
        at = left_.erase(at);
      } else {
        ++at;
      }
    return *std::min_element(taken.begin(), taken.end(), [&](const LinkFault& a, const LinkFault& b) {
      const Link &x = links_[a.link], &y = links_[b.link];
      return a.kind == LinkFaultKind::bandwidth ? x.bandwidth < y.bandwidth
             : a.kind == LinkFaultKind::latency ? x.latency > y.latency
                                                : x.wrong > y.wrong;
    });
  }
  const std::map<size_t, LinkFault>& left() const { return left_; }

 private:
  bool touches(size_t place, int rank, bool out, bool in) const {
    return (out && links_[place].from == rank) || (in && links_[place].to == rank);
  }
  const std::vector<Link>& links_;
  std::map<size_t, LinkFault> left_;
  int ranks_;
};

}  // namespace

std::string rate_text(double rate) {
  return rate >= 1e9 ? format("{:.2f} GB/s", rate / 1e9) : format("{:.1f} MB/s", rate / 1e6);
}
std::string time_text(double seconds) {
  return seconds >= 1e-2 ? format("{:.1f} ms", seconds * 1e3) : format("{:.1f} us", seconds * 1e6);
}

std::vector<std::vector<std::pair<int, int>>> pair_rounds(int ranks, bool one_at_a_time) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  if (one_at_a_time) {
    for (int a = 0; a < ranks; ++a)
      for (int b = a + 1; b < ranks; ++b) rounds.push_back({{a, b}});
    return rounds;
  }
  // One stands still, the others move around it; with an odd number the one opposite of nobody rests.
  const int seats = ranks + ranks % 2;
  for (int round = 0; round + 1 < seats; ++round) {
    rounds.emplace_back();
    const auto at = [&](int seat) { return seat == 0 ? 0 : (seat - 1 + round) % (seats - 1) + 1; };
    for (int i = 0; i < seats / 2; ++i) {
      const auto [a, b] = std::minmax({at(i), at(seats - 1 - i)});
      if (b < ranks) rounds.back().emplace_back(a, b);
    }
  }
  return rounds;
}

std::vector<Link> measure_links(const LinkMeasurement& how,
                                const std::function<void(int64_t done, int64_t all)>& progress) {
  comm::Group &group = how.group, &control = how.control;
  std::map<Pair, Link> all;
  const int rank = group.rank();
  const auto measure = [&](const std::vector<std::vector<std::pair<int, int>>>& rounds) {
    std::map<Pair, Link> seen;
    int64_t done = 0;
    for (const auto& round : rounds) {
      for (const auto& [a, b] : round)
        if (rank == a || rank == b) {
          const int other = rank == a ? b : a;
          Link out{rank, other}, in{other, rank};
          measure_pair(how, other, out, in);
          seen[{rank, other}] = out, seen[{other, rank}] = in;
        }
      control.barrier(kLinks).wait();
      progress(++done, static_cast<int64_t>(rounds.size()));
    }
    share(control, seen, all);
  };
  measure(pair_rounds(group.size(), how.alone && group.size() <= kMostAlone));
  auto links = listed(all);
  // What is slow by accident is not slow each time.
  for (int trial = 0; trial < kTrials; ++trial) {
    std::set<std::pair<int, int>> again;
    for (const auto& fault : find_link_faults(links, how.hosts, how.tolerance)) {
      const auto [a, b] = std::minmax(links[fault.link].from, links[fault.link].to);
      if (fault.kind != LinkFaultKind::wrong) again.emplace(a, b);
    }
    if (again.empty()) break;
    std::vector<std::vector<std::pair<int, int>>> rounds;
    for (const auto& pair : again) rounds.push_back({pair});
    measure(rounds);
    links = listed(all);
  }
  return links;
}

std::vector<LinkFault> find_link_faults(const std::vector<Link>& links, const std::vector<std::string>& hosts,
                                        double tolerance) {
  std::map<bool, std::vector<Link>> kinds;
  const auto inside = [&](const Link& link) {
    return hosts[static_cast<size_t>(link.from)] == hosts[static_cast<size_t>(link.to)];
  };
  for (const auto& link : links) kinds[inside(link)].push_back(link);
  std::map<bool, Usual> usual;
  for (const auto& [kind, members] : kinds) usual[kind] = usual_of(members);
  std::vector<LinkFault> faults;
  for (size_t i = 0; i < links.size(); ++i) {
    const auto& [latency, bandwidth] = usual.at(inside(links[i]));
    if (links[i].wrong > 0) faults.push_back({LinkFaultKind::wrong, i});
    if (links[i].bandwidth * tolerance < bandwidth) faults.push_back({LinkFaultKind::bandwidth, i, bandwidth});
    if (links[i].latency > tolerance * latency && links[i].latency > latency + kLeastLateness)
      faults.push_back({LinkFaultKind::latency, i, latency});
  }
  return faults;
}

std::vector<std::string> link_fault_texts(const std::vector<LinkFault>& faults, const std::vector<Link>& links,
                                          const std::vector<std::string>& hosts) {
  const int ranks = static_cast<int>(hosts.size());
  std::vector<std::string> texts;
  for (const auto kind : {LinkFaultKind::wrong, LinkFaultKind::bandwidth, LinkFaultKind::latency}) {
    std::map<size_t, LinkFault> own;
    for (const auto& fault : faults)
      if (fault.kind == kind) own.emplace(fault.link, fault);
    RankFaults found(links, std::move(own), ranks);
    const auto tell_of_ranks = [&](bool out, bool in, const char* pattern_before, const char* pattern_after) {
      for (int rank = 0; rank < ranks; ++rank) {
        if (!found.all(rank, out, in)) continue;
        const auto worst = found.take(rank, out, in);
        texts.push_back(
            fault_text(format("{}{}{}", pattern_before, named(rank, hosts), pattern_after), worst, links[worst.link]));
      }
    };
    tell_of_ranks(true, true, "", " from and to every other rank");
    tell_of_ranks(true, false, "", " to every other rank");
    tell_of_ranks(false, true, "every other rank to ", "");
    for (const auto& [place, fault] : found.left())
      texts.push_back(fault_text(format("{} to {}", named(links[place].from, hosts), named(links[place].to, hosts)),
                                 fault, links[place]));
  }
  return texts;
}

}  // namespace hyperion::doctor
