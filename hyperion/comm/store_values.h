// The store's keys and values, and who waits for which: what store_server.cc does for a request, free of sockets.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace hyperion::comm {

class FrameReader;

class StoreValues {
 public:
  explicit StoreValues(size_t most_bytes) : most_bytes_(most_bytes) {}

  using Waiter = uint64_t;
  enum class Outcome { answered, waits };
  struct Reply {
    Outcome outcome = Outcome::answered;
    std::string frame;         // the answer
    int64_t milliseconds = 0;  // how long to wait at most
  };
  // Does what a request (the frame without its size) asks; never throws for what it contains. Waiters whose keys have
  // all come are appended to `woken`, and answered by `answer`.
  Reply handle(std::string_view request, Waiter from, std::vector<Waiter>& woken);
  std::string answer(Waiter waiter);     // for a woken waiter, which is then forgotten
  std::string timed_out(Waiter waiter);  // for one that waited too long, likewise
  void forget(Waiter waiter);

 private:
  struct Wish {
    bool values = false;  // wants them told
    std::vector<std::string> keys;
    std::unordered_set<std::string> missing;
  };
  static Reply malformed();
  Reply add(FrameReader& reader, std::vector<Waiter>& woken);
  Reply compare_set(FrameReader& reader, std::vector<Waiter>& woken);
  Reply wait_for(FrameReader& reader, bool values, Waiter from);
  Reply put_or_refuse(const std::string& key, std::string value, std::string answer, std::vector<Waiter>& woken);
  bool put(const std::string& key, std::string value, std::vector<Waiter>& woken);
  std::string values_of(const std::vector<std::string>& keys) const;
  bool has_all(const std::vector<std::string>& keys) const;

  size_t most_bytes_, bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<Waiter, Wish> wishes_;
  std::unordered_map<std::string, std::unordered_set<Waiter>> awaited_;
};

}  // namespace hyperion::comm
