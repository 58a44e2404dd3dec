#include "hyperion/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"

namespace hyperion::checkpoint {
namespace {

using base::CorruptError;
using base::format;
using nlohmann::ordered_json;

constexpr uint64_t kMostBlockBytes = uint64_t{1} << 40;
constexpr uint64_t kBlockUnit = 16;  // so that no element is cut

// The last member, of fixed length, so that the bytes it covers are known before the JSON is read.
std::string checksum_tail(std::string_view body) {
  return format(",\n  \"checksum\": \"{}\"\n}}\n", base::hash_hex(body));
}

std::string_view checked_body(std::string_view text, const std::string& place) {
  static const size_t tail_bytes = checksum_tail("").size();
  if (text.size() <= tail_bytes) throw CorruptError(format("{} is cut short ({} bytes)", place, text.size()));
  const std::string_view body = text.substr(0, text.size() - tail_bytes);
  if (text.substr(body.size()) != checksum_tail(body))
    throw CorruptError(format("{} does not match its own checksum", place));
  return body;
}

bool is_hash(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The JSON library would turn -1 or 1.5 into a count without a word.
uint64_t read_count(const base::Json& json, const char* name, const std::string& place) {
  const base::Json& count = json.at(name);
  if (!count.is_number_unsigned() || count.get<uint64_t>() > INT64_MAX)
    throw CorruptError(format("{} has a {} that is not a count", place, name));
  return count.get<uint64_t>();
}

FileHashes read_hashes(const base::Json& json, uint64_t format_number, const std::string& place) {
  FileHashes hashes;
  hashes.bytes = hashes.header_bytes = read_count(json, "bytes", place);
  hashes.header = json.at("xxh3_128").get<std::string>();
  if (format_number == kOldestFormat) return hashes;
  hashes.header_bytes = read_count(json, "header_bytes", place);
  hashes.block_bytes = read_count(json, "block_bytes", place);
  hashes.blocks = json.at("blocks").get<std::vector<std::string>>();
  if (hashes.header_bytes > hashes.bytes) throw CorruptError(place + " lists a header longer than its file");
  if (hashes.block_bytes == 0 || hashes.block_bytes % kBlockUnit != 0 || hashes.block_bytes > kMostBlockBytes)
    throw CorruptError(base::format("{} has blocks of {} bytes, which cut elements", place, hashes.block_bytes));
  return hashes;
}

ManifestFile read_file(const base::Json& json, uint64_t format_number, const std::string& place) {
  ManifestFile file{json.at("name").get<std::string>(), read_hashes(json, format_number, place)};
  // A manifest may only speak of files beside it.
  if (file.name.empty() || file.name.front() == '.' ||
      file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    throw CorruptError(format("{} lists a file \"{}\" that is not in its folder", place, file.name));
  const auto& blocks = file.hashes.blocks;
  if (!is_hash(file.hashes.header) || !std::all_of(blocks.begin(), blocks.end(), is_hash))
    throw CorruptError(format("{} has no hash for {}", place, file.name));
  return file;
}

Manifest read_members(const base::Json& json, const std::string& place) {
  const uint64_t found = read_count(json, "format", place);
  if (found < kOldestFormat || found > kFormat)
    throw CorruptError(
        format("{} is of format {}, this program reads formats {} to {}", place, found, kOldestFormat, kFormat),
        "load it with the version that wrote it");
  Manifest manifest{static_cast<int64_t>(read_count(json, "step", place)),
                    json.at("created").get<std::string>(),
                    json.at("version").get<std::string>(),
                    {},
                    json.at("state").dump(),
                    found};
  if (!json.at("state").is_object()) throw CorruptError(format("{} has a state that is not an object", place));
  std::set<std::string> names;
  for (const base::Json& file : json.at("files")) {
    manifest.files.push_back(read_file(file, found, place));
    if (!names.insert(manifest.files.back().name).second)
      throw CorruptError(format("{} lists {} twice", place, manifest.files.back().name));
  }
  return manifest;
}

ordered_json file_json(const ManifestFile& file, uint64_t format_number) {
  const FileHashes& hashes = file.hashes;
  ordered_json json = {{"name", file.name}, {"bytes", hashes.bytes}};
  if (format_number > kOldestFormat) json["header_bytes"] = hashes.header_bytes;
  json["xxh3_128"] = hashes.header;
  if (format_number == kOldestFormat) return json;
  json["block_bytes"] = hashes.block_bytes;
  json["blocks"] = hashes.blocks;
  return json;
}

}  // namespace

std::string file_text(const ManifestFile& file) { return file_json(file, kFormat).dump(); }

ManifestFile parse_file(std::string_view text, const std::string& place) {
  return read_file(base::parse_json(text, place), kFormat, place);
}

std::string manifest_text(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const ManifestFile& file : manifest.files) files.push_back(file_json(file, manifest.format));
  const ordered_json state = ordered_json::parse(manifest.state, nullptr, false);
  HYPERION_CHECK(state.is_object(), "the state of a checkpoint is not a JSON object");
  const ordered_json json = {{"format", manifest.format},   {"step", manifest.step},     {"created", manifest.created},
                             {"version", manifest.version}, {"files", std::move(files)}, {"state", state}};
  std::string body = json.dump(2);
  body.resize(body.size() - 2);  // the closing "\n}", which the tail writes
  return body + checksum_tail(body);
}

Manifest parse_manifest(std::string_view text, const std::string& place) {
  checked_body(text, place);
  const base::Json json = base::parse_json(text, place);
  try {
    return read_members(json, place);
  } catch (const base::Json::exception&) {
    throw CorruptError(format("{} lacks a member, or one is of a wrong type", place));
  }
}

}  // namespace hyperion::checkpoint
