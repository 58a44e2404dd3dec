// What ranks print: kept whole in a folder, rank-N.out and rank-N.err, and shown as asked.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/resilience/ranks.h"

namespace hyperion::resilience {

enum class Show {
  rank0,  // what rank 0 prints, as it is
  all,    // every line of every rank behind its rank: "[3] step 1/10 ..."
  none
};

class RankOutput {
 public:
  // `folder` is made. `out` and `err` are the descriptors to show on.
  RankOutput(base::FileSystem& files, base::Path folder, int world, Show show, int out = 1, int err = 2);
  ~RankOutput();

  // Never throws: a full disk is told of once, and does not end the job.
  void add(int rank, Stream stream, std::string_view bytes);
  // Shows what stands without an end of line. To be called once the rank has ended.
  void finish(int rank);

  // Its error: from the last line that begins with "error:" on, else the last 100 lines of stderr, else of stdout.
  std::string last_words(int rank) const;
  bool has_shown(const std::string& words) const;  // as rank 0's own
  base::Path file(int rank, Stream stream) const;
  std::string kept_text(int rank) const;  // where lies what it printed, in words

 private:
  struct Channel;
  Channel& channel(int rank, Stream stream) const;
  void show(int rank, Channel& channel, std::string_view bytes);

  base::FileSystem& files_;
  base::Path folder_;
  Show show_;
  int descriptors_[2];
  bool told_ = false;  // that a log could not be written
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace hyperion::resilience
