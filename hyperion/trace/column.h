// One field of millions of events: contiguous, grown without a second copy beside the first.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::trace {

// Throws base::Error where memory does not suffice. Reading is safe from several threads, writing from one.
template <class T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  ~Column() { std::free(data_); }
  Column(Column&& other) noexcept { *this = std::move(other); }
  Column& operator=(Column&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    return *this;
  }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& back() const { return data_[size_ - 1]; }
  operator std::span<const T>() const { return {data_, size_}; }

  void push_back(T value) {
    if (size_ == room_) grow(size_ + 1);
    data_[size_++] = value;
  }
  void append(std::span<const T> values) {
    if (values.empty()) return;
    if (room_ - size_ < values.size()) grow(size_ + values.size());
    std::memcpy(data_ + size_, values.data(), values.size() * sizeof(T));
    size_ += values.size();
  }
  void clear() { size_ = 0; }  // keeps its memory
  size_t bytes() const { return room_ * sizeof(T); }

 private:
  void grow(size_t wanted) {
    size_t room = room_ + room_ / 2;  // pages are moved by the system, not copied, where it is large
    if (room < wanted) room = wanted;
    if (room < 64) room = 64;
    void* larger = std::realloc(data_, room * sizeof(T));
    if (larger == nullptr)
      throw base::Error(
          base::format("no memory for a trace's further {}", base::bytes_text((room - room_) * sizeof(T))),
          "record fewer steps, or read it on a machine with more memory");
    data_ = static_cast<T*>(larger);
    room_ = room;
  }

  T* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

}  // namespace hyperion::trace
