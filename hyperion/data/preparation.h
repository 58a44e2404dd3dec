// The folder of a set while it is prepared: found done, taken up where it was left, or begun; renamed once it is whole.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/data/set_file.h"

namespace hyperion::data {

// What a set is made of: the same key, the same set.
struct PreparedFrom {
  std::vector<base::Path> inputs;
  std::vector<base::Path> tokenizer;  // its files
  // All that changes what comes out, as JSON. "on_bad" does so only where something was left out.
  std::string settings;
};

class Preparation {
 public:
  // Hashes the inputs, with `progress` told of bytes done and in all. Throws ConfigError where `output` is another set
  // or something else, or where another process prepares it.
  Preparation(base::FileSystem& files, base::Path output, const PreparedFrom& from, int threads,
              const std::function<void(uint64_t, uint64_t)>& progress);
  ~Preparation();

  bool done() const { return done_; }  // the set is there already
  const base::Path& output() const { return output_; }
  const base::Path& folder() const { return partial_; }  // where to write
  uint64_t input_bytes() const;
  const nlohmann::json& inputs() const { return *inputs_; }  // path, bytes and xxh3_128 of each

  // What an earlier process had made safe, null where nothing was; and this one's, written atomically.
  const nlohmann::json& journal() const { return *journal_; }
  void write_journal(const nlohmann::json& journal);

  // What writes into the folder, and goes on from the journal. Where what the journal calls safe is damaged, that is
  // said, and it begins anew.
  template <class Output, class... Arguments>
  std::unique_ptr<Output> take_up_in(Arguments&&... arguments) {
    try {
      return std::make_unique<Output>(arguments...);
    } catch (const DamagedPart& damage) {
      begin_anew(damage.what());
    }
    return std::make_unique<Output>(arguments...);
  }

  // The set is whole: writes its record, and gives the folder its name.
  void finish(nlohmann::json record);

 private:
  void take_up(const PreparedFrom& from);
  void begin_anew(const std::string& why);
  bool is_of_this(const nlohmann::json& record, bool left_out) const;
  void check_inputs();

  base::FileSystem& files_;
  base::Path output_, partial_;
  std::string settings_, key_, other_key_;  // other_key_: with the other on_bad
  std::unique_ptr<nlohmann::json> inputs_, journal_;
  std::unique_ptr<base::FileLock> lock_;
  std::vector<std::string> seen_;  // of each input: what it was before it was read
  bool done_ = false;
};

}  // namespace hyperion::data
