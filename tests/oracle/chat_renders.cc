// Reads lines of JSON from stdin, each {"template", "variables", "now"}, and answers each on stdout with a line of
// JSON: {"text"} or {"error"}. With "tokenizer", a file, the answer is {"text", "ids", "learned"} of the dialogue as it
// is trained on. For chat_test.py.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "hyperion/base/error.h"
#include "hyperion/tokenizers/chat_tokens.h"
#include "hyperion/tokenizers/open_tokenizer.h"

int main() {
  using namespace hyperion;
  using nlohmann::ordered_json;
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = ordered_json::parse(line);
    ordered_json answer;
    try {
      const text::ChatTemplate chat(asked.at("template").get<std::string>(), "template");
      const auto now = asked.at("now").get<int64_t>();
      if (asked.contains("tokenizer")) {
        const auto turns = chat.render_with_turns(asked.at("variables"), now);
        const auto tokens =
            tokenizers::tokens_of_turns(*tokenizers::open_tokenizer(asked.at("tokenizer").get<std::string>()), turns);
        answer = {{"text", turns.text}, {"ids", tokens.ids}, {"learned", tokens.loss_mask}};
      } else {
        answer["text"] = chat.render(asked.at("variables"), now);
      }
    } catch (const base::Error& error) {
      answer["error"] = error.what();
    }
    std::puts(answer.dump(-1, ' ', true).c_str());
  }
  return 0;
}
