#include "hyperion/data/set_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/signals.h"

namespace hyperion::data {
namespace {

using base::CorruptError;
using base::format;

static_assert(std::endian::native == std::endian::little, "the file's numbers are read where they lie");

constexpr std::string_view kMagic = "hyperion set 1\n";
constexpr uint64_t kAlignment = 64, kTailBytes = 32, kMostFooterBytes = uint64_t{64} << 20;
constexpr const char* kAgain = "remove the folder, then make it again: hyperion data prepare RECIPE";
constexpr const char* kPayload = "payload";
constexpr const char* kIndex = "index";
constexpr const char* kHashes = "hashes";

std::string magic_bytes(uint64_t size) { return std::string(kMagic) + std::string(size - kMagic.size(), '\0'); }

uint64_t number_at(std::string_view bytes) {
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view bytes_of(const uint64_t& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

uint64_t block_count(uint64_t bytes) { return (bytes + kSetBlockBytes - 1) / kSetBlockBytes; }

std::string_view block_of(std::string_view bytes, uint64_t block) {
  return bytes.substr(block * kSetBlockBytes, kSetBlockBytes);
}

}  // namespace

SetFile::SetFile(const base::Path& path) : path_(path), file_(path) {
  const std::string_view all = file_.bytes();
  const auto refuse = [&](const std::string& why) { throw CorruptError(format("{} {}", path.string(), why), kAgain); };
  if (!all.starts_with(kMagic)) refuse("is not a prepared set of version 1");
  if (all.size() < kAlignment + kTailBytes || !all.ends_with(magic_bytes(16)))
    refuse(format("ends early: it has {} bytes, and no tail", all.size()));
  const std::string_view tail = all.substr(all.size() - kTailBytes);
  const uint64_t footer_bytes = number_at(tail), footer_hash = number_at(tail.substr(8));
  if (footer_bytes > kMostFooterBytes || footer_bytes > all.size() - kAlignment - kTailBytes)
    refuse(format("has a footer of {} bytes in a file of {}", footer_bytes, all.size()));
  const uint64_t footer_at = all.size() - kTailBytes - footer_bytes;
  const std::string_view text = all.substr(footer_at, footer_bytes);
  if (base::hash_64(text) != footer_hash) refuse("is damaged: its footer does not have its hash");
  digest_ = format("{:016x}", footer_hash);
  const auto footer = base::parse_json(text, path.string());
  std::string hash_of_hashes;
  try {
    hash_of_hashes = footer.at("content").get<std::string>();
    kind_ = footer.at("kind").get<std::string>();
    meta_ = std::make_unique<nlohmann::json>(footer.at("meta"));
    for (const auto& [name, place] : footer.at("sections").items()) {
      const auto offset = place.at(0).get<uint64_t>(), bytes = place.at(1).get<uint64_t>();
      if (offset % kAlignment != 0 || offset > footer_at || bytes > footer_at - offset)
        refuse(format("has its section {} outside the file", name));
      sections_[name] = all.substr(offset, bytes);
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(format("has a footer that cannot be understood: {}", base::json_fault(error)));
  }
  payload_ = section(kPayload), hashes_ = section(kHashes);
  const std::string_view index = section(kIndex);
  const auto hashed = static_cast<uint64_t>(hashes_.data() - all.data());
  if (hashes_.empty() || hashes_.size() != block_count(hashed) * sizeof(uint64_t) ||
      index.size() % sizeof(uint64_t) != 0)
    refuse("has sections whose sizes do not fit together");
  for (const auto& [name, bytes] : sections_)
    if (name != kHashes && bytes.data() + bytes.size() > hashes_.data())
      refuse(format("has its section {} where no hash covers it", name));
  if (format("{:016x}", base::hash_64(hashes_)) != hash_of_hashes)
    refuse("is damaged: its table of hashes does not have its hash");
  checked_ = std::vector<std::atomic<uint64_t>>(block_count(hashed) / 64 + 1);
  ends_ = {reinterpret_cast<const uint64_t*>(index.data()), index.size() / sizeof(uint64_t)};
}
SetFile::~SetFile() = default;

std::string_view SetFile::section(const std::string& name) const {
  const auto found = sections_.find(name);
  return found == sections_.end() ? std::string_view() : found->second;
}

std::pair<uint64_t, uint64_t> SetFile::bounds(int64_t index) const {
  HYPERION_CHECK(index >= 0 && index < records(), "a record's index lies inside its set");
  const auto places = ends_.subspan(std::max<int64_t>(index - 1, 0), index == 0 ? 1 : 2);
  checked({reinterpret_cast<const char*>(places.data()), places.size_bytes()});
  const uint64_t begin = index == 0 ? 0 : places.front(), end = places.back();
  if (begin > end || end > payload_.size())
    throw CorruptError(format("{} is damaged: record {} reaches from byte {} to {} of {}", path_.string(), index, begin,
                              end, payload_.size()),
                       kAgain);
  return {begin, end};
}

std::string_view SetFile::record(int64_t index) const {
  const auto [begin, end] = bounds(index);
  return checked(payload_.substr(begin, end - begin));
}

std::string_view SetFile::checked(std::string_view part) const {
  if (part.empty()) return part;
  const auto from = static_cast<uint64_t>(part.data() - file_.bytes().data());
  for (uint64_t block = from / kSetBlockBytes; block * kSetBlockBytes < from + part.size(); ++block) {
    if ((checked_[block / 64].load(std::memory_order_relaxed) >> block % 64 & 1) != 0) continue;
    check_block(block, format("`hyperion data verify {}` reads all of the set; put the file back, or {}",
                              path_.parent_path().string(), kAgain));
  }
  return part;
}

void SetFile::check_block(uint64_t block, const std::string& hint) const {
  const auto hashed = file_.bytes().substr(0, hashes_.data() - file_.bytes().data());
  if (base::hash_64(block_of(hashed, block)) != number_at(hashes_.substr(block * sizeof(uint64_t))))
    throw CorruptError(format("{} is damaged: block {} (bytes {} to {}: {}) does not have its hash", path_.string(),
                              block, block * kSetBlockBytes,
                              std::min<uint64_t>((block + 1) * kSetBlockBytes, hashed.size()), whose_block(block)),
                       hint);
  checked_[block / 64].fetch_or(uint64_t{1} << block % 64, std::memory_order_relaxed);
}

std::string SetFile::whose_block(uint64_t block) const {
  const char* start = file_.bytes().data();
  const uint64_t from = block * kSetBlockBytes, to = from + kSetBlockBytes;
  std::string names;
  for (const auto& [name, bytes] : sections_) {
    const auto begin = static_cast<uint64_t>(bytes.data() - start);
    if (begin >= to || begin + bytes.size() <= from) continue;
    names += (names.empty() ? "" : ", ") + name;
    if (name != kPayload || ends_.empty()) continue;
    const auto at = [&](uint64_t byte) { return std::upper_bound(ends_.begin(), ends_.end(), byte) - ends_.begin(); };
    const uint64_t first = from > begin ? from - begin : 0;
    names += format(", records {} to {}", at(first), std::min<int64_t>(at(to - begin - 1), records() - 1));
  }
  return names;
}

void SetFile::verify(const std::function<void(uint64_t)>& progress) const {
  const auto hashed = static_cast<uint64_t>(hashes_.data() - file_.bytes().data());
  for (uint64_t block = 0; block < block_count(hashed); ++block) {
    check_block(block, kAgain);
    if (progress) progress(std::min<uint64_t>((block + 1) * kSetBlockBytes, hashed));
  }
  for (int64_t i = 0; i < records(); ++i) bounds(i);
  if (records() > 0 ? ends_.back() != payload_.size() : !payload_.empty())
    throw CorruptError(format("{} is damaged: its records end before its payload", path_.string()));
}

struct SetWriter::Part {
  base::Path path;
  std::unique_ptr<base::WritableFile> file;
  std::string waiting;  // not yet given to the file
  uint64_t bytes = 0;   // with what is waiting
  base::Hasher hasher = {};

  void append(std::string_view more) {
    bytes += more.size();
    hasher.update(more);
    if (waiting.size() + more.size() > kSetBlockBytes) flush();
    if (more.size() > kSetBlockBytes)
      file->append(more);
    else
      waiting += more;
  }
  void flush() {
    file->append(waiting);
    waiting.clear();
  }
};

SetWriter::SetWriter(base::FileSystem& files, base::Path path, const Kept& kept)
    : files_(files), path_(std::move(path)) {
  if (kept.empty()) {
    part(kPayload).append(magic_bytes(kAlignment));
    part(kIndex);
    return;
  }
  for (const auto& [name, safe] : kept) {
    const auto& [bytes, hash] = safe;
    const base::Path place = path_.string() + "." + name;
    const auto refuse = [&](const char* what) {
      throw DamagedPart(format("{} {} what was safe in it", place.string(), what),
                        "remove the folder, and prepare the set anew");
    };
    if (!files_.exists(place) || files_.size(place) < bytes) refuse("is shorter than");
    files_.resize(place, bytes);
    base::Hasher hasher;
    base::read_in_pieces(place, [&](std::string_view piece) {
      base::throw_if_stopped("verifying what is safe");
      hasher.update(piece);
    });
    if (hasher.hex() != hash) refuse("is damaged: it does not have the hash of");
    parts_[name] = {place, files_.open_append(place), {}, bytes, std::move(hasher)};
  }
  records_ = static_cast<int64_t>(parts_.at(kIndex).bytes / sizeof(uint64_t));
  payload_bytes_ = parts_.at(kPayload).bytes - kAlignment;
}
SetWriter::~SetWriter() = default;

SetWriter::Part& SetWriter::part(const std::string& section) {
  const auto [found, is_new] = parts_.try_emplace(section);
  if (is_new) {
    found->second.path = path_.string() + "." + section;
    found->second.file = files_.create(found->second.path);
  }
  return found->second;
}

void SetWriter::add(std::string_view record) {
  part(kPayload).append(record);
  payload_bytes_ += record.size(), ++records_;
  part(kIndex).append(bytes_of(payload_bytes_));
}

void SetWriter::append(const std::string& section, std::string_view bytes) { part(section).append(bytes); }

SetWriter::Kept SetWriter::make_safe() {
  Kept kept;
  for (auto& [name, part] : parts_) {
    part.flush();
    part.file->sync();
    kept[name] = {part.bytes, part.hasher.hex()};
  }
  return kept;
}

void SetWriter::finish(const std::string& kind, const nlohmann::json& meta) {
  make_safe();
  const base::Path whole = parts_.at(kPayload).path;
  auto& out = *parts_.at(kPayload).file;
  uint64_t at = parts_.at(kPayload).bytes;
  nlohmann::json sections;
  sections[kPayload] = {kAlignment, at - kAlignment};
  const auto align = [&] {
    const uint64_t padding = (kAlignment - at % kAlignment) % kAlignment;
    out.append(std::string(padding, '\0'));
    at += padding;
  };
  for (auto& [name, part] : parts_) {
    if (name == kPayload) continue;
    align();
    base::read_in_pieces(part.path, [&](std::string_view piece) { out.append(piece); });
    sections[name] = {at, part.bytes};
    at += part.bytes;
  }
  align();
  base::fault_point("set.finish");
  std::string hashes, block;  // read back, so that a set of any size takes little memory
  base::read_in_pieces(whole, [&](std::string_view piece) {
    while (!piece.empty()) {
      const size_t taken = std::min<size_t>(kSetBlockBytes - block.size(), piece.size());
      block += piece.substr(0, taken);
      piece.remove_prefix(taken);
      if (block.size() == kSetBlockBytes) hashes += bytes_of(base::hash_64(block)), block.clear();
    }
  });
  if (!block.empty()) hashes += bytes_of(base::hash_64(block));
  HYPERION_CHECK(hashes.size() == block_count(at) * sizeof(uint64_t), "all that was written is hashed");
  sections[kHashes] = {at, hashes.size()};
  const std::string footer =
      nlohmann::json{
          {"kind", kind}, {"meta", meta}, {"sections", sections}, {"content", format("{:016x}", base::hash_64(hashes))}}
          .dump();
  const uint64_t footer_bytes = footer.size(), footer_hash = base::hash_64(footer);
  out.append(hashes);
  out.append(footer);
  out.append(std::string(bytes_of(footer_bytes)) + std::string(bytes_of(footer_hash)) + magic_bytes(16));
  out.sync();
  files_.rename(whole, path_);
  for (const auto& [name, part] : parts_)
    if (name != kPayload) files_.remove_all(part.path);
  parts_.clear();
}

}  // namespace hyperion::data
