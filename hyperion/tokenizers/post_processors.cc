#include "hyperion/tokenizers/post_processors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/text_pattern.h"

namespace hyperion::tokenizers {
namespace {

using base::format;
using base::Json;

Surround from_template(const Json& json, const std::string& place) {
  Surround out;
  bool text_seen = false;
  for (const auto& part : json.at("single")) {
    if (part.contains("Sequence")) {
      if (std::exchange(text_seen, true)) unknown_component(place, "a template with the text in it twice");
      continue;
    }
    const auto name = part.at("SpecialToken").at("id").get<std::string>();
    for (const auto& id : json.at("special_tokens").at(name).at("ids"))
      (text_seen ? out.after : out.before).push_back(id.get<TokenId>());
  }
  if (!text_seen) unknown_component(place, "a template without the text in it");
  return out;
}

}  // namespace

Surround make_surround(const Json& json, const std::string& place) {
  const auto type = json.at("type").get<std::string>();
  if (type == "ByteLevel") return {};  // changes only offsets
  if (type == "TemplateProcessing") return from_template(json, place);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return {{json.at("cls").at(1).get<TokenId>()}, {json.at("sep").at(1).get<TokenId>()}};
  if (type != "Sequence") unknown_component(place, format("the post_processor \"{}\"", type));
  Surround out;
  for (const auto& step : json.at("processors")) {
    auto outer = make_surround(step, place);
    out.before.insert(out.before.begin(), outer.before.begin(), outer.before.end());
    out.after.insert(out.after.end(), outer.after.begin(), outer.after.end());
  }
  return out;
}

Truncation make_truncation(const Json& json, const std::string& place) {
  const auto direction = json.value("direction", std::string("Right"));
  if (direction != "Left" && direction != "Right")
    unknown_component(place, format("the truncation direction \"{}\"", direction));
  return {json.at("max_length").get<size_t>(), direction == "Left"};
}

Padding make_padding(const Json& json, const std::string& place) {
  Padding out;
  const auto& strategy = json.at("strategy");
  if (strategy.is_object())
    out.length = strategy.at("Fixed").get<size_t>();
  else if (strategy != "BatchLongest")
    unknown_component(place, format("the padding strategy \"{}\"", strategy.get<std::string>()));
  if (const auto multiple = json.find("pad_to_multiple_of"); multiple != json.end() && !multiple->is_null())
    out.multiple = multiple->get<size_t>();
  constexpr size_t limit = size_t{1} << 20;
  if (out.length > limit || out.multiple > limit)
    throw base::CorruptError(format("{}: padding to {} tokens", place, std::max(out.length, out.multiple)),
                             "the file is damaged, or its padding was meant otherwise");
  out.id = json.value("pad_id", 0);
  out.on_left = json.value("direction", std::string("Right")) == "Left";
  return out;
}

std::pair<size_t, size_t> kept_of(size_t size, const Truncation& truncation, size_t surround) {
  const size_t kept = std::min(size, truncation.length > surround ? truncation.length - surround : 0);
  return truncation.from_left ? std::pair(size - kept, size) : std::pair(size_t{0}, kept);
}

size_t padded_size(size_t size, const Padding& padding) {
  size_t wanted = padding.length != 0 ? padding.length : size;
  // The wanted length itself is rounded up, as `tokenizers` does.
  if (padding.multiple > 0) wanted = (wanted + padding.multiple - 1) / padding.multiple * padding.multiple;
  return std::max(wanted, size);
}

}  // namespace hyperion::tokenizers
