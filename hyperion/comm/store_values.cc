#include "hyperion/comm/store_values.h"

#include <algorithm>
#include <charconv>

#include "hyperion/base/format.h"
#include "hyperion/comm/store_protocol.h"

namespace hyperion::comm {
namespace {

std::string done() { return FrameWriter(Answer::done).bytes(); }
std::string done(uint64_t number) { return std::move(FrameWriter(Answer::done).number(number)).bytes(); }
std::string refused(std::string_view why) { return std::move(FrameWriter(Answer::refused).text(why)).bytes(); }

bool read_whole(const std::string& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

bool StoreValues::put(const std::string& key, std::string value, std::vector<Waiter>& woken) {
  const auto old = values_.find(key);
  const size_t before = old == values_.end() ? 0 : key.size() + old->second.size();
  const size_t after = key.size() + value.size();
  if (after > before && after - before > most_bytes_ - bytes_) return false;
  bytes_ = bytes_ - before + after;
  values_[key] = std::move(value);
  const auto waiting = awaited_.find(key);
  if (waiting == awaited_.end()) return true;
  for (const Waiter waiter : waiting->second) {
    Wish& wish = wishes_.at(waiter);
    wish.missing.erase(key);
    if (wish.missing.empty()) woken.push_back(waiter);
  }
  awaited_.erase(waiting);
  return true;
}

bool StoreValues::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return values_.count(key) != 0; });
}

std::string StoreValues::values_of(const std::vector<std::string>& keys) const {
  std::vector<std::string_view> values;
  size_t size = 0;
  for (const auto& key : keys) {
    const auto found = values_.find(key);
    if (found == values_.end()) return refused(base::format("{} was deleted while it was waited for", key));
    values.push_back(found->second);
    size += 4 + found->second.size();
  }
  if (size > kMostFrame - 64) return refused("the values are too large for one answer");
  return std::move(FrameWriter(Answer::done).list(values)).bytes();
}

StoreValues::Reply StoreValues::malformed() { return {Outcome::answered, refused("the request cannot be read")}; }

StoreValues::Reply StoreValues::put_or_refuse(const std::string& key, std::string value, std::string answer,
                                              std::vector<Waiter>& woken) {
  return {Outcome::answered, put(key, std::move(value), woken) ? std::move(answer) : refused("the store is full")};
}

StoreValues::Reply StoreValues::add(FrameReader& reader, std::vector<Waiter>& woken) {
  const std::string key(reader.text());
  const auto more = static_cast<int64_t>(reader.number());
  if (!reader.whole()) return malformed();
  const auto found = values_.find(key);
  int64_t number = 0, sum = 0;
  if (found != values_.end() && !read_whole(found->second, number))
    return {Outcome::answered, refused(base::format("the value of {} is no number to add to", key))};
  if (__builtin_add_overflow(number, more, &sum))
    return {Outcome::answered, refused(base::format("the sum at {} is out of range", key))};
  return put_or_refuse(key, std::to_string(sum), done(static_cast<uint64_t>(sum)), woken);
}

StoreValues::Reply StoreValues::compare_set(FrameReader& reader, std::vector<Waiter>& woken) {
  const std::string key(reader.text()), expected(reader.text()), desired(reader.text());
  if (!reader.whole()) return malformed();
  const auto found = values_.find(key);
  const auto tell = [](std::string_view value) {
    return std::move(FrameWriter(Answer::done).list(std::vector<std::string_view>{value})).bytes();
  };
  // Of a key that is not there, as TCPStore has it: an empty expectation sets it, another is told back.
  if (found == values_.end() && !expected.empty()) return {Outcome::answered, tell(expected)};
  if (found != values_.end() && found->second != expected) return {Outcome::answered, tell(found->second)};
  return put_or_refuse(key, desired, tell(desired), woken);
}

StoreValues::Reply StoreValues::wait_for(FrameReader& reader, bool values, Waiter from) {
  const auto milliseconds = static_cast<int64_t>(reader.number());
  auto keys = reader.list();
  if (!reader.whole()) return malformed();
  if (has_all(keys)) return {Outcome::answered, values ? values_of(keys) : done()};
  Wish& wish = wishes_[from];
  wish = {values, std::move(keys), {}};
  for (const auto& key : wish.keys)
    if (values_.count(key) == 0 && wish.missing.insert(key).second) awaited_[key].insert(from);
  return {Outcome::waits, {}, std::max<int64_t>(milliseconds, 0)};
}

StoreValues::Reply StoreValues::handle(std::string_view request, Waiter from, std::vector<Waiter>& woken) {
  FrameReader reader(request);
  const auto kind = static_cast<Ask>(reader.kind());
  switch (kind) {
    case Ask::set: {
      const std::string key(reader.text()), value(reader.text());
      if (!reader.whole()) break;
      return put_or_refuse(key, value, done(), woken);
    }
    case Ask::append: {
      const std::string key(reader.text()), more(reader.text());
      if (!reader.whole()) break;
      const auto found = values_.find(key);
      return put_or_refuse(key, (found == values_.end() ? "" : found->second) + more, done(), woken);
    }
    case Ask::set_many: {
      const auto keys = reader.list(), values = reader.list();
      if (!reader.whole() || keys.size() != values.size()) break;
      for (size_t i = 0; i < keys.size(); ++i)
        if (!put(keys[i], values[i], woken)) return {Outcome::answered, refused("the store is full")};
      return {Outcome::answered, done()};
    }
    case Ask::add:
      return add(reader, woken);
    case Ask::compare_set:
      return compare_set(reader, woken);
    case Ask::erase: {
      const std::string key(reader.text());
      if (!reader.whole()) break;
      const auto found = values_.find(key);
      if (found == values_.end()) return {Outcome::answered, done(0)};
      bytes_ -= key.size() + found->second.size();
      values_.erase(found);
      return {Outcome::answered, done(1)};
    }
    case Ask::check: {
      const auto keys = reader.list();
      if (!reader.whole()) break;
      return {Outcome::answered, done(has_all(keys) ? 1 : 0)};
    }
    case Ask::count:
      if (!reader.whole()) break;
      return {Outcome::answered, done(values_.size())};
    case Ask::list: {
      if (!reader.whole()) break;
      std::vector<std::string_view> keys;
      size_t size = 0;
      for (const auto& [key, value] : values_) keys.push_back(key), size += 4 + key.size();
      if (size > kMostFrame - 64) return {Outcome::answered, refused("the keys are too many for one answer")};
      return {Outcome::answered, std::move(FrameWriter(Answer::done).list(keys)).bytes()};
    }
    case Ask::get:
    case Ask::wait:
      return wait_for(reader, kind == Ask::get, from);
    case Ask::beat:
    case Ask::leave:
      break;  // the server's own
  }
  return malformed();
}

std::string StoreValues::answer(Waiter waiter) {
  const auto found = wishes_.find(waiter);
  const std::string frame = found->second.values ? values_of(found->second.keys) : done();
  wishes_.erase(found);
  return frame;
}

std::string StoreValues::timed_out(Waiter waiter) {
  const auto found = wishes_.find(waiter);
  FrameWriter frame(Answer::timed_out);
  frame.list(found == wishes_.end() ? std::unordered_set<std::string>() : found->second.missing);
  forget(waiter);
  return std::move(frame).bytes();
}

void StoreValues::forget(Waiter waiter) {
  const auto found = wishes_.find(waiter);
  if (found == wishes_.end()) return;
  for (const auto& key : found->second.missing) {
    const auto waiting = awaited_.find(key);
    waiting->second.erase(waiter);
    if (waiting->second.empty()) awaited_.erase(waiting);
  }
  wishes_.erase(found);
}

}  // namespace hyperion::comm
