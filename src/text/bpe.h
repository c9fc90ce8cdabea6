// The byte-level BPE model: the tokens of one pre-token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/bpe_tables.h"
#include "text/tokenizer_spec.h"
#include "text/word_model.h"

namespace rafter::text {

class BpeModel final : public WordModel {
 public:
  // Error: too many pieces, two ids for one piece, a merge of a piece or into a piece that is not in the
  // vocabulary.
  static base::Result<BpeModel> build(const BpeSpec& spec, const std::string& where);

  // Appends the tokens of a pre-token, given as raw bytes. Merges the adjacent pair of lowest rank, the
  // leftmost of equals, until none is left. O(n log n) in the bytes of the pre-token.
  WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                          std::vector<int32_t>& ids) const override;

  // The id of a piece written in the byte-level alphabet (or, failing that, literally). -1: none.
  int32_t find_piece(std::string_view piece) const override;

  // A piece as the vocabulary writes it.
  std::string piece(int32_t id) const override;

  // One past the largest id of the vocabulary.
  int32_t size() const override { return bytes_.size(); }
  // The bytes that an id stands for; empty for a hole.
  std::string_view bytes(int32_t id) const { return bytes_[id]; }

 private:
  int32_t find_literal_piece(std::string_view piece) const;
  base::Status add_pieces(const BpeSpec& spec, const std::string& where);
  base::Status add_merges(const BpeSpec& spec, const std::string& where);
  base::Status add_bytes(const BpeSpec& spec, const std::string& where);

  // The tokens of the single bytes.
  void split_into_bytes(std::string_view word, std::vector<int32_t>& symbols) const;

  TokenBytes bytes_;
  PieceTable pieces_;                    // of the pieces written in the alphabet, by their bytes
  std::vector<int32_t> literal_pieces_;  // ids of the others, sorted by their text: text can never reach them
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};  // -1: not in the vocabulary
  bool has_all_bytes_ = false;
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

}  // namespace rafter::text
