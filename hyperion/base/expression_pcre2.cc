#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/expression.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {

struct FreePcre2 {
  void operator()(pcre2_code* it) const { pcre2_code_free(it); }
  void operator()(pcre2_match_data* it) const { pcre2_match_data_free(it); }
  void operator()(pcre2_match_context* it) const { pcre2_match_context_free(it); }
  void operator()(pcre2_compile_context* it) const { pcre2_compile_context_free(it); }
};
template <class T>
using OwnedPcre2 = std::unique_ptr<T, FreePcre2>;

// Of long texts: the expression is compiled to call back before each of its items, and how far it moved since is the
// work that was done. That makes it several times as large, and PCRE2 refuses one of more than 64 KiB: of whole texts,
// which are short, PCRE2's own count of the ways it tried is enough.
struct MatchWork {
  uint64_t left;
  size_t last = 0;
};
int count_match_work(pcre2_callout_block* block, void* data) {
  auto& work = *static_cast<MatchWork*>(data);
  const size_t now = block->current_position;
  const uint64_t done = 1 + (now > work.last ? now - work.last : work.last - now);
  work.last = now;
  if (done > work.left) return PCRE2_ERROR_MATCHLIMIT;
  work.left -= done;
  return 0;
}

class Pcre2Expression final : public Expression {
 public:
  Pcre2Expression(OwnedPcre2<pcre2_code> code, Reach reach) : code_(std::move(code)), reach_(reach) {}

  bool matches_nothing() const override {
    uint32_t nothing = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &nothing);
    return nothing != 0;
  }

  bool find(std::string_view text, uint64_t steps, const Met& met) const override {
    const OwnedPcre2<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const OwnedPcre2<pcre2_match_context> context(pcre2_match_context_create(nullptr));
    HYPERION_CHECK(data != nullptr && context != nullptr, "PCRE2 has memory for a match");
    MatchWork work{steps};
    pcre2_set_callout(context.get(), count_match_work, &work);
    const uint64_t tries = reach_ == Reach::whole_text ? steps : UINT32_MAX;
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<uint64_t>(tries, UINT32_MAX)));
    for (;;) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), work.last,
                                    PCRE2_NO_UTF_CHECK, data.get(), context.get());
      if (found < 0) return found == PCRE2_ERROR_NOMATCH;
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      if (!met(ends[0], ends[1])) return true;
      work.last = ends[1];
    }
  }

 private:
  OwnedPcre2<pcre2_code> code_;
  Reach reach_;
};

}  // namespace

std::shared_ptr<const Expression> Expression::compile(const std::string& text, Reach reach, std::string& problem) {
  if (text.size() > kLongest) {
    problem = format("it has {} bytes, and {} are the most", text.size(), kLongest);
    return nullptr;
  }
  const OwnedPcre2<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  HYPERION_CHECK(context != nullptr, "PCRE2 has memory for a context");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  PCRE2_SIZE where = 0;
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP |
      (reach == Reach::whole_text ? PCRE2_ANCHORED | PCRE2_ENDANCHORED
                                  : PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE);
  OwnedPcre2<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &number, &where, context.get()));
  if (code == nullptr) {
    PCRE2_UCHAR message[200] = {};
    pcre2_get_error_message(number, message, sizeof message);
    problem = format("{} at {}", reinterpret_cast<const char*>(message), where);
    return nullptr;
  }
  return std::make_shared<Pcre2Expression>(std::move(code), reach);
}

}  // namespace hyperion::base
