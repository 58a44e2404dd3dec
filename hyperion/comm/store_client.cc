#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <mutex>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/comm/store.h"
#include "hyperion/comm/store_protocol.h"

namespace hyperion::comm {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<uint8_t>;

// Beyond the time a key is waited for: the store itself is silent, and so lost.
constexpr milliseconds kStoreSilence{30'000};

std::string_view text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string listed(const std::vector<std::string>& keys) {
  std::string text;
  for (size_t i = 0; i < keys.size() && i < 8; ++i) text += (i == 0 ? "" : ", ") + keys[i];
  return keys.size() <= 8 ? text : base::format("{} and {} more", text, keys.size() - 8);
}

// Connections that no thread uses now. One that failed is not put back.
class Pool {
 public:
  Pool(StoreAddress address, milliseconds patience) : address_(std::move(address)) {
    idle_.push_back(
        std::make_unique<StoreConnection>(address_, patience, [] { base::throw_if_stopped("looking for the store"); }));
  }

  std::string ask(const std::string& frame, milliseconds limit) {
    auto connection = take(limit);
    std::string answer = connection->ask(frame, limit);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return answer;
  }

  const StoreAddress& address() const { return address_; }

 private:
  std::unique_ptr<StoreConnection> take(milliseconds limit) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    return std::make_unique<StoreConnection>(address_, limit);
  }

  StoreAddress address_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StoreConnection>> idle_;
};

class ClientStore final : public c10d::Store {
 public:
  ClientStore(std::shared_ptr<Pool> pool, milliseconds timeout) : Store(timeout), pool_(std::move(pool)) {}

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<ClientStore>(pool_, timeout_); }

  void set(const std::string& key, const Bytes& value) override {
    ask(FrameWriter(Ask::set).text(key).text(text_of(value)));
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    const auto answer = ask(FrameWriter(Ask::compare_set).text(key).text(text_of(expected)).text(text_of(desired)));
    return bytes_of(texts(answer).at(0));
  }
  Bytes get(const std::string& key) override { return std::move(multiGet({key}).at(0)); }
  int64_t add(const std::string& key, int64_t value) override {
    return number(ask(FrameWriter(Ask::add).text(key).number(static_cast<uint64_t>(value))));
  }
  bool deleteKey(const std::string& key) override { return number(ask(FrameWriter(Ask::erase).text(key))) != 0; }
  bool check(const std::vector<std::string>& keys) override {
    return number(ask(FrameWriter(Ask::check).list(keys))) != 0;
  }
  int64_t getNumKeys() override { return number(ask(FrameWriter(Ask::count))); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    await(Ask::wait, keys, timeout);
  }
  void append(const std::string& key, const Bytes& value) override {
    ask(FrameWriter(Ask::append).text(key).text(text_of(value)));
  }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    std::vector<Bytes> values;
    for (const auto& value : texts(await(Ask::get, keys, timeout_))) values.push_back(bytes_of(value));
    return values;
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    TORCH_CHECK_VALUE(keys.size() == values.size(), "multiSet needs a value for each key");
    ask(FrameWriter(Ask::set_many).list(keys).list(values));
  }
  bool hasExtendedApi() const override { return true; }
  std::vector<std::string> listKeys() override { return texts(ask(FrameWriter(Ask::list))); }

 private:
  std::string ask(FrameWriter& request, milliseconds wait = milliseconds{0}) {
    try {
      std::string answer = pool_->ask(std::move(request).bytes(), wait + kStoreSilence);
      FrameReader reader(answer);
      const auto kind = static_cast<Answer>(reader.kind());
      if (kind == Answer::refused) C10_THROW_ERROR(DistStoreError, std::string(reader.text()));
      return answer;
    } catch (const StoreLost& lost) {
      C10_THROW_ERROR(DistNetworkError, base::format("{}; {}", lost.what(), lost.hint()));
    }
  }
  std::string ask(FrameWriter&& request) { return ask(request); }

  std::string await(Ask kind, const std::vector<std::string>& keys, milliseconds timeout) {
    // No timeout, in c10d's words, is zero or less: a month will do.
    const milliseconds limit = timeout.count() > 0 ? timeout : std::chrono::hours(24 * 30);
    FrameWriter request(kind);
    request.number(static_cast<uint64_t>(limit.count())).list(keys);
    std::string answer = ask(request, limit);
    FrameReader reader(answer);
    if (static_cast<Answer>(reader.kind()) == Answer::timed_out)
      C10_THROW_ERROR(DistStoreError, base::format("wait timeout after {} ms at the store {}: nobody has set {}",
                                                   limit.count(), pool_->address().text(), listed(reader.list())));
    return answer;
  }

  static int64_t number(const std::string& answer) {
    FrameReader reader(answer);
    reader.kind();
    const auto value = static_cast<int64_t>(reader.number());
    TORCH_CHECK(reader.whole(), "the store's answer cannot be read");
    return value;
  }
  static std::vector<std::string> texts(const std::string& answer) {
    FrameReader reader(answer);
    reader.kind();
    auto list = reader.list();
    TORCH_CHECK(reader.whole(), "the store's answer cannot be read");
    return list;
  }

  std::shared_ptr<Pool> pool_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> store_client(const StoreAddress& address, milliseconds timeout) {
  return c10::make_intrusive<ClientStore>(std::make_shared<Pool>(address, timeout), timeout);
}

}  // namespace hyperion::comm
