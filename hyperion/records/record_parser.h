// From a record's bytes to a document: the text, or the messages of a chat. Free functions without state, for any
// number of threads.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hyperion/records/raw_records.h"
#include "hyperion/text/chat_template.h"

namespace hyperion::records {

// Which fields of a JSON record are the document: the first of `messages`, `chat` and `text` that is given. A field's
// name may lead into objects by dots ("a.b"), unless there is a field of just that name.
struct FieldMapping {
  std::string text = "text";
  std::vector<std::pair<std::string, std::string>>
      chat;                     // role and field: {"user", "query"}, {"assistant", "response"}
  std::string messages;         // a field with [{"role", "content"}] or ShareGPT's [{"from", "value"}]
  std::string tools = "tools";  // beside messages, a field that a record may have: what the assistant may call
};

struct Document {
  std::string text;  // empty where there are messages
  std::vector<text::ChatMessage> messages;
  std::string tools = {};  // of messages: a JSON array; empty where the record has none
};

// ConfigError where the mapping asks for a chat and the format has only text.
void check_mapping(RecordFormat format, const FieldMapping& mapping);

// Throws BadRecord for what is not JSON (with line and column), invalid UTF-8 in JSON, a field that is missing (naming
// those that are there) or not text, and an empty text; only what the system or a tool says may be empty, and what the
// assistant says beside calls also null or left out. ShareGPT's "human" and "gpt" become "user" and "assistant". What
// else a message has is kept, unless it is null. Tools may be JSON in a text. What is not JSON is text as it is,
// whatever its bytes.
Document parse_record(const RawRecord& record, RecordFormat format, const FieldMapping& mapping);

}  // namespace hyperion::records
