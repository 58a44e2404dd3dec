#include <algorithm>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/records/framing.h"
#include "hyperion/records/input_files.h"
#include "hyperion/records/tar.h"

namespace hyperion::records {
namespace {

class TarRecords final : public RawRecords {
 public:
  explicit TarRecords(FramedFile file)
      : name_(file.name), limits_(file.limits), tar_(std::move(file.bytes), *file.name) {}

  bool next(RawRecord& record) override {
    try {
      return sample(record);
    } catch (const BadRecord&) {
      has_text_ = true;  // of this sample it was told what is wrong
      gives_ = false;
      throw;
    }
  }

 private:
  // The first dot behind the folders divides a name into the sample's and the kind; a name that begins with it, as
  // other systems leave in tars, is no sample's.
  static size_t dot_of(const std::string& name) {
    const size_t begin = name.rfind('/') + 1, dot = std::min(name.find('.', begin), name.size());
    return dot == begin ? 0 : dot;
  }

  bool sample(RawRecord& record) {
    for (;;) {
      if (!waiting_ && !(waiting_ = tar_.next(member_))) return leave_sample(record);
      const size_t dot = dot_of(member_.name);
      if (dot == 0) {
        waiting_ = false;
      } else if (member_.name.compare(0, dot, key_) == 0) {
        waiting_ = false;
        add_member(member_.name.substr(std::min(dot + 1, member_.name.size())));
      } else {
        const bool gives = leave_sample(record);
        key_ = member_.name.substr(0, dot);
        if (gives) return true;
      }
    }
  }

  void add_member(const std::string& kind) {
    if (kind != "json" && kind != "txt") return;
    if (!kinds_.insert(kind).second)
      throw BadRecord(*name_ + "/" + shown_in_utf8(key_), 0, base::format("the sample has .{} {}", kind, kThereTwice));
    if (has_text_ && kind == "txt") return;
    has_text_ = gives_ = true;
    text_.file = std::make_shared<const std::string>(*name_ + "/" + shown_in_utf8(member_.name));
    text_.line = 0;
    text_.byte = member_.offset;
    tar_.read(text_.bytes, limits_.record);
  }

  bool leave_sample(RawRecord& record) {
    const std::string key = std::exchange(key_, {});
    const bool has_text = std::exchange(has_text_, false), gives = std::exchange(gives_, false);
    kinds_.clear();
    if (!key.empty() && !has_text)
      throw BadRecord(*name_ + "/" + shown_in_utf8(key), 0, "the sample has neither a .json nor a .txt");
    if (gives) std::swap(record, text_);
    return gives;
  }

  std::shared_ptr<const std::string> name_;
  RecordLimits limits_;
  TarReader tar_;
  TarMember member_;
  bool waiting_ = false;  // member_ begins the next sample
  std::string key_;       // of the sample in hand; empty: none
  RawRecord text_;
  bool has_text_ = false, gives_ = false;
  std::set<std::string> kinds_;  // of the sample's texts so far
};

}  // namespace

std::unique_ptr<RawRecords> frame_tar(FramedFile file) { return std::make_unique<TarRecords>(std::move(file)); }

}  // namespace hyperion::records
