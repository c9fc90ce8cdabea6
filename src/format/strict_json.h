// Strict JSON for files that may be hostile, as events, so that memory is what the visitor keeps: valid
// UTF-8, a depth limit, no duplicate key at any level, nothing but white space after the document.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::format {

enum class JsonKind : uint8_t {
  null,
  boolean,
  integer,  // written as a non-negative integer that fits 64 bits
  number,   // every other number
  string,
  object,
  array,
};

struct JsonEvent {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  uint64_t integer = 0;
  std::string_view string = {};
};

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;

  // A value; an object or array at its beginning. `path` holds the keys from the root to it; an element of an
  // array has an empty key. An error stops the parse.
  virtual base::Status value(std::span<const std::string> path, const JsonEvent& event) = 0;

  // The object or array at `path` is complete.
  virtual base::Status end(std::span<const std::string> path) {
    (void)path;
    return {};
  }
};

// Errors: invalid_data with `where`, or the visitor's.
base::Status parse_strict_json(std::string_view text, size_t max_depth, const std::string& where,
                               JsonVisitor& visitor);

// Python's json writes NaN, Infinity and -Infinity, which JSON has no words for. Each that stands where a
// value may stand becomes a string of that name: whoever wants a number there refuses it by name, and whoever
// does not read it does not mind. All else stays as it is.
std::string quote_non_finite_numbers(std::string text);

}  // namespace rafter::format
