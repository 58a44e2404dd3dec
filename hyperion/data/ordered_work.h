// Work by several threads whose results come back in the order of the tasks.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace hyperion::data {

// `Task` carries `size_t cost` (bytes it holds); tasks under way hold at most `most` together, or are one alone.
template <class Task, class Result>
class OrderedWork {
 public:
  // `make` gives the next task (called by one thread of its own; false: no more), `work` its result (by `threads`).
  OrderedWork(int threads, size_t most, std::function<bool(Task&)> make, std::function<Result(Task&)> work)
      : most_(most), make_(std::move(make)), work_(std::move(work)) {
    try {
      threads_.emplace_back([this] { guarded([this] { produce(); }); });
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { guarded([this] { consume(); }); });
    } catch (...) {  // a further thread could not be had
      end();
      throw;
    }
  }
  ~OrderedWork() { end(); }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  // The result of the next task; false after the last. Throws what making or working threw.
  bool next(Result& out) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return error_ || (ended_ && items_.empty()) || (!items_.empty() && items_.front()->done); });
    if (error_) std::rethrow_exception(error_);
    if (items_.empty()) return false;
    out = std::move(items_.front()->result);
    held_ -= items_.front()->task.cost;
    items_.pop_front(), --begun_;
    changed_.notify_all();
    return true;
  }

 private:
  struct Item {
    Task task;
    Result result;
    bool done = false;
  };

  void end() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  template <class Body>
  void guarded(Body body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stopped_ = true;
      changed_.notify_all();
    }
  }

  void produce() {
    for (;;) {
      auto item = std::make_shared<Item>();
      const bool more = make_(item->task);
      std::unique_lock lock(mutex_);
      if (!more) {
        ended_ = true;
        changed_.notify_all();
        return;
      }
      changed_.wait(lock, [&] { return stopped_ || items_.empty() || held_ + item->task.cost <= most_; });
      if (stopped_) return;
      held_ += item->task.cost;
      items_.push_back(std::move(item));
      changed_.notify_all();
    }
  }

  void consume() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || begun_ < items_.size() || ended_; });
      if (stopped_ || begun_ == items_.size()) return;
      const auto item = items_[begun_++];
      lock.unlock();
      item->result = work_(item->task);
      lock.lock();
      item->done = true;
      changed_.notify_all();
    }
  }

  size_t most_, held_ = 0, begun_ = 0;  // begun_: of items_, from the front
  std::function<bool(Task&)> make_;
  std::function<Result(Task&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> items_;
  bool ended_ = false, stopped_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace hyperion::data
