// A JSON Schema as a document: read within limits, its references followed, its combinations of schemas
// (allOf beside anyOf beside keywords of its own) written out as alternatives without any. For implementation
// files of text/json_schema_*.cpp only (includes nlohmann/json.hpp).
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::text::schema {

using Json = nlohmann::ordered_json;  // keeps the order of properties

// What ends the compilation of a schema. Caught in compile_json_schema.
struct Failure {
  base::Error error;
};

// `pointer`: where in the schema, "#/properties/age"; `keyword` may be empty.
[[noreturn]] void fail(base::ErrorCode code, const std::string& pointer, std::string_view keyword,
                       std::string what);
[[noreturn]] inline void refuse(const std::string& pointer, std::string_view keyword, std::string what) {
  fail(base::ErrorCode::unsupported, pointer, keyword, std::move(what));
}

std::string pointer_to(const std::string& pointer, std::string_view key);  // escapes the key

// The text as JSON. Failure (invalid_argument): not JSON, too large, too deep, too many members.
Json read_schema(std::string_view text);

// What a keyword does.
enum class KeywordKind {
  annotation,  // or unknown: nothing
  assertion,   // restricts values of some type
  applicator,  // $ref, allOf, anyOf, oneOf
  refused,     // restricts in a way that is not read here
};
KeywordKind keyword_kind(std::string_view keyword);
// Failure (unsupported): a keyword that is refused, unless it says that it restricts nothing.
void check_keyword(std::string_view keyword, const Json& value, const std::string& pointer);

class Document {
 public:
  explicit Document(Json root) : root_(std::move(root)) {}

  const Json& root() const { return root_; }

  // What a "$ref" of this document names. Failure: it leads elsewhere, or nowhere.
  const Json& resolve(const Json& reference, const std::string& pointer) const;

  // A schema that is no part of the text, kept with the document: the same one for the same content.
  const Json& keep(Json schema);

  // Failure (unsupported): the alternatives of a oneOf are not known to exclude each other.
  void check_one_of(const Json& list, const std::string& pointer);

  // The alternatives that a schema object comes to: each without applicators, kept with the document.
  std::vector<const Json*> alternatives(const Json& schema, const std::string& pointer);

 private:
  std::vector<Json> expand(const Json& schema, const std::string& pointer, int depth);

  Json root_;
  std::deque<Json> kept_;
  std::map<std::string, const Json*> kept_by_content_;
  size_t kept_bytes_ = 0;
};

// A schema for what both take; neither has applicators.
Json merge(const Json& a, const Json& b, const std::string& pointer);

}  // namespace rafter::text::schema
