// Text → token ids and back. A value that is cheap to copy; every method may be called from several threads
// at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// Whether special tokens written in a text are recognised. `as_text` is for content that must not be able to
// inject control tokens; added tokens that are not special are found either way.
enum class SpecialTokens { match, as_text };

class Tokenizer {
 public:
  // From the content of a tokenizer.json. `where` names the file in errors. A component of a type that is not
  // known is an error (unsupported) that names it.
  static base::Result<Tokenizer> from_json(std::string_view json, const std::string& where);

  // From the content of a tokenizer.model, SentencePiece's own file. It does not say what to put around a
  // text: the beginning-of-text token if there is one, as Llama's and Gemma's tokenizers do.
  static base::Result<Tokenizer> from_sentencepiece(std::string_view bytes, const std::string& where);

  static base::Result<Tokenizer> from_spec(const TokenizerSpec& spec, const std::string& where);

  // The ids of a text. Malformed UTF-8 is read as U+FFFD, one per maximal subpart. `add_special` puts the
  // tokenizer's prefix and suffix (BOS, EOS) around; a rendered chat template already has them as text.
  // Error: the text is over 1 GiB, a regular expression of the file takes too long on it, or it has a word
  // that the vocabulary cannot write and no token for unknown ones.
  base::Result<std::vector<int32_t>> encode(std::string_view text, bool add_special,
                                            SpecialTokens special = SpecialTokens::match) const;

  // The text of the ids as the file's decoder has it. Malformed UTF-8 is U+FFFD: one per maximal subpart
  // where tokens are bytes, one per byte where they are characters with bytes as a fallback. Ids that do not
  // exist are skipped, special tokens too if `skip_special`.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // The bytes that an id adds to the text behind other ids; empty for an id that does not exist (a padded
  // vocabulary has such).
  std::string_view token_bytes(int32_t id) const;

  // Whether an id is one byte by name, "<0xE4>", in a vocabulary of characters.
  bool is_byte_token(int32_t id) const;
  bool has_byte_tokens() const;
  const Decoder& decoder() const;

  // The token as vocabularies write it: "Ġthe", "<|im_end|>".
  std::string piece(int32_t id) const;

  bool is_special(int32_t id) const;

  // The id of an added token's content, or of a piece as vocabularies write it.
  std::optional<int32_t> token_id(std::string_view content) const;

  // One past the largest id, added tokens included. There may be holes.
  int32_t vocab_size() const;

  // What encode puts around when `add_special`.
  const std::vector<int32_t>& prefix() const;
  const std::vector<int32_t>& suffix() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace rafter::text
