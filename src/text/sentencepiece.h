// SentencePiece models: what a `tokenizer.model` file holds, and what GGUF files of such models repeat in
// their metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

enum class SentencePieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePieceModel {
  enum class Algorithm { bpe, unigram };

  Algorithm algorithm = Algorithm::unigram;
  std::vector<std::string> pieces;       // [id]
  std::vector<float> scores;             // [id]
  std::vector<SentencePieceType> types;  // [id]
  std::string charsmap;                  // precompiled normalization rules; may be empty
  bool add_space_prefix = true;          // one space in front of the text
  bool remove_extra_spaces = false;      // those at the ends, and all but one of a run
  bool escape_spaces = true;             // as U+2581
  int32_t bos = 1, eos = 2;              // -1: none
};

// Reads the protocol buffer of a tokenizer.model. Error: malformed, or an algorithm other than BPE and
// Unigram.
base::Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes, const std::string& where);

// The tokenizer of a model. Control and unknown pieces are special added tokens, user-defined ones plain
// added tokens; unused ones are never made. `add_bos`, `add_eos`: what encoding puts around.
TokenizerSpec spec_of_sentencepiece(const SentencePieceModel& model, bool add_bos, bool add_eos);

}  // namespace rafter::text
