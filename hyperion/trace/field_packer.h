// Packs the fields of events that have no column (packed_fields.h). One a thread; those of one trace share its pools.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "hyperion/trace/packed_fields.h"
#include "hyperion/trace/string_pool.h"

namespace hyperion::trace {

// Of arguments at the first level of "args", as Kineto names them; kNone where they are not there.
struct KnownArguments {
  int64_t correlation = -1, external = -1, device = -1, stream = -1;
};

// Throws ScanFault on what is not JSON, with its place in the text that is packed.
class FieldPacker {
 public:
  explicit FieldPacker(PackedFields& fields) : fields_(&fields) {}

  void begin();  // of an event
  // "key": value. `key` as it stands between its quotes, `at` at the value; moves behind it.
  void add(std::string_view key, const char*& at, const char* end);
  // The same with the value given whole.
  void add(std::string_view key, std::string_view value);
  // The packed event, to be appended to the fields; "" where nothing was added. Lives until the next begin().
  std::string_view finish();
  const KnownArguments& known() const { return known_; }

 private:
  void pack_value(const char*& at, const char* end, int depth);
  void pack_object(const char*& at, const char* end, int depth);
  void pack_number(const char*& at, const char* end);
  void pack_text(std::string_view text, const char* opening);
  int64_t* known_field(std::string_view key);
  void learn_number(int64_t* known, const char* at, const char* end);
  uint32_t form_number(const char* at);

  PackedFields* fields_;
  PoolCache forms_, texts_;
  Scratch form_, values_, packed_;
  KnownArguments known_;
  const char* begin_ = nullptr;
};

}  // namespace hyperion::trace
