// Finds added tokens in text: leftmost, then longest, not overlapping, left to right.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// A stretch of text between added tokens (id -1), or an added token. Never empty text with id -1.
struct Segment {
  std::string_view text;
  int32_t id = -1;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher();

  // `content` is what to look for: token.content, or its normalized form. Not empty. A later token with the
  // same content replaces an earlier one. Error: content so long that hostile text could make the search
  // slow.
  base::Status add(std::string_view content, const AddedToken& token, const std::string& where);

  // Cuts valid UTF-8 into segments, in order. With `match_special` off, a special token found is passed over
  // as text (and no shorter token is looked for in its place).
  void split(std::string_view text, bool match_special, std::vector<Segment>& segments) const;

  bool empty() const { return tokens_.empty(); }

 private:
  // A trie of bytes: children of a node are a list.
  struct Node {
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    int32_t token = -1;  // index into tokens_
    uint8_t byte = 0;
  };
  struct Match {
    int32_t token = -1;
    size_t length = 0;
  };
  struct Attributes {
    int32_t id;
    bool special, lstrip, rstrip, single_word;
  };

  int32_t child(int32_t node, uint8_t byte) const;
  Match longest_match(std::string_view text) const;

  std::vector<Node> nodes_;
  std::array<int32_t, 256> root_;  // the node of a first byte, or -1
  std::vector<Attributes> tokens_;
};

}  // namespace rafter::text
