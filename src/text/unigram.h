// The Unigram model: the cut of a pre-token into pieces whose scores have the largest sum.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/piece_trie.h"
#include "text/tokenizer_spec.h"
#include "text/word_model.h"

namespace rafter::text {

class UnigramModel final : public WordModel {
 public:
  // Error: an empty or too large vocabulary, a score that is not finite, an unknown id outside of it.
  static base::Result<UnigramModel> build(const UnigramSpec& spec, const std::string& where);

  // Viterbi's algorithm over byte positions, in double precision. A path to a position is replaced only by a
  // strictly better one; pieces are tried from left to right, shorter ones first. Where no piece is a single
  // character an unknown one of that character may be taken, 10 below the lowest score of the vocabulary.
  // Neighbouring unknowns are one: their piece if there is one after all, else bytes, else the unknown id.
  WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                          std::vector<int32_t>& ids) const override;
  int32_t find_piece(std::string_view piece) const override { return vocabulary_.find(piece); }
  std::string piece(int32_t id) const override { return std::string(vocabulary_[id]); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  UnigramModel(TextVocabulary vocabulary, PieceTrie trie, const UnigramSpec& spec);

  // Fills workspace.nodes. False: something is unknown, and there is no unknown id.
  bool find_best_paths(std::string_view word, WordWorkspace& workspace) const;
  WordOutcome append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  TextVocabulary vocabulary_;
  PieceTrie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  bool single_precision_;  // of the sums: SentencePiece's own files are cut as its library does it
  std::optional<int32_t> unknown_id_;
  std::optional<ByteFallback> bytes_;
};

}  // namespace rafter::text
