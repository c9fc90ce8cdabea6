// Failure: how a template error travels inside the engine. The language's own semantics are those of
// exceptions (an error deep in a filter ends the render), so the engine throws this one type and
// chat_template.cpp turns it into a base::Error. It never leaves src/text/jinja_*; nothing else is thrown on
// purpose.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace rafter::text::jinja {

enum class FailureKind {
  syntax,     // the template cannot be parsed or compiled
  type,       // an operation met a value it is not made for (Python's TypeError)
  value,      // a value is out of what an operation takes (ValueError, LookupError, ZeroDivisionError)
  undefined,  // an undefined value was used
  raised,     // the template called raise_exception
  limit,      // a bound on steps, depth or memory was met
};

struct Failure {
  FailureKind kind;
  std::string message;
  int line = 0;  // 1-based; 0 until the interpreter knows
};

template <typename... Arguments>
[[noreturn]] void fail(FailureKind kind, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Failure{kind, fmt::format(format, std::forward<Arguments>(arguments)...)};
}

}  // namespace rafter::text::jinja
