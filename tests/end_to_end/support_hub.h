// A hub of Hugging Face's on this machine (hub_server.py), and a cache to fetch into.
#pragma once
#include <sys/types.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion::testing {

class Hub {
 public:
  explicit Hub(const Scratch& scratch);  // serves scratch/hub
  ~Hub();

  std::filesystem::path model(const std::string& name) const { return folder_ / "models" / name; }
  std::filesystem::path set(const std::string& name) const { return folder_ / "datasets" / name; }
  std::filesystem::path cache() const { return cache_; }
  std::filesystem::path cached_model(const std::string& name) const;  // models--OWNER--NAME
  void behave(const std::string& json) const;

  // Lines of what was asked for (hub_server.py) that have `part` in them.
  std::vector<std::string> requests(const std::string& part) const;

  // For a program that fetches from here; or that only reads the cache, and could reach no hub.
  std::map<std::string, std::string> online(const std::map<std::string, std::string>& more = {}) const;
  std::map<std::string, std::string> offline() const;

 private:
  std::filesystem::path folder_, cache_;
  std::string address_;
  pid_t pid_;
};

}  // namespace hyperion::testing
