// A Jinja template as tokens and as a tree.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/text/jinja_fault.h"
#include "hyperion/text/jinja_value.h"

namespace hyperion::text::jinja {

struct Token {
  enum class Kind { kText, kPrintBegin, kPrintEnd, kBlockBegin, kBlockEnd, kName, kString, kNumber, kSign, kEnd };
  Kind kind;
  std::string text;
  int line;
};

// As transformers sets Jinja up: trim_blocks and lstrip_blocks, no trailing newline kept.
std::vector<Token> tokens_of(std::string_view source);

struct Expression {
  enum class Kind {
    kConstant,   // constant
    kName,       // name
    kList,       // children
    kDict,       // children: key, value, key, value...
    kAttribute,  // children[0] . name
    kItem,       // children[0] [ children[1] ]
    kSlice,      // children[0] [ children[1] : children[2] : children[3] ]; absent ones are none
    kCall,       // children[0] ( the rest, then one child for each of names )
    kFilter,     // children[0] | name ( likewise )
    kTest,       // children[0] is name ( the rest )
    kUnary,      // name: not, -, +
    kBinary,     // name: and, or, in, not in, ==, ... + - * / // % ~
    kCondition,  // children: condition, then, else (may be absent: undefined)
  };
  Kind kind;
  int line;
  std::string name;
  std::vector<Expression> children;
  std::vector<std::string> names;  // of the last arguments
  Value constant;
};

struct Statement {
  enum class Kind { kText, kPrint, kIf, kFor, kSet, kSetBlock, kMacro, kGeneration, kBreak, kContinue };
  Kind kind;
  int line;
  std::string text;                     // kText; the macro's name
  std::vector<std::string> names;       // kFor, kSet: the targets; kMacro: parameters
  std::string attribute;                // kSet: of the namespace names[0]
  std::vector<Expression> expressions;  // kIf: condition; kFor: sequence, filter; kMacro: defaults of the last
  std::vector<Statement> body, other;   // other: else
};

// Throws Fault that names what is not known here.
std::vector<Statement> parse(std::string_view source);

}  // namespace hyperion::text::jinja
