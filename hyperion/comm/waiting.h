// What this process waits for in others, so that whoever learns that the job is over can say where it stood.
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::comm {

// Said of this process until the scope ends: "all_reduce of gradients in group gradients". From any thread.
class Waiting {
 public:
  explicit Waiting(std::string what);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  uint64_t number_;
};

std::string waiting_text();  // "in A for 1.2 s, in B for 0.1 s", the longest first; "for nobody" where it is so

}  // namespace hyperion::comm
