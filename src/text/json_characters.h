// How JSON may write the characters of a string: as UTF-8; escaped by a letter where there is one; and by
// \uXXXX (a pair of surrogates above U+FFFF), unless they are printable ASCII, which has no need of it.
#pragma once

#include <map>

#include "text/byte_grammar.h"
#include "text/code_points.h"

namespace rafter::text {

class JsonCharacters {
 public:
  // Writes into `grammar`, which must outlive it.
  explicit JsonCharacters(ByteGrammar& grammar) : grammar_(grammar) {}

  // One character of the set leads from a state to another.
  void add_edge(int32_t from, const CodePointSet& set, int32_t to);

 private:
  int32_t escaped_or_long(const CodePointSet& set);

  ByteGrammar& grammar_;
  std::map<CodePointSet, int32_t> rules_;
};

// From behind the opening quote to behind the closing one: any characters, at least and at most so many
// (ByteGrammar::kUnlimited: any number). Returns the first state.
int32_t add_free_string_body(ByteGrammar& grammar, int32_t least, int32_t most);
int32_t add_free_string_body(ByteGrammar& grammar, JsonCharacters& characters, int32_t least, int32_t most);

}  // namespace rafter::text
