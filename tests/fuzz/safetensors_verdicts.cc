// Reads candidates from stdin, each an 8-byte little-endian length and that many bytes, and answers each on stdout with
// one character: a (accepted), r (refused) or m (accepted or refused, but at too much memory). For safetensors_test.py.
#include <cstdint>
#include <cstdio>

#include "tests/fuzz/inputs.h"
#include "tests/support/fuzz.h"

int main() {
  using namespace hyperion::testing;
  std::string file;
  for (uint64_t size = 0; std::fread(&size, sizeof size, 1, stdin) == 1;) {
    file.resize(size);
    if (size > 0 && std::fread(file.data(), 1, size, stdin) != size) return 1;
    bool accepted = false;
    const size_t peak = peak_allocated([&] { accepted = reads_safetensors(file); });
    std::fputc(peak > size + kMostReaderBytes ? 'm' : accepted ? 'a' : 'r', stdout);
    if (file.empty()) std::fflush(stdout);  // an empty candidate ends a batch
  }
  return 0;
}
