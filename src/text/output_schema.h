// What a request's tools declare about their arguments, and what a text means as a value of a declared type.
// Used by the parsers of markup that does not type its values (serving: "schema-aware decoding").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::text {

// The JSON types that a value may have, as bits. 0: nothing is declared.
using JsonTypes = uint8_t;
inline constexpr JsonTypes kNullType = 1, kBooleanType = 2, kIntegerType = 4, kNumberType = 8,
                           kStringType = 16, kArrayType = 32, kObjectType = 64;

// The part of a JSON schema that decides what a text means.
struct ArgumentSchema {
  JsonTypes types = 0;
  std::map<std::string, ArgumentSchema, std::less<>> properties;  // of an object
  std::vector<ArgumentSchema> items;                              // of an array: none or one

  // The schema of a property or of the items; one that declares nothing if there is none.
  const ArgumentSchema& property(std::string_view name) const;
  const ArgumentSchema& item() const;
};

// The functions that a request offers to the model.
class ToolSchemas {
 public:
  // `tools_json`: the request's `tools`, an array whose elements are {"type": "function", "function":
  // {"name", "parameters"}} (OpenAI), {"name", "input_schema"} (Anthropic) or {"name", "parameters"}.
  // Elements without a name are left out. Types come from `type` (a name or several), `nullable`, `enum`,
  // `const`, `properties`, `items`, and the union of `anyOf` and `oneOf`. Errors: invalid_argument.
  static base::Result<ToolSchemas> from_json(std::string_view tools_json);

  bool empty() const { return tools_.empty(); }
  // Null if there is no such function.
  const ArgumentSchema* find(std::string_view function) const;

 private:
  std::map<std::string, ArgumentSchema, std::less<>> tools_;
};

// The compact JSON of an argument that was written as plain text:
//  - only a string is declared: the text itself, so "123" and "true" stay strings;
//  - a number or integer: the number if the text is one (1.0 is 1 where an integer is declared);
//  - a boolean: true and false in any case;
//  - an array or object: JSON, or Python's notation of it;
//  - nothing, or several types: JSON if the text is JSON (a lone string is declared as well: only what fits
//  another
//    declared type);
//  - null where null is declared;
//  - and the text as a string wherever this fails.
std::string argument_json(std::string_view text, JsonTypes declared);

// Whether `declared` leaves no doubt that a text is a string, whatever it says.
inline bool is_certainly_string(JsonTypes declared) { return declared == kStringType; }

}  // namespace rafter::text
