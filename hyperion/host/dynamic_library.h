// A shared library found while running.
#pragma once
#include <string>

namespace hyperion::host {

class DynamicLibrary {
 public:
  // Stays loaded for the life of the process: vendors' libraries dislike leaving. `secluded`: it and what it needs find
  // each other's symbols before those of this program, as when a library here brings an OpenSSL of its own.
  explicit DynamicLibrary(const char* name, bool secluded = false);
  bool loaded() const { return handle_ != nullptr; }
  const std::string& reason() const { return reason_; }  // "libx.so not found", or the loader's words

  // Points `function` at the symbol, at null where the library has none.
  template <class Function>
  bool find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
    return function != nullptr;
  }

 private:
  void* address(const char* symbol) const;
  void* handle_;
  std::string reason_;
};

}  // namespace hyperion::host
