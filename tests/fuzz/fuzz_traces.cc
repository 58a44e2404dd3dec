// The long run: fuzz_traces [INPUTS] [SEED]. Breaks good traces, in JSON, in our own file and in Perfetto's packets,
// and hands them to their readers until so many of each were tried; of databases a twentieth, since SQLite takes its
// time. Input that takes too much memory, or ends in another error than a refusal, is kept in fuzz-failure and ends it
// with 1.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/trace_inputs.h"
#if __has_include(<sqlite3.h>)
#include "tests/fuzz/database_inputs.h"
#endif

namespace {

using namespace hyperion;
using namespace hyperion::testing;

[[noreturn]] void give_up(const std::string& input, const std::string& reason) {
  base::write_atomically(base::real_files(), "fuzz-failure", input);
  std::printf("fuzz: %s; the input is in ./fuzz-failure\n", reason.c_str());
  std::exit(1);
}

bool survives(const base::Path& folder, const std::string& input, std::mt19937& random) {
  bool read = false;
  try {
    const size_t peak = peak_allocated([&] { read = reads_trace(folder, input, random); });
    if (peak > input.size() + kMostReaderBytes) give_up(input, "too much memory: " + std::to_string(peak) + " bytes");
  } catch (const std::exception& error) {
    give_up(input, std::string("another error than a refusal: ") + error.what());
  }
  return read;
}

#if __has_include(<sqlite3.h>)
void fuzz_databases(const base::Path& folder, long inputs, std::mt19937& random) {
  try {
    const auto good = good_databases(folder);
    long read = 0;
    for (long i = 0; i < inputs; ++i) read += survives(folder, broken_database(folder, good, random), random) ? 1 : 0;
    std::printf("fuzz: %ld databases, %ld read\n", inputs, read);
  } catch (const std::exception& error) {
    give_up("", std::string("no database could be made: ") + error.what());
  }
}
#endif

void fuzz(long inputs, unsigned seed) {
  std::printf("fuzz: traces, seed %u\n", seed);
  std::mt19937 random(seed);
  const base::test::TestFolder folder;
  auto json = good_traces_in_json();
  const size_t good = json.size();
  const auto own = good_own_traces();
  auto packets = good_perfetto_traces();
  const size_t good_packets = packets.size();
  long json_read = 0, own_read = 0, packets_read = 0;
  for (long i = 0; i < inputs; ++i) {
    const auto& original = json[random() % json.size()];
    const auto text = mutated(original, original.size(), trace_words(), random);
    if (survives(folder.path(), text, random)) {
      ++json_read;
      if (text.size() < 8000 && json.size() < 1000) json.push_back(text);  // so that breaks add up
      if (json.size() == 1000) json[good + random() % (1000 - good)] = text;
    }
    // The long one is slow to unpack and pack.
    const auto& file = own[random() % 16 == 0 ? own.size() - 1 : random() % (own.size() - 1)];
    own_read += survives(folder.path(), broken_own_trace(file, random), random) ? 1 : 0;
    const auto broken = broken_perfetto_trace(packets[random() % packets.size()], random);
    if (!survives(folder.path(), broken, random)) continue;
    ++packets_read;
    if (broken.size() > 8000 || !is_framed(broken)) continue;
    if (packets.size() < 1000) packets.push_back(broken);
    if (packets.size() == 1000) packets[good_packets + random() % (1000 - good_packets)] = broken;
  }
#if __has_include(<sqlite3.h>)
  fuzz_databases(folder.path(), inputs / 20, random);
#endif
  std::printf(
      "fuzz: %ld traces in JSON, %ld read; %ld of our own, %ld read; %ld in Perfetto's packets, %ld read; the others "
      "refused, no crash, none beyond its size and 64 MB of memory\n",
      inputs, json_read, inputs, own_read, inputs, packets_read);
}

}  // namespace

int main(int argc, char** argv) {
  const long inputs = argc > 1 ? std::atol(argv[1]) : 100'000;
  try {
    fuzz(inputs, static_cast<unsigned>(argc > 2 ? std::atol(argv[2]) : std::random_device()()));
    return 0;
  } catch (const std::exception& error) {
    std::printf("fuzz: %s\n", error.what());
  } catch (...) {
    std::puts("fuzz: something that is no error");
  }
  return 1;
}
