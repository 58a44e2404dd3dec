// The links of a job: every rank with every other, one pair at a time, and which of them are not like the rest.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/comm/group.h"

namespace hyperion::doctor {

struct Link {
  int from = 0, to = 0;
  double latency = 0;    // seconds, half of a round trip of one number; the best of some
  double bandwidth = 0;  // bytes a second of a large message until its receipt is back; the best of some
  int64_t wrong = 0;     // numbers that arrived as others
};

// Every ordered pair of ranks, sorted; the same list on all ranks. `bytes`: of a message. Up to 16 ranks one pair at a
// time, if so wished; else in rounds of pairs that have no rank in common. What seems slow is measured up to twice
// more. `progress` is called on every rank after each round.
struct LinkMeasurement {
  comm::Group &group, &control;
  c10::Device device;
  int64_t bytes;
  const std::vector<std::string>& hosts;  // of each rank
  double tolerance;                       // see find_link_faults
  int latency_rounds = 20, bandwidth_rounds = 6;
  bool alone = true;  // one pair at a time, of up to 16 ranks
};
std::vector<Link> measure_links(const LinkMeasurement& how,
                                const std::function<void(int64_t done, int64_t all)>& progress);

enum class LinkFaultKind { wrong, bandwidth, latency };
struct LinkFault {
  LinkFaultKind kind;
  size_t link;       // its place in the list
  double usual = 0;  // of links of its kind
};

// Links within a machine and links between machines are compared each with their own: a link is slow where its
// bandwidth is `tolerance` times below that of the better quarter, or its latency so many times above (and 20 us at
// least). The better quarter, not the middle: one slow rank of three is in four links of six.
std::vector<LinkFault> find_link_faults(const std::vector<Link>& links, const std::vector<std::string>& hosts,
                                        double tolerance);

// A line for each: a rank where all of its links are bad, else the link.
std::vector<std::string> link_fault_texts(const std::vector<LinkFault>& faults, const std::vector<Link>& links,
                                          const std::vector<std::string>& hosts);

// Rounds of pairs: each pair of ranks once, and no rank twice in a round.
std::vector<std::vector<std::pair<int, int>>> pair_rounds(int ranks, bool one_at_a_time);

std::string rate_text(double bytes_per_second);  // "1.25 GB/s"
std::string time_text(double seconds);           // "85.0 us"

}  // namespace hyperion::doctor
