// The models that look words up: WordPiece cuts a word greedily, WordLevel knows whole words only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_vocabulary.h"
#include "text/tokenizer_spec.h"
#include "text/word_model.h"

namespace rafter::text {

class WordPieceModel final : public WordModel {
 public:
  static base::Result<WordPieceModel> build(const WordPieceSpec& spec, const std::string& where);

  // The longest piece that the word begins with, then the longest one behind it that has the prefix of
  // continuing pieces, and so on. A word that cannot be cut so, or is too long, is one unknown piece.
  WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                          std::vector<int32_t>& ids) const override;
  int32_t find_piece(std::string_view piece) const override { return vocabulary_.find(piece); }
  std::string piece(int32_t id) const override { return std::string(vocabulary_[id]); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  WordPieceModel(TextVocabulary vocabulary, const WordPieceSpec& spec);

  // Bytes of the longest piece at the start of `rest`, and its id; 0 if there is none.
  size_t longest_piece(std::string_view rest, bool continues, std::string& scratch, int32_t& id) const;

  TextVocabulary vocabulary_;
  std::string prefix_;
  size_t longest_word_;
  size_t longest_piece_ = 0;  // bytes
  int32_t unknown_id_;        // -1: none
};

class WordLevelModel final : public WordModel {
 public:
  static base::Result<WordLevelModel> build(const WordLevelSpec& spec, const std::string& where);

  WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                          std::vector<int32_t>& ids) const override;
  int32_t find_piece(std::string_view piece) const override { return vocabulary_.find(piece); }
  std::string piece(int32_t id) const override { return std::string(vocabulary_[id]); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  WordLevelModel(TextVocabulary vocabulary, const WordLevelSpec& spec)
      : vocabulary_(std::move(vocabulary)), unknown_id_(vocabulary_.find(spec.unknown_piece)) {}

  TextVocabulary vocabulary_;
  int32_t unknown_id_;
};

}  // namespace rafter::text
