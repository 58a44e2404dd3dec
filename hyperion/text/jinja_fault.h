// What a template is refused with.
#pragma once
#include <stdexcept>
#include <string>

namespace hyperion::text::jinja {

// What is wrong with a template or with the values it was given; line 0: not known where it is thrown.
struct Fault : std::runtime_error {
  Fault(int at, const std::string& what, bool by_template = false)
      : std::runtime_error(what), line(at), raised(by_template) {}
  int line;
  bool raised;  // by the template's own raise_exception
};

}  // namespace hyperion::text::jinja
