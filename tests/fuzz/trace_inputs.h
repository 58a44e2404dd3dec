// Good traces, in JSON, in our own file and in Perfetto's packets, how they are broken, and a reader of them down to
// each event's arguments.
#pragma once
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/error.h"
#include "hyperion/base/hash.h"
#include "hyperion/trace/block_payload.h"
#include "hyperion/trace/export_trace.h"
#include "hyperion/trace/pack_zstd.h"
#include "hyperion/base/protobuf_message.h"
#include "hyperion/trace/trace_blocks.h"
#include "hyperion/trace_formats/protobuf_reader.h"
#include "hyperion/trace_formats/read_any_trace.h"
#include "tests/base/support_child.h"
#include "tests/support/fuzz.h"
#include "tests/trace/support_kept.h"
#include "tests/trace/support_perfetto.h"
#include "tests/trace/support_random.h"

namespace hyperion::testing {

// Texts and bytes where each stands by itself: so breaks can be put into a block and its checksum still fit.
struct OwnFile {
  std::vector<std::string> headers, mains, aparts;  // of blocks; mains unpacked
};

inline OwnFile cut_into_blocks(const std::string& file) {
  OwnFile cut;
  const auto varint = [&](size_t& at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(file.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  for (size_t at = trace::kFileHeaderBytes; at < file.size();) {
    uint64_t payload = 0;
    std::memcpy(&payload, file.data() + at + 16, 8);
    cut.headers.push_back(file.substr(at, 24));
    at += trace::kBlockHeaderBytes;
    const size_t end = at + payload;
    std::string main, apart;
    if (payload > 0) {
      const auto size = varint(at), packed = varint(at);
      trace::unpack_zstd(std::string_view(file).substr(at, packed), size, main);
      apart = file.substr(at + packed, end - at - packed);
    }
    cut.mains.push_back(std::move(main));
    cut.aparts.push_back(std::move(apart));
    at = end;
  }
  return cut;
}

inline std::string put_together(const OwnFile& cut) {
  std::string file = trace::file_header();
  for (size_t i = 0; i < cut.headers.size(); ++i) {
    std::string payload;
    if (i + 1 < cut.headers.size()) {
      const auto packed = trace::pack_zstd(cut.mains[i], 1);
      trace::append_varint(payload, cut.mains[i].size());
      trace::append_varint(payload, packed.size());
      payload += packed + cut.aparts[i];
    }
    std::string header = cut.headers[i];
    const uint64_t size = payload.size();
    std::memcpy(header.data() + 16, &size, 8);
    const uint64_t hash = base::hash_64(payload, base::hash_64(header));
    header.append(reinterpret_cast<const char*>(&hash), 8);
    file += header + payload;
  }
  return file;
}

inline const std::vector<std::string>& trace_words() {
  static const std::vector<std::string> list = {"{",
                                                "}",
                                                "[",
                                                "]",
                                                "\"",
                                                ",",
                                                ":",
                                                "0",
                                                "-1",
                                                "1e400",
                                                "\\",
                                                "null",
                                                "99999999999999999999",
                                                "\"ph\": \"X\",",
                                                "\"ts\": 1,",
                                                "\"dur\": -5,",
                                                "\"args\": {",
                                                "{\"a\": 1},",
                                                "\"stream\": 7,",
                                                "\xff",
                                                "\x01",
                                                "\x02",
                                                "\x03",
                                                std::string(1, '\0'),
                                                "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                                "\x7f",
                                                "\x81\x02",
                                                "\"\x03\"",
                                                "\"a\": \x01, ",
                                                std::string(40, '['),
                                                std::string(8, '\xff')};
  return list;
}

// JSON first, our own files behind it; a long one among them, whose columns are packed each by itself.
inline std::vector<std::string> good_traces_in_json() {
  std::vector<std::string> list = {
      trace::test::random_trace(1, 6), trace::test::random_trace(9, 12),
      R"([{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2,
    "args": {"stream": 7, "correlation": 3, "External id": 4, "rate": 0.25}}, {"ph": "M", "name": "process_name", "args": {"name": "x"}}])"};
  return list;
}

inline std::vector<std::string> good_own_traces() {
  const base::test::TestFolder folder;
  auto json = good_traces_in_json();
  json.push_back(trace::test::random_trace(3, 900));
  std::vector<std::string> list;
  for (const auto& text : json) {
    std::ofstream(folder / "a.json", std::ios::binary) << text;
    trace::export_trace(base::real_files(), folder / "a.htrace", trace::read_trace(folder / "a.json"),
                        trace::ExportFormat::own);
    list.push_back(base::real_files().read(folder / "a.htrace"));
  }
  return list;
}

// Bytes of the file itself, of what a block packs with its checksum made to fit, or of what that unpacks to.
inline std::string broken_own_trace(const std::string& good, std::mt19937& random) {
  const unsigned kind = random() % 8;
  if (kind == 0) return mutated(good, good.size(), trace_words(), random);
  auto cut = cut_into_blocks(good);
  const size_t block = random() % cut.headers.size();
  if (kind == 1)
    cut.aparts[block] = mutated(cut.aparts[block], cut.aparts[block].size(), trace_words(), random);
  else if (kind == 2)
    cut.headers[block][random() % 16] = static_cast<char>(random());
  else
    cut.mains[block] = mutated(cut.mains[block], cut.mains[block].size(), trace_words(), random);
  return put_together(cut);
}

// By our exporter, and as AMD's tools write them.
inline std::vector<std::string> good_perfetto_traces() {
  std::vector<std::string> list = {trace::test::rocprofv3_trace(), trace::test::rocprof_sys_trace()};
  const base::test::TestFolder folder;
  for (const auto& text : good_traces_in_json()) {
    trace::test::write_anew(folder / "a.json", text);
    trace::test::KeptText packets;
    trace::write_perfetto(trace::read_trace(folder / "a.json"), packets);
    if (!packets.text.empty()) list.push_back(packets.text);
  }
  return list;
}

inline const std::vector<std::string>& packet_words() {
  static const std::vector<std::string> list = {
      "\x0a",     "\x12",     "\x80",     "\xff",     "\x5a\x02", "\x62\x05",     "\xe2\x03\x04",
      "\x48\x01", "\x48\x02", "\x52\x01", "\x68\x01", "\x68\x02", "\xd0\x03\x40", std::string(9, '\xff') + "\x01"};
  return list;
}

// Bytes of the file, or of packets, whose lengths are made to fit; packets put elsewhere, twice, or left out.
inline std::string broken_perfetto_trace(const std::string& good, std::mt19937& random) {
  if (random() % 4 == 0) return mutated(good, good.size(), packet_words(), random);
  std::vector<std::string> packets;
  trace::ProtobufReader in(good);
  for (trace::ProtobufField field; in.next(field);) packets.emplace_back(field.bytes);
  for (unsigned i = 0; i < 1 + random() % 3; ++i) {
    auto& packet = packets[random() % packets.size()];
    if (random() % 4 == 0)
      packet = packets[random() % packets.size()];
    else if (!packet.empty())
      packet = mutated(packet, packet.size(), packet_words(), random);
  }
  base::ProtobufMessage file;
  for (const auto& packet : packets) file.text(1, packet);
  return std::string(file.bytes());
}

// Whether it can be cut into packets: JSON that came of a break is read too.
inline bool is_framed(const std::string& file) { return !file.empty() && file[0] == '\x0a'; }

inline size_t slices_of(const trace::Trace& trace) {
  size_t count = 0;
  for (size_t i = 0; i < trace.size(); ++i)
    count += trace.types[trace.type[i]].phase == 'X' && trace.begin[i] != trace::kNoTime ? 1 : 0;
  return count;
}

// Whether it was read. Whatever is read is analysed, and what is exported from it must be read again.
inline bool reads_trace(const base::Path& folder, const std::string& file, std::mt19937& random) {
  const auto read = [&](const std::string& bytes) {
    trace::test::write_anew(folder / "fuzzed", bytes);
    trace::ReadOptions options;
    options.threads = random() % 64 == 0 ? 2 : 1;
    options.window = random() % 2 == 0 ? size_t{1} << 16 : 1 + random() % 600;
    return trace::read_any_trace({folder / "fuzzed"}, options);
  };
  try {
    const auto trace = read(file);
    analysis::analyze(trace);
    trace::test::KeptText chrome, perfetto;
    trace::write_perfetto(trace, perfetto);
    trace::write_chrome(trace, chrome);
    try {
      const auto again = read(chrome.text);
      if (again.size() != trace.size()) throw std::logic_error("an exported trace has other events");
      if (!perfetto.text.empty() && slices_of(read(perfetto.text)) != slices_of(trace))
        throw std::logic_error("exported packets have other slices");
    } catch (const base::Error& error) {
      // Packets hold less time than JSON does.
      if (std::string_view(error.what()).find("time is beyond any clock") != std::string_view::npos) return true;
      throw std::logic_error("an exported trace cannot be read: " + base::error_text(error));
    }
    return true;
  } catch (const base::CorruptError&) {
    return false;
  } catch (const base::ConfigError&) {  // of a later version
    return false;
  }
}

}  // namespace hyperion::testing
