// Our store beside c10d's TCPStore, through c10d's own interface.
#include "hyperion/comm/store.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "hyperion/comm/store_server.h"
#include "tests/support/seed.h"

namespace hyperion::comm {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<uint8_t>;

constexpr const char* kStoreSecret = "a secret of this test";

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class StoreTest : public ::testing::Test {
 protected:
  explicit StoreTest(size_t most_bytes = size_t{1} << 30) : server_({"127.0.0.1", 0, kStoreSecret, most_bytes}) {
    server_.start();
  }
  c10::intrusive_ptr<c10d::Store> client(milliseconds timeout = milliseconds(2000)) {
    return store_client({"127.0.0.1", server_.port(), kStoreSecret}, timeout);
  }
  StoreServer server_;
};

// What an operation gave, as text: a value, or the kind of its error.
template <class Operation>
std::string outcome(Operation operation) {
  try {
    return operation();
  } catch (const c10::DistStoreError&) {
    return "DistStoreError";
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

std::string random_operation(c10d::Store& store, int64_t empty_count, std::mt19937_64 random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto key = [&] { return "key" + std::to_string(pick(4)); };
  const auto value = [&] {
    return bytes(std::string(static_cast<size_t>(pick(4)) * 7, static_cast<char>('a' + pick(3))));
  };
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  for (int i = 0; i <= pick(3); ++i) keys.push_back(key()), values.push_back(value());
  // Long where the keys are there, so that a busy machine does not make them late; short where they are not.
  store.setTimeout(milliseconds(store.check(keys) ? 20'000 : 2));
  return outcome([&]() -> std::string {
    switch (pick(13)) {
      case 0:
        return store.set(keys[0], values[0]), "";
      case 1:
        return text(store.get(keys[0]));
      case 2:
        return std::to_string(store.add("number" + std::to_string(pick(2)), pick(100) - 50));
      case 3:
        return text(store.compareSet(keys[0], value(), values[0]));
      case 4:
        return store.deleteKey(keys[0]) ? "deleted" : "was not there";
      case 5:
        return store.check(keys) ? "all there" : "not all there";
      case 6:
        return std::to_string(store.getNumKeys() - empty_count);
      case 7:
        return store.wait(keys, store.getTimeout()), "";
      case 8:
        return store.append(keys[0], values[0]), "";
      case 9: {
        std::string all;
        for (const auto& one : store.multiGet(keys)) all += text(one) + "|";
        return all;
      }
      case 10:
        return store.multiSet(keys, values), "";
      case 11:
        return store.deleteKey("number" + std::to_string(pick(2))) ? "deleted" : "was not there";
      default: {
        auto all = store.listKeys();
        std::sort(all.begin(), all.end());
        std::string listed;
        for (const auto& one : all)
          if (one.find("init/") == std::string::npos) listed += one + "|";
        return listed;
      }
    }
  });
}

TEST_F(StoreTest, every_operation_does_as_tcp_store_does) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.numWorkers = 1;
  const auto theirs = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const auto ours = client();
  const int64_t their_empty = theirs->getNumKeys();
  std::mt19937_64 random(testing::seed());
  int failures = 0;
  for (int i = 0; i < 600; ++i) {
    const std::mt19937_64 same(random());
    const std::string expected = random_operation(*theirs, their_empty, same);
    ASSERT_EQ(random_operation(*ours, 0, same), expected) << "operation " << i << ", seed " << testing::seed();
    failures += expected == "DistStoreError" ? 1 : 0;
  }
  EXPECT_GT(failures, 10);
  EXPECT_EQ(theirs->hasExtendedApi(), ours->hasExtendedApi());
}

TEST_F(StoreTest, a_wait_ends_when_the_last_key_comes) {
  const auto waiting = client(), setting = client();
  std::atomic<bool> came{false};
  std::thread thread([&] {
    waiting->wait({"a", "b"});
    came = true;
  });
  setting->set("a", "1");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(came);
  setting->set("b", "2");
  thread.join();
  EXPECT_TRUE(came);
}

TEST_F(StoreTest, a_wait_that_ends_in_vain_names_the_keys_and_leaves_the_store_usable) {
  const auto store = client();
  store->set("there", "1");
  try {
    store->wait({"there", "rank 3's address"}, milliseconds(20));
    FAIL();
  } catch (const c10::DistStoreError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody has set rank 3's address"), std::string::npos) << error.what();
  }
  EXPECT_EQ(store->get_to_str("there"), "1");
}

TEST_F(StoreTest, one_client_serves_many_threads_though_some_of_them_wait) {
  const auto store = client(milliseconds(20000));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const std::string mine = "t" + std::to_string(i), next = "t" + std::to_string((i + 1) % 8);
      // Each waits for its neighbour, the last of them sets off the chain.
      if (i != 0) store->wait({next});
      store->set(mine, "x");
      if (i == 0) store->wait({"t1"});
      for (int n = 0; n < 50; ++n) store->add("sum", 1);
      ++right;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(store->add("sum", 0), 400);
}

TEST_F(StoreTest, large_and_odd_values_arrive_whole) {
  const auto store = client();
  Bytes large(10'000'000);
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  for (auto& byte : large) byte = static_cast<uint8_t>(random());
  const std::string odd("k\0\xff\n", 4);
  store->set(odd, large);
  EXPECT_TRUE(store->get(odd) == large);
  store->set("", Bytes{});
  EXPECT_TRUE(store->get("").empty());
}

TEST_F(StoreTest, adding_to_what_is_no_number_is_an_error_and_changes_nothing) {
  const auto store = client();
  store->set("word", "seven");
  EXPECT_THROW(store->add("word", 1), c10::DistStoreError);
  EXPECT_EQ(store->get_to_str("word"), "seven");
  store->add("most", INT64_MAX);
  EXPECT_THROW(store->add("most", 1), c10::DistStoreError);
}

struct SmallStoreTest : StoreTest {
  SmallStoreTest() : StoreTest(10'000) {}
};

TEST_F(SmallStoreTest, a_full_store_refuses_more_and_goes_on) {
  const auto store = client();
  store->set("a", std::string(6000, 'x'));
  EXPECT_THROW(store->set("b", std::string(6000, 'x')), c10::DistStoreError);
  EXPECT_THROW(store->append("a", bytes(std::string(6000, 'x'))), c10::DistStoreError);
  EXPECT_FALSE(store->check({"b"}));
  store->set("a", std::string(9000, 'y'));  // takes the place of the old
  EXPECT_TRUE(store->deleteKey("a"));
  store->set("b", std::string(6000, 'x'));
}

TEST_F(StoreTest, a_store_that_ends_is_noticed_at_once) {
  auto server = std::make_unique<StoreServer>(StoreServerOptions{"127.0.0.1", 0, kStoreSecret});
  server->start();
  const auto store = store_client({"127.0.0.1", server->port(), kStoreSecret}, milliseconds(60000));
  std::thread ender([&] {
    std::this_thread::sleep_for(milliseconds(50));
    server.reset();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(store->wait({"never"}), c10::DistNetworkError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ender.join();
}

TEST(ConnectStore, a_process_alone_has_a_store_of_its_own) {
  const auto store = connect_store({});
  store->set("k", "v");
  EXPECT_EQ(store->get_to_str("k"), "v");
}

}  // namespace
}  // namespace hyperion::comm
