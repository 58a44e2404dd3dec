#include "hyperion/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"

namespace hyperion::checkpoint {
namespace {

using base::CorruptError;
using base::format;
using nlohmann::ordered_json;

constexpr uint64_t kFormat = 1;
constexpr size_t kHashedAtOnce = size_t{16} << 20;
constexpr double kQuietSeconds = 2;

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

ManifestFile read_file(const base::Json& json, const std::string& place) {
  ManifestFile file{json.at("name").get<std::string>(), read_count(json, "bytes", place),
                    json.at("xxh3_128").get<std::string>()};
  // A manifest may only speak of files beside it.
  if (file.name.empty() || file.name.front() == '.' ||
      file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    throw CorruptError(format("{} lists a file \"{}\" that is not in its folder", place, file.name));
  if (!is_hash(file.xxh3_128)) throw CorruptError(format("{} has no hash for {}", place, file.name));
  return file;
}

Manifest read_members(const base::Json& json, const std::string& place) {
  if (const uint64_t found = read_count(json, "format", place); found != kFormat)
    throw CorruptError(format("{} is of format {}, this program reads format {}", place, found, kFormat),
                       "load it with the version that wrote it");
  Manifest manifest{static_cast<int64_t>(read_count(json, "step", place)),
                    json.at("created").get<std::string>(),
                    json.at("version").get<std::string>(),
                    {},
                    json.at("state").dump()};
  if (!json.at("state").is_object()) throw CorruptError(format("{} has a state that is not an object", place));
  std::set<std::string> names;
  for (const base::Json& file : json.at("files")) {
    manifest.files.push_back(read_file(file, place));
    if (!names.insert(manifest.files.back().name).second)
      throw CorruptError(format("{} lists {} twice", place, manifest.files.back().name));
  }
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const ManifestFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
  const ordered_json state = ordered_json::parse(manifest.state, nullptr, false);
  HYPERION_CHECK(state.is_object(), "the state of a checkpoint is not a JSON object");
  const ordered_json json = {{"format", kFormat},           {"step", manifest.step},     {"created", manifest.created},
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

void verify_content(const ManifestFile& expected, std::string_view content, const std::string& place) {
  if (content.size() != expected.bytes)
    throw CorruptError(format("{} has {} bytes, its manifest says {}", place, base::with_commas(content.size()),
                              base::with_commas(expected.bytes)));
  const double start = base::real_clock().seconds();
  base::Hasher hasher;
  std::unique_ptr<base::ProgressLine> line;
  for (size_t done = 0; done < content.size(); done += kHashedAtOnce) {
    hasher.update(content.substr(done, kHashedAtOnce));
    if (base::real_clock().seconds() - start < kQuietSeconds) continue;
    if (!line) line = std::make_unique<base::ProgressLine>();
    line->show(format("verifying {}: {} of {}", place, base::bytes_text(done), base::bytes_text(content.size())));
  }
  if (line) line->clear();
  if (hasher.hex() != expected.xxh3_128)
    throw CorruptError(format("{} has the hash {}, its manifest says {}", place, hasher.hex(), expected.xxh3_128));
}

}  // namespace hyperion::checkpoint
