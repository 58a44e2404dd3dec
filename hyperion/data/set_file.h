// The file of a prepared set: records back to back, an index, hashes. docs/format_set.md has the bytes. A reader maps
// it; opening takes the same time whatever its size. What is read is held against its hash first, each block once.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"

namespace hyperion::data {

inline constexpr uint64_t kSetBlockBytes = 1 << 20;

class SetFile {
 public:
  // Throws CorruptError that names the file where it is not whole or not of this version. Hashes the footer and the
  // table of hashes (8 bytes a MiB) alone.
  explicit SetFile(const base::Path& path);
  ~SetFile();

  const base::Path& path() const { return path_; }
  const std::string& kind() const { return kind_; }  // "tokens" or "images"
  const nlohmann::json& meta() const { return *meta_; }
  int64_t records() const { return static_cast<int64_t>(ends_.size()); }
  // Where record `index` begins and ends in the payload, checked against it.
  std::pair<uint64_t, uint64_t> bounds(int64_t index) const;
  std::string_view record(int64_t index) const;
  // Not held against their hashes: give the part that is read to `checked`. Empty where the file has no such section.
  std::string_view payload() const { return payload_; }
  std::string_view section(const std::string& name) const;
  // `part`, which lies in a section, once every block under it has its hash; a block is hashed when it is first asked
  // for. Throws CorruptError that names the block. Safe from several threads.
  std::string_view checked(std::string_view part) const;
  uint64_t bytes() const { return file_.bytes().size(); }
  // Of everything in it, 16 hexadecimal digits: the footer's hash, which holds that of all the others.
  const std::string& digest() const { return digest_; }

  // Reads everything. Throws CorruptError that names the first block whose hash is not its bytes', or the first record
  // whose bounds are none. `progress`: bytes so far.
  void verify(const std::function<void(uint64_t)>& progress = {}) const;

 private:
  void check_block(uint64_t block, const std::string& hint) const;  // marks it as checked
  std::string whose_block(uint64_t block) const;

  base::Path path_;
  base::MappedFile file_;
  std::string kind_, digest_;
  std::unique_ptr<const nlohmann::json> meta_;
  std::map<std::string, std::string_view> sections_;
  std::string_view payload_, hashes_;
  std::span<const uint64_t> ends_;
  mutable std::vector<std::atomic<uint64_t>> checked_;  // a bit a block
};

// What a writer had made safe is something else now.
class DamagedPart : public base::CorruptError {
  using CorruptError::CorruptError;
};

// Writes such a file, so that a killed program can go on where it last said that all is safe: sections grow in files of
// their own beside the path until `finish` puts them together.
class SetWriter {
 public:
  using Kept = std::map<std::string, std::pair<uint64_t, std::string>>;  // bytes of each section, and their hash

  // `kept`: what an earlier writer of this path had made safe; anything beyond it is dropped. Empty: begins anew.
  // Throws DamagedPart where that is not on the disk any more.
  SetWriter(base::FileSystem& files, base::Path path, const Kept& kept = {});
  ~SetWriter();

  void add(std::string_view record);                                // the next record's bytes, whole
  void append(const std::string& section, std::string_view bytes);  // to a section of one's own
  int64_t records() const { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }

  Kept make_safe();  // on the disk when it returns: what a later writer can be given as `kept`
  // Puts the file together under its name. `meta` goes into the footer.
  void finish(const std::string& kind, const nlohmann::json& meta);

 private:
  struct Part;
  Part& part(const std::string& section);

  base::FileSystem& files_;
  base::Path path_;
  std::map<std::string, Part> parts_;
  int64_t records_ = 0;
  uint64_t payload_bytes_ = 0;
};

}  // namespace hyperion::data
