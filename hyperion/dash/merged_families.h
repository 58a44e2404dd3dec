// Prometheus' text of several runs as one: each family is told once, with the samples of all.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::dash {

class MergedFamilies {
 public:
  void add(std::string_view text);
  std::string text() const;

 private:
  struct Family {
    std::string head, samples;
  };
  std::vector<std::string> order_;
  std::map<std::string, Family> families_;
};

}  // namespace hyperion::dash
