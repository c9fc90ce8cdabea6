// How JSON may write the characters of a string: as UTF-8; escaped by a letter where there is one; and by
// \uXXXX (a pair of surrogates above U+FFFF), unless they are printable ASCII, which has no need of it.
#pragma once

#include <map>
#include <string>

#include "text/byte_grammar.h"
#include "text/code_points.h"

namespace rafter::text {

// How strings are written: JSON's way, or as they are between other marks, as some models write the arguments
// of calls. Marks are bytes of the grammar (TokenIndex::marked), at least one.
struct StringNotation {
  std::string open = "\"", close = "\"";
  bool is_raw = false;  // characters stand for themselves
};

class JsonCharacters {
 public:
  // Writes into `grammar`, which must outlive it.
  explicit JsonCharacters(ByteGrammar& grammar, StringNotation notation = {})
      : grammar_(grammar), notation_(std::move(notation)) {}

  // One character of the set leads from a state to another.
  void add_edge(int32_t from, const CodePointSet& set, int32_t to);
  // The mark that ends a string.
  void add_close(int32_t from, int32_t to);

  const StringNotation& notation() const { return notation_; }

 private:
  void add_raw_edge(int32_t from, const CodePointSet& set, int32_t to);
  int32_t escaped_or_long(const CodePointSet& set);

  ByteGrammar& grammar_;
  StringNotation notation_;
  std::map<CodePointSet, int32_t> rules_;
};

// From behind the opening quote to behind the closing one: any characters, at least and at most so many
// (ByteGrammar::kUnlimited: any number). Returns the first state. In JSON's way only.
int32_t add_free_string_body(ByteGrammar& grammar, int32_t least, int32_t most);
int32_t add_free_string_body(ByteGrammar& grammar, JsonCharacters& characters, int32_t least, int32_t most);

}  // namespace rafter::text
