// The arguments of calls in markup that writes each as plain text (Qwen3.5, MiniCPM5), as a grammar: what the
// parser reads of it obeys the function's schema. For implementation files of text/call_*.cpp only (includes
// nlohmann/json.hpp).
//
// What a text means depends on the declared type (argument_json in text/output_schema.h): where a string is
// declared the text is the string as it stands; everything else is JSON.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/json_schema_compiler.h"
#include "text/output_schema.h"

namespace rafter::text::schema {

// How one member is written. Texts are bytes of the grammar (TokenIndex::marked).
struct MemberMarkup {
  std::string before_name, behind_name;  // `<parameter=` and `>`
  std::vector<Notation> texts;           // ways to write a string: its marks are what parts it from the name
                                         // and what ends the member
  Notation json;                         // of the strings inside other values
  std::string json_open, json_close;     // around those
  std::string_view no_names;             // characters that no name may have
};

// Writes the members of one function's arguments into a grammar.
class ArgumentWriter {
 public:
  // All must outlive it. `declared`: what the parser takes the function's parameters to be.
  ArgumentWriter(ByteGrammar& grammar, Document& document, const ArgumentSchema& declared,
                 const MemberMarkup& markup)
      : grammar_(grammar), document_(document), declared_(declared), markup_(markup) {}

  // From a state to another. Failure: what the schema holds that cannot be written so.
  void write(int32_t from, int32_t to);

 private:
  struct Part {  // of the grammar, written by a compiler of its own
    std::unique_ptr<Compiler> compiler;
    struct Use {
      int32_t from, start, to;
    };
    std::vector<Use> uses;
  };
  void write_object(const Json& schema, const std::string& pointer, int32_t from, int32_t to);
  void write_member(const std::string& name, const Json& schema, const std::string& pointer, int32_t from,
                    int32_t to);
  void write_others(const Json& schema, const std::vector<std::string>& names, const std::string& pointer,
                    int32_t at);
  void write_value(const Json& schema, JsonTypes declared, const std::string& pointer, int32_t from,
                   int32_t to);
  void write_text(const Json& schema, JsonTypes declared, const std::string& pointer, int32_t from,
                  int32_t to);
  void write_json(const Json& schema, const std::string& pointer, int32_t from, int32_t to);
  void use(const std::string& part, const Notation& notation, const Json& schema, const std::string& pointer,
           int32_t from, int32_t to);

  ByteGrammar& grammar_;
  Document& document_;
  const ArgumentSchema& declared_;
  const MemberMarkup& markup_;
  std::map<std::string, Part> parts_;
};

// `parameters` as a schema of objects: one that says nothing of its type means an object.
const Json& object_schema(Document& document);

}  // namespace rafter::text::schema
