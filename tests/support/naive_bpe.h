// Byte-pair merging as its definition says it, by rescanning: slow, and the check of every faster way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

enum class Ties { leftmost, rightmost };

class NaiveBpe {
 public:
  explicit NaiveBpe(const BpeSpec& spec) {
    for (size_t id = 0; id < spec.pieces.size(); ++id) ids_[spec.pieces[id]] = static_cast<int32_t>(id);
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) ranks_[spec.merges[rank]] = rank;
  }

  std::vector<int32_t> encode_word(std::string_view bytes, Ties ties = Ties::leftmost) const {
    std::vector<std::string> symbols;
    for (char byte : bytes) symbols.push_back(bytes_to_alphabet(std::string_view(&byte, 1)));
    while (true) {
      size_t best = 0, best_rank = SIZE_MAX;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks_.find({symbols[i], symbols[i + 1]});
        if (found == ranks_.end()) continue;
        if (found->second < best_rank || (ties == Ties::rightmost && found->second == best_rank)) {
          best = i, best_rank = found->second;
        }
      }
      if (best_rank == SIZE_MAX) break;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<int32_t> ids;
    for (const std::string& symbol : symbols) ids.push_back(ids_.at(symbol));
    return ids;
  }

 private:
  std::map<std::string, int32_t> ids_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

}  // namespace rafter::text
