// A JSON Schema to a ByteGrammar of the values it takes. For implementation files of text/json_schema_*.cpp
// only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "text/byte_grammar.h"
#include "text/character_automaton.h"
#include "text/json_characters.h"
#include "text/json_schema_document.h"

namespace rafter::text::schema {

// How values are written where it is not JSON.
struct Notation {
  StringNotation strings = {};
  bool bare_keys = false;  // names that are words stand without marks
  // The strings there may be; null: all. A raw notation has one, without what would end a string.
  std::shared_ptr<const CharacterAutomaton> possible = nullptr;
};

class Compiler {
 public:
  // `document` must outlive it.
  explicit Compiler(Document& document, Notation notation = {})
      : document_(document),
        bare_keys_(notation.bare_keys),
        possible_(std::move(notation.possible)),
        characters_(grammar, std::move(notation.strings)) {}

  // The state where a value of the schema begins. Failure: see compile_json_schema.
  int32_t run(const Json& root);
  // The same without white space in front of it; may be called for several schemas of the document.
  int32_t value_of(const Json& schema, const std::string& pointer);

  ByteGrammar grammar;

 private:
  // A schema inside the one being written: its state now, its content later.
  int32_t later(const Json& schema, const std::string& pointer);
  // A schema that stands for the one being written: its content now.
  int32_t now(const Json& schema, const std::string& pointer);
  void fill(const Json& schema, const std::string& pointer, int32_t start);
  void fill_object(const Json& schema, const std::string& pointer, int32_t start);
  void fill_plain(const Json& schema, const std::string& pointer, int32_t start);
  void fill_values(const Json& values, const std::set<std::string>& types, const std::string& pointer,
                   int32_t start);
  void add_literal(const Json& value, const std::string& pointer, int32_t start);
  void check_size(const std::string& pointer) const;

  // Each adds the values of one type behind `start`.
  void add_string(const Json& schema, const std::string& pointer, int32_t start);
  void add_integers(const Json& schema, const std::string& pointer, int32_t start);
  void add_numbers(const Json& schema, const std::string& pointer, int32_t start);
  void add_array(const Json& schema, const std::string& pointer, int32_t start);
  void add_object(const Json& schema, const std::string& pointer, int32_t start);

  void add_member_value(int32_t from, const Json& schema, const std::string& pointer, int32_t to);
  void add_other_member(int32_t from, const std::vector<std::string>& names, const Json& schema,
                        const std::string& pointer, int32_t to);

  // The name of a member; returns the state behind it.
  int32_t add_name(int32_t from, const std::string& name);
  // A string's opening mark leads to its body.
  void open_string(int32_t start, int32_t body);
  int32_t string_body(const CharacterAutomaton& automaton, const std::string& pointer);
  void add_words(int32_t start, std::initializer_list<const char*> words);
  // Any one of these strings, with its marks.
  int32_t one_of(const std::vector<std::string>& texts, const std::string& pointer);
  int32_t free_body(int32_t least, int32_t most, const std::string& pointer);
  // What closes a list or an object, from a state of it.
  int32_t closing(char bracket);
  int32_t white_space();

  struct Place {
    int32_t start;
    bool is_filled = false, is_under_way = false;
  };
  struct Task {
    const Json* schema;
    std::string pointer;
  };
  Document& document_;
  const bool bare_keys_;
  const std::shared_ptr<const CharacterAutomaton> possible_;
  JsonCharacters characters_;
  std::map<const Json*, Place> places_;
  std::deque<Task> tasks_;
  std::map<std::pair<int32_t, int32_t>, int32_t> free_bodies_;
  std::map<std::string, int32_t> pattern_bodies_;
  std::map<char, int32_t> closings_;
  int32_t white_space_ = -1, any_number_ = -1;
};

// The regular expression of a format that is checked; null for others, which are annotations.
const char* format_pattern(std::string_view format);

// A keyword's non-negative whole number. Failure: it is none, or larger than `largest`.
int32_t count_of(const Json& schema, const char* keyword, int32_t otherwise, int32_t largest,
                 const std::string& pointer);

}  // namespace rafter::text::schema
