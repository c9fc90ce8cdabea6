// All pieces of a vocabulary that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_vocabulary.h"

namespace rafter::text {

class PieceTrie {
 public:
  // Longer pieces are refused: their length bounds the steps per byte of text.
  static constexpr size_t kLongestPiece = 1024;

  // `is_text` [id]: which pieces to have; empty: all.
  static base::Result<PieceTrie> build(const TextVocabulary& vocabulary, const std::vector<bool>& is_text,
                                       const std::string& where);

  // Calls visit(length, id) for every piece at the start of `text`, shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit visit) const {
    if (text.empty()) return;
    int32_t node = root_[static_cast<uint8_t>(text[0])];
    for (size_t length = 1; node >= 0; ++length) {
      const Node& here = nodes_[static_cast<size_t>(node)];
      if (here.id >= 0) visit(length, here.id);
      if (length == text.size()) return;
      node = child(here, static_cast<uint8_t>(text[length]));
    }
  }

 private:
  struct Node {
    int32_t id = -1;           // of the piece that ends here
    uint32_t first_child = 0;  // children are neighbours, by ascending byte
    uint16_t children = 0;
    uint8_t byte = 0;
  };

  int32_t child(const Node& node, uint8_t byte) const {
    for (uint32_t i = 0; i < node.children; ++i) {
      if (nodes_[node.first_child + i].byte == byte) return static_cast<int32_t>(node.first_child + i);
    }
    return -1;
  }

  std::vector<Node> nodes_;
  std::array<int32_t, 256> root_{};
};

}  // namespace rafter::text
