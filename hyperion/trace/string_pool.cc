#include "hyperion/trace/string_pool.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "hyperion/base/error.h"

namespace hyperion::trace {
namespace {

constexpr size_t kBlock = size_t{1} << 16;
// Of a thread's cache; a trace whose texts are all different must not be held once more by each thread.
constexpr size_t kMostCached = size_t{1} << 16, kMostCachedBytes = size_t{8} << 20;

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace

StringPool::StringPool() : slots_(256) {}

StringPool::StringPool(StringPool&& other) noexcept { *this = std::move(other); }

StringPool& StringPool::operator=(StringPool&& other) noexcept {
  slots_ = std::exchange(other.slots_, std::vector<Slot>(256));
  texts_ = std::exchange(other.texts_, {});
  blocks_ = std::exchange(other.blocks_, {});
  room_ = std::exchange(other.room_, nullptr);
  room_left_ = std::exchange(other.room_left_, 0);
  kept_bytes_ = std::exchange(other.kept_bytes_, 0);
  return *this;
}

// The slot that holds the text, or the empty one where it belongs.
size_t StringPool::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto short_hash = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].id != kNoString && (slots_[at].hash != short_hash || texts_[slots_[at].id] != text))
    at = (at + 1) & mask;
  return at;
}

uint32_t StringPool::add(std::string_view text) {
  const uint64_t hash = hash_of(text);
  const std::scoped_lock lock(adding_);
  size_t at = slot_of(text, hash);
  if (slots_[at].id != kNoString) return slots_[at].id;
  if ((texts_.size() + 1) * 4 > slots_.size() * 3) {
    widen();
    at = slot_of(text, hash);
  }
  HYPERION_CHECK(texts_.size() < kNoString, "texts are numbered in 32 bits");
  texts_.push_back(keep(text));
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(texts_.size() - 1)};
  return slots_[at].id;
}

uint32_t StringPool::find(std::string_view text) const { return slots_[slot_of(text, hash_of(text))].id; }

void StringPool::widen() {
  slots_.assign(slots_.size() * 2, {});
  for (uint32_t id = 0; id < texts_.size(); ++id) {
    const uint64_t hash = hash_of(texts_[id]);
    slots_[slot_of(texts_[id], hash)] = {static_cast<uint32_t>(hash >> 32), id};
  }
}

std::string_view StringPool::keep(std::string_view text) {
  if (text.empty()) return {};
  if (room_left_ < text.size()) {
    const size_t block = std::max(kBlock, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    kept_bytes_ += block;
    if (block > kBlock) {  // of its own; the room that is left is still good
      std::memcpy(blocks_.back().get(), text.data(), text.size());
      return {blocks_.back().get(), text.size()};
    }
    room_ = blocks_.back().get();
    room_left_ = block;
  }
  if (!text.empty()) std::memcpy(room_, text.data(), text.size());
  const std::string_view kept(room_, text.size());
  room_ += text.size();
  room_left_ -= text.size();
  return kept;
}

size_t StringPool::bytes() const {
  return kept_bytes_ + slots_.size() * sizeof(Slot) + texts_.capacity() * sizeof(std::string_view);
}

PoolCache::PoolCache() : slots_(1024) {}

uint32_t PoolCache::find(std::string_view text) {
  const uint64_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].text != nullptr && (slots_[at].hash != hash || slots_[at].size != text.size() ||
                                        (!text.empty() && std::memcmp(slots_[at].text, text.data(), text.size()) != 0)))
    at = (at + 1) & mask;
  last_hash_ = hash;
  last_slot_ = at;
  return slots_[at].id;
}

void PoolCache::remember(std::string_view text, uint32_t id) {
  if (text.size() > kBlock / 16) return;
  if (count_ >= kMostCached || bytes_ + text.size() > kMostCachedBytes) {
    forget();
    find(text);
  } else if (count_ * 2 >= slots_.size()) {
    widen();
    find(text);
  }
  if (room_left_ < text.size() + 1) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(kBlock));
    room_ = blocks_.back().get();
    room_left_ = kBlock;
  }
  if (!text.empty()) std::memcpy(room_, text.data(), text.size());
  slots_[last_slot_] = {last_hash_, room_, static_cast<uint32_t>(text.size()), id};
  room_ += text.size() + 1;  // an empty text has a place too
  room_left_ -= text.size() + 1;
  bytes_ += text.size();
  ++count_;
}

void PoolCache::widen() {
  std::vector<Slot> wider(slots_.size() * 2);
  for (const Slot& slot : slots_) {
    if (slot.text == nullptr) continue;
    size_t at = slot.hash & (wider.size() - 1);
    while (wider[at].text != nullptr) at = (at + 1) & (wider.size() - 1);
    wider[at] = slot;
  }
  slots_ = std::move(wider);
}

void PoolCache::forget() {
  std::fill(slots_.begin(), slots_.end(), Slot());
  blocks_.clear();
  room_left_ = count_ = bytes_ = 0;
}

}  // namespace hyperion::trace
