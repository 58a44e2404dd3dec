// Texts that occur again and again, each kept once and known by a number.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace hyperion::trace {

constexpr uint32_t kNoString = UINT32_MAX;  // of a field that is not there

// Numbers count from 0 as texts first come; which number a text has may differ from one reading of a file to the next,
// where several threads read it. add() is safe from several threads; the rest only while nobody adds.
class StringPool {
 public:
  StringPool();
  StringPool(StringPool&& other) noexcept;
  StringPool& operator=(StringPool&& other) noexcept;

  uint32_t add(std::string_view text);
  uint32_t find(std::string_view text) const;  // kNoString where it has none
  // Lives as long as the pool; "" of kNoString.
  std::string_view operator[](uint32_t id) const { return id == kNoString ? std::string_view() : texts_[id]; }
  size_t size() const { return texts_.size(); }
  size_t bytes() const;  // of memory

 private:
  struct Slot {
    uint32_t hash = 0, id = kNoString;
  };
  size_t slot_of(std::string_view text, uint64_t hash) const;
  std::string_view keep(std::string_view text);
  void widen();

  std::mutex adding_;
  std::vector<Slot> slots_;
  std::vector<std::string_view> texts_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* room_ = nullptr;
  size_t room_left_ = 0, kept_bytes_ = 0;
};

// What one thread has lately asked a pool for, so that it need not wait for the others.
class PoolCache {
 public:
  PoolCache();
  // kNoString where it is not known here; then remember() it.
  uint32_t find(std::string_view text);
  void remember(std::string_view text, uint32_t id);  // of the text of the last find()

 private:
  struct Slot {
    uint64_t hash = 0;
    const char* text = nullptr;
    uint32_t size = 0, id = kNoString;
  };
  void widen();
  void forget();

  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* room_ = nullptr;
  size_t room_left_ = 0, count_ = 0, bytes_ = 0;
  uint64_t last_hash_ = 0;
  size_t last_slot_ = 0;
};

}  // namespace hyperion::trace
