// A made-up /proc and /sys in a folder of the test's own, removed with it.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::host {

class Tree {
 public:
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Tree& file(const std::string& path, const std::string& content);  // path is absolute, as on the machine
  Tree& program(const std::string& path);                           // an executable file
  const base::Path& root() const { return root_; }

 private:
  base::Path root_;
};

}  // namespace hyperion::host
