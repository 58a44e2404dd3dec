#include "tests/support/fuzz.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> held{0}, peak{0};

void* counted(size_t size) {
  void* address = std::malloc(size == 0 ? 1 : size);
  if (address == nullptr) throw std::bad_alloc();
  const size_t now = held.fetch_add(malloc_usable_size(address)) + malloc_usable_size(address);
  for (size_t most = peak.load(); now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return address;
}

void forget(void* address) {
  if (address == nullptr) return;
  held.fetch_sub(malloc_usable_size(address));
  std::free(address);
}

}  // namespace

// Of a program that links this file, all of them: strings, containers and JSON come through here.
void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* address) noexcept { forget(address); }
void operator delete[](void* address) noexcept { forget(address); }
void operator delete(void* address, size_t) noexcept { forget(address); }
void operator delete[](void* address, size_t) noexcept { forget(address); }

namespace hyperion::testing {

size_t peak_allocated(const std::function<void()>& work) {
  const size_t before = held.load();
  peak.store(before);
  work();
  return peak.load() - before;
}

std::string mutated(const std::string& original, size_t reach, const std::vector<std::string>& words,
                    std::mt19937& random) {
  std::string text = original;
  for (int left = 1 + random() % 3; left > 0 && !text.empty(); --left) {
    const size_t most = random() % 4 == 0 ? text.size() : std::min(text.size(), std::max<size_t>(reach, 1));
    const size_t at = random() % most, other = random() % text.size(), length = random() % 40;
    const std::string& word = words[random() % words.size()];
    switch (random() % 8) {
      case 0:
        text[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        text.replace(at, std::min(word.size(), text.size() - at), word);
        break;
      case 2:
        text.insert(at, word);
        break;
      case 3:
        text.resize(random() % (text.size() + 1));
        break;
      case 4:
        text.erase(at, length);
        break;
      case 5:
        text.insert(at, text.substr(other, length));
        break;
      case 6:
        text.replace(at, std::min(length, text.size() - at), text.substr(other, length));
        break;
      default:
        text[random() % std::min<size_t>(8, text.size())] = static_cast<char>(random());
        break;
    }
  }
  return text;
}

}  // namespace hyperion::testing
