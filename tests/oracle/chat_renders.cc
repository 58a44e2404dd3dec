// Reads lines of JSON from stdin, each {"template", "variables", "now"}, and answers each on stdout with a line of
// JSON:
// {"text"} or {"error"}. For chat_test.py.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "hyperion/base/error.h"
#include "hyperion/data/chat_template.h"

int main() {
  using nlohmann::ordered_json;
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = ordered_json::parse(line);
    ordered_json answer;
    try {
      const hyperion::data::ChatTemplate chat(asked.at("template").get<std::string>(), "template");
      answer["text"] = chat.render(asked.at("variables"), asked.at("now").get<int64_t>());
    } catch (const hyperion::base::Error& error) {
      answer["error"] = error.what();
    }
    std::puts(answer.dump(-1, ' ', true).c_str());
  }
  return 0;
}
