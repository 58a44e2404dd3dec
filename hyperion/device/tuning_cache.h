// Which candidate of several was the fastest for a shape, kept on disk from run to run. The file holds a line of JSON
// an entry, each with a hash of its own: what is damaged is passed over, and measured again. Free of CUDA.
#pragma once
#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::device {

struct TuningKey {
  std::string gpu;      // "NVIDIA H200"
  std::string library;  // "cuBLASLt 130202": what a way says is for this version alone
  std::string what;     // "product 32768x2304x768 bf16 ..."
  auto operator<=>(const TuningKey&) const = default;
};

struct Tuning {
  std::string way;          // an algorithm's bytes in hexadecimal, or a name
  double microseconds = 0;  // what it takes
  double usual = 0;         // what is taken unmeasured
};

// Safe from any thread, and with other processes that keep theirs in the same file.
class TuningCache {
 public:
  // Read when first asked. An empty path: nothing is kept beyond this process.
  explicit TuningCache(base::Path file, base::FileSystem& files = base::real_files());

  std::optional<Tuning> find(const TuningKey& key);
  // Also writes it, together with what others wrote meanwhile. A file that cannot be written is told once, and left.
  void keep(const TuningKey& key, const Tuning& tuning);
  std::map<TuningKey, Tuning> all();
  void clear();  // the file too

  // What this process asked for and found or kept, and whether it was measured here.
  struct Met {
    Tuning tuning;
    bool measured = false;
  };
  std::map<TuningKey, Met> met();

  const base::Path& file() const { return file_; }

 private:
  void read();
  std::map<TuningKey, Tuning> on_disk();
  void write();

  base::Path file_;
  base::FileSystem& files_;
  std::mutex mutex_;
  bool was_read_ = false, told_ = false;
  std::map<TuningKey, Tuning> all_;
  std::map<TuningKey, Met> met_;
};

// Of this user: $XDG_CACHE_HOME/hyperion/tuning.jsonl, else ~/.cache/hyperion/tuning.jsonl.
TuningCache& tuning_cache();

// From here on each new shape of product and of attention is looked up there, else tried in every way there is, and the
// fastest is kept.
void set_tuning(bool on);
bool is_tuning();

}  // namespace hyperion::device
