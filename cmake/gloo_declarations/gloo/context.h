// What c10d's ProcessGroupGloo.hpp needs declared and the LibTorch wheel does not ship. The code behind these names is
// in libtorch_cpu. Nothing here is ever made by us, so the classes stay incomplete or abstract.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
  virtual bool has_v2_support();
  virtual std::vector<std::vector<char>> multi_get(const std::vector<std::string>& keys);
  virtual void multi_set(const std::vector<std::string>& keys, const std::vector<std::vector<char>>& values);
  virtual void append(const std::string& key, const std::vector<char>& value);
  virtual int64_t add(const std::string& key, int64_t value);
};
}  // namespace rendezvous

}  // namespace gloo
