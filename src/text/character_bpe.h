// Byte-pair encoding over characters: SentencePiece's vocabularies (Llama 2, Mistral, Gemma) and those of the
// first BPE tokenizers, with "</w>" or "##".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/bpe_tables.h"
#include "text/text_vocabulary.h"
#include "text/tokenizer_spec.h"
#include "text/word_model.h"

namespace rafter::text {

class CharacterBpeModel final : public WordModel {
 public:
  // Error: too many pieces or merges, two ids for one piece, a merge of a piece or into a piece that is not
  // in the vocabulary, an unknown piece that is not.
  static base::Result<CharacterBpeModel> build(const BpeSpec& spec, const std::string& where);

  // Characters, then merges as in text/bpe_merge.h. A word may be a whole text without spaces: it is cut
  // first wherever no merge can join the characters on both sides, so the parts are short and repeat.
  WordOutcome encode_word(std::string_view word, WordWorkspace& workspace,
                          std::vector<int32_t>& ids) const override;
  int32_t find_piece(std::string_view piece) const override {
    const int32_t id = vocabulary_.find(piece);
    return id < size_ ? id : -1;
  }
  std::string piece(int32_t id) const override { return std::string(vocabulary_[id]); }
  int32_t size() const override { return size_; }

 private:
  // Which characters some merge joins, as hashed bits: a pair that is not there is never joined.
  class JoinedPairs {
   public:
    void add(char32_t left, char32_t right);
    bool may_have(char32_t left, char32_t right) const {
      const uint32_t bit = bit_of(left, right);
      return (bits_[bit / 64] >> (bit % 64) & 1) != 0;
    }

   private:
    static constexpr uint32_t kLogBits = 22;
    static uint32_t bit_of(char32_t left, char32_t right) {
      const uint64_t key = static_cast<uint64_t>(left) << 32 | right;
      return static_cast<uint32_t>(key * 0x9E3779B97F4A7C15u >> (64 - kLogBits));
    }
    std::vector<uint64_t> bits_ = std::vector<uint64_t>((size_t{1} << kLogBits) / 64);
  };

  CharacterBpeModel(TextVocabulary vocabulary, int32_t size, const BpeSpec& spec);

  base::Status add_listed_merges(const BpeSpec& spec, const std::string& where);
  base::Status add_scored_merges(const BpeSpec& spec, const std::string& where);
  void add_merge(int32_t left, int32_t right, Merge merge, bool replace);
  base::Status find_unknown(const BpeSpec& spec, const std::string& where);

  int32_t symbol_of(std::string_view character, char32_t code_point) const {
    return code_point < symbols_.size() ? symbols_[code_point] : vocabulary_.find(character);
  }
  bool is_boundary(std::string_view word, size_t position) const;
  void encode_part(std::string_view part, WordWorkspace& workspace, std::vector<int32_t>& ids) const;
  void split_into_symbols(std::string_view part, WordWorkspace& workspace) const;
  // The ids of a symbol behind the vocabulary: a character that only occurs inside pieces. The ids of the
  // part begin at `first_id`.
  void append_character(int32_t symbol, size_t first_id, std::vector<int32_t>& ids) const;

  TextVocabulary vocabulary_;     // and, behind it, characters that are no piece but part of a merge
  int32_t size_;                  // of the vocabulary proper
  std::vector<int32_t> symbols_;  // [code point] of the basic plane; -1: none
  MergeTable merges_;
  JoinedPairs joined_;
  std::optional<ByteFallback> bytes_;
  std::string continuing_prefix_, word_suffix_;
  int32_t unknown_id_ = -1;
  bool fuse_unknown_;
  bool ignore_merges_;
  bool cuts_ = true;       // whether words are cut into parts
  bool knows_all_ = true;  // whether every character has ids of its own that no merge touches but as listed
};

}  // namespace rafter::text
