#include "hyperion/tokenizers/token_decoders.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"
#include "hyperion/tokenizers/byte_alphabet.h"
#include "hyperion/tokenizers/text_pattern.h"

namespace hyperion::tokenizers {
namespace {

using base::format;
using base::Json;
using Items = std::vector<Spelled>;

// A decoder that changes each token by itself; `edit` is told the token's place and how many there are.
TokenDecoder each(std::function<std::string(std::string, size_t, size_t)> edit) {
  return [edit = std::move(edit)](Items items) {
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].text = edit(std::move(items[i].text), i, items.size());
      for (auto& start : items[i].starts) start = std::min(start, items[i].text.size());
    }
    return items;
  };
}

std::string replace_all(std::string_view text, std::string_view what, std::string_view by) {
  return replaced(text, find_text(std::string(what)), by);
}

std::optional<char> byte_named(std::string_view token) {  // "<0x0A>"
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char digit : token.substr(3, 2)) {
    const auto place = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
    if (place == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<int>(place % 16);
  }
  return static_cast<char>(value);
}

// Runs of byte tokens become characters; a run that is not UTF-8 one replacement character for each byte.
Items join_bytes(const Items& items) {
  Items out;
  Spelled bytes;
  const auto flush = [&] {
    if (bytes.text.empty()) return;
    if (text::valid_prefix(bytes.text) != bytes.text.size()) {
      bytes.text.clear();
      for (auto& start : bytes.starts) {
        start = bytes.text.size();
        bytes.text += "\xEF\xBF\xBD";
      }
    }
    out.push_back(std::exchange(bytes, {}));
  };
  for (const auto& item : items) {
    const auto byte = item.starts.size() == 1 ? byte_named(item.text) : std::nullopt;
    if (byte) {
      bytes.starts.push_back(bytes.text.size());
      bytes.text += *byte;
    } else {
      flush();
      out.push_back(item);
    }
  }
  flush();
  return out;
}

Items fuse(const Items& items) {
  Spelled all;
  for (const auto& item : items) {
    for (const size_t start : item.starts) all.starts.push_back(all.text.size() + start);
    all.text += item.text;
  }
  return {all};
}

// Up to `front` characters `what` off the start, up to `back` off the end.
Items strip(Items items, const std::string& what, size_t front, size_t back) {
  for (auto& item : items) {
    size_t cut = 0, kept = item.text.size();
    for (size_t i = 0; i < front && item.text.compare(cut, what.size(), what) == 0; ++i) cut += what.size();
    for (size_t i = 0; i < back && kept >= cut + what.size(); ++i) {
      if (item.text.compare(kept - what.size(), what.size(), what) != 0) break;
      kept -= what.size();
    }
    item.text = item.text.substr(cut, kept - cut);
    for (auto& start : item.starts) start = std::min(start - std::min(start, cut), item.text.size());
  }
  return items;
}

std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> changes[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : changes) text = replace_all(text, what, by);
  return text;
}

TokenDecoder word_pieces(const Json& json) {
  return each([prefix = json.value("prefix", std::string("##")), cleans = json.value("cleanup", true)](
                  std::string text, size_t place, size_t) {
    if (place > 0) text = text.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
    return cleans ? clean_up(std::move(text)) : text;
  });
}

TokenDecoder metaspace(const Json& json) {
  const auto mark = json.value("replacement", std::string("\xE2\x96\x81"));
  const auto scheme =
      json.value("prepend_scheme", std::string(json.value("add_prefix_space", true) ? "always" : "never"));
  return each([=](const std::string& text, size_t place, size_t) {
    return replace_all(text, mark, place == 0 && scheme != "never" ? "" : " ");
  });
}

size_t bytes_of(const Items& items) {
  return std::accumulate(items.begin(), items.end(), size_t{0},
                         [](size_t bytes, const Spelled& item) { return bytes + item.text.size(); });
}

TokenDecoder sequence(const Json& json, const std::string& place) {
  std::vector<TokenDecoder> steps;
  for (const auto& step : json.at("decoders")) steps.push_back(make_decoder(step, place));
  return [steps = std::move(steps)](Items items) {
    const size_t most = most_grown(bytes_of(items));
    for (const auto& step : steps) {
      items = step(std::move(items));
      check_grown(bytes_of(items), most);
    }
    return items;
  };
}

}  // namespace

bool is_byte_level_decoder(const Json& json) {
  if (json.at("type") == "Sequence")
    return json.at("decoders").size() == 1 && is_byte_level_decoder(json.at("decoders").at(0));
  return json.at("type") == "ByteLevel";
}

TokenDecoder make_decoder(const Json& json, const std::string& place) {
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") return sequence(json, place);
  if (type == "ByteLevel")
    return each([](const std::string& text, size_t, size_t) { return unspell_bytes(text).value_or(text); });
  if (type == "ByteFallback") return join_bytes;
  if (type == "Fuse") return fuse;
  if (type == "WordPiece") return word_pieces(json);
  if (type == "Metaspace") return metaspace(json);
  if (type == "Strip")
    return [what = json.at("content").get<std::string>(), front = json.at("start").get<size_t>(),
            back = json.at("stop").get<size_t>()](Items items) { return strip(std::move(items), what, front, back); };
  if (type == "Replace")
    return each([finder = make_finder(json.at("pattern"), place), by = json.at("content").get<std::string>()](
                    const std::string& text, size_t, size_t) { return replaced(text, finder, by); });
  if (type == "BPEDecoder")
    return each([suffix = json.value("suffix", std::string("</w>"))](const std::string& text, size_t at, size_t count) {
      return replace_all(text, suffix, at + 1 == count ? "" : " ");
    });
  unknown_component(place, format("the decoder \"{}\"", type));
}

}  // namespace hyperion::tokenizers
