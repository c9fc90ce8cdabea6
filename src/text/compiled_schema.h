// JSON Schema → which tokens may come next.
//
//   RAFTER_ASSIGN(TokenIndex index, TokenIndex::from(tokenizer, end_tokens));      // once per model
//   RAFTER_ASSIGN(auto schema, compile_json_schema(schema_json, index));           // once per schema
//   SchemaState state = schema->start();                                           // per answer
//   schema->mask(state)->apply(logits);  …  schema->advance(state, token);
//
// What is held: type (also a list), enum, const, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength, maxLength, pattern (character_automaton.h says which), format
// (date, time, date-time, duration, uuid, email, hostname, ipv4, uri; others are annotations), minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (integers), anyOf, oneOf (of alternatives that
// exclude each other), allOf (merged), $ref within the schema, also recursive, and OpenAPI's nullable. What
// else restricts is refused by name.
//
// Where a schema leaves open how a value is written, these hold:
//  - Members come in the order of `properties`; those that are not required may be left out. Additional ones
//    come last; where properties are named, only if additionalProperties says so.
//  - Keywords imply the type that they restrict where no type is given.
//  - White space is none, a space, or a new line with up to 40 spaces or tabs, behind { [ , : and before } ].
//  - Numbers have at most 18 digits in front of the point and 20 behind it; with bounds, no exponent.
//  - Strings are valid UTF-8; \uXXXX is for what is not printable ASCII, and surrogates come in pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/result.h"
#include "text/token_index.h"

namespace rafter::text {

// Any JSON object.
inline constexpr std::string_view kAnyJsonObject = R"({"type":"object"})";

class GrammarRun;  // a machine and the masks of its configurations

// Where an answer stands. Cheap to copy: a copy goes on independently.
class SchemaState {
 private:
  friend class CompiledSchema;
  std::shared_ptr<GrammarRun> run_;
  GrammarMachine::Configuration at_ = GrammarMachine::kDead;
};

// Every method may be called from several threads at once, with states of their own.
class CompiledSchema {
 public:
  CompiledSchema(ByteGrammar grammar, int32_t start, TokenIndex index);
  ~CompiledSchema();

  SchemaState start() const;

  // The tokens that may come next: from every one of them the value can be completed. End tokens exactly
  // where it is complete. Remembered for the next time, within a limit of memory.
  std::shared_ptr<const TokenMask> mask(SchemaState& state) const;

  // Goes on behind a token. False, and the state is as it was, if the token is not allowed; so for end
  // tokens.
  bool advance(SchemaState& state, int32_t token) const;

  // The same for bytes as a grammar reads them, of no matter which tokens.
  bool advance_bytes(SchemaState& state, std::string_view bytes) const;

  bool is_complete(const SchemaState& state) const;
  bool can_continue(const SchemaState& state) const;  // false: nothing but the end may follow

  const TokenIndex& index() const { return index_; }

  // What machine and masks may take before they are started afresh.
  static constexpr size_t kMostMemory = 64 << 20;

 private:
  std::shared_ptr<GrammarRun> current() const;
  void renew(SchemaState& state) const;

  const ByteGrammar grammar_;
  const int32_t start_;
  const TokenIndex index_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<GrammarRun> run_;  // where new states begin
};

// Errors: invalid_argument (not a JSON schema, or one that nothing satisfies), unsupported (a keyword that is
// not held, named with its place: "#/properties/age/not").
base::Result<std::shared_ptr<const CompiledSchema>> compile_json_schema(std::string_view schema_json,
                                                                        const TokenIndex& index);

}  // namespace rafter::text
