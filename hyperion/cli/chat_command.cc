#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "hyperion/base/error.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/device/device.h"
#include "hyperion/serve/chat.h"
#include "hyperion/serve/input.h"
#include "hyperion/serve/terminal.h"

namespace hyperion::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kChatHelp =
    "/reset          forget what was said\n"
    "/system TEXT    tell the model this first, and begin anew; without TEXT the template's own\n"
    "/exit, /quit    leave, as Ctrl-D does\n"
    "//...           say a text that begins with a slash\n"
    "Arrows, Home, End and Delete edit the line; up and down bring earlier lines back. Ctrl-C ends an answer that is\n"
    "being written, and elsewhere leaves.\n";

void say_answer(serve::Chat& chat, const std::string& said) {
  chat.answer(said, [](size_t, std::string_view piece, bool last) {
    serve::write_text(piece);
    if (last) std::fputc('\n', stdout);
    std::fflush(stdout);
  });
}

enum class Said { question, command, farewell };

Said obey(serve::Chat& chat, const std::string& typed) {
  const bool bare = typed == "help" || typed == "exit" || typed == "quit";
  const std::string line = bare ? "/" + typed : typed;
  if (!line.starts_with('/') || line.starts_with("//")) return Said::question;
  const size_t space = line.find(' ');
  const std::string word = line.substr(0, space);
  if (word == "/exit" || word == "/quit") return Said::farewell;
  if (word == "/reset") {
    chat.reset();
    std::printf("(forgotten)\n");
  } else if (word == "/system") {
    chat.reset(space == line.npos ? "" : line.substr(space + 1));
    std::printf("(begun anew)\n");
  } else {
    if (word != "/help") std::printf("%s is not known here; these are:\n", word.c_str());
    std::printf("%s", kChatHelp);
  }
  return Said::command;
}

// A question that cannot be answered, as one too long for the model, ends no dialogue.
void talk_with_person(serve::Chat& chat) {
  std::printf("Say something; /help lists commands, Ctrl-D ends.\n");
  serve::LineEditor editor;
  while (const auto line = serve::read_line(editor, kPrompt)) {
    if (line->empty()) continue;
    const Said kind = obey(chat, *line);
    if (kind == Said::farewell) return;
    if (kind == Said::command) continue;
    try {
      say_answer(chat, line->substr(line->starts_with("//") ? 1 : 0));
    } catch (const base::ConfigError& error) {
      std::fputs(base::error_text(error).c_str(), stderr);
    } catch (const base::Interrupted&) {
      if (!base::forget_interrupt()) throw;
      std::printf("\n(stopped; the question is forgotten, /exit leaves)\n");
    }
  }
}

}  // namespace

int chat_command(const ChatOptions& options) {
  const auto device = device::open_device(options.device);
  auto opened = open_text_model(options, device);
  serve::Chat chat(opened, device, decoding_of(options), options.system);
  if (serve::can_edit_lines()) {
    talk_with_person(chat);
    return 0;
  }
  while (const auto line = serve::read_plain_line(std::cin))
    if (!line->empty()) say_answer(chat, *line);
  return 0;
}

}  // namespace hyperion::cli
