// The pieces of a vocabulary that are text (not bytes in the byte-level alphabet), with their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/bpe_tables.h"

namespace rafter::text {

class TextVocabulary {
 public:
  enum class Duplicates { refused, last_wins };

  // Empty pieces are holes. Error: no piece, too many, one that is not valid UTF-8, two ids
  // for one piece where that is refused.
  static base::Result<TextVocabulary> build(const std::vector<std::string>& pieces, Duplicates duplicates,
                                            const std::string& where);

  int32_t find(std::string_view piece) const {  // -1: none
    return piece.empty() ? -1 : table_.find(texts_, piece);
  }
  std::string_view operator[](int32_t id) const { return texts_[id]; }
  int32_t size() const { return texts_.size(); }

 private:
  TokenBytes texts_;
  PieceTable table_;
};

// The ids of the pieces "<0x00>" … "<0xFF>"; -1 where there is none.
struct ByteFallback {
  int32_t ids[256];
  bool is_complete = true;

  explicit ByteFallback(const TextVocabulary& vocabulary);
  // Appends the ids of all bytes of a text, or nothing and returns false if one has none.
  bool append(std::string_view text, std::vector<int32_t>& out) const;
};

}  // namespace rafter::text
