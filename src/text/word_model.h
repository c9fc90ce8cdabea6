// What the models of a tokenizer have in common: pieces with ids, and the ids of one pre-token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/word_cache.h"

namespace rafter::text {

// What encoding needs for memory, to be used again for the next word. One per thread.
struct WordWorkspace {
  struct Symbol {
    int32_t id;
    uint32_t previous, next;  // positions; UINT32_MAX at the ends
    uint32_t rank;            // of the merge with the next symbol; kNoRank: none, or merged away
  };
  // The best way to a byte position: the cheapest path's last piece.
  struct Node {
    double score;
    uint32_t begin;  // UINT32_MAX: not reached
    int32_t id;
  };
  std::vector<int32_t> ids;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;
  std::vector<Node> nodes;
  std::string text;
  WordCache cache;

  // Gives back what a huge word took.
  void release_large() {
    constexpr size_t kLargest = size_t{1} << 16;
    if (ids.capacity() > kLargest) ids = {};
    if (symbols.capacity() > kLargest) symbols = {};
    if (queue.capacity() > kLargest) queue = {};
    if (nodes.capacity() > kLargest) nodes = {};
  }
};

enum class WordOutcome {
  done,
  no_unknown_piece,  // something is not in the vocabulary, and no piece stands for that
  too_long,
};

class WordModel {
 public:
  virtual ~WordModel() = default;

  // Appends the ids of a pre-token. Thread-safe with a workspace per thread.
  virtual WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                                  std::vector<int32_t>& ids) const = 0;

  // The id of a piece as the vocabulary writes it. -1: none.
  virtual int32_t find_piece(std::string_view piece) const = 0;
  // A piece as the vocabulary writes it; empty for a hole. Precondition: 0 <= id < size().
  virtual std::string piece(int32_t id) const = 0;
  // One past the largest id of the vocabulary.
  virtual int32_t size() const = 0;
};

}  // namespace rafter::text
