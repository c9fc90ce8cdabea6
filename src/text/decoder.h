// The texts of tokens put together: the decoder of a tokenizer file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pattern.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

class Decoder {
 public:
  // How much of the text the tokens before one decide about it.
  enum class Streaming {
    bytes,   // nothing: every token is a string of bytes, and the first bytes of all may be dropped
    window,  // something: a few tokens have to be decoded together
  };

  static base::Result<Decoder> compile(const TokenizerSpec& spec, const std::string& where);

  // The text of tokens, given as vocabularies write them. Valid UTF-8. A regular expression that takes too
  // long leaves its string as it is.
  std::string decode(std::vector<std::string> tokens) const;

  Streaming streaming() const { return streaming_; }
  // The bytes that a token stands for behind other tokens; with Streaming::window what it gives on its own.
  std::string bytes_of(std::string token) const;
  // Whether the token is one byte by name, "<0xE4>".
  bool is_byte_token(std::string_view token) const;
  bool has_byte_tokens() const { return has_byte_tokens_; }
  // With Streaming::bytes, how many spaces a text loses at its start at most, and whether only its first
  // token can lose them.
  size_t dropped_spaces() const { return dropped_spaces_; }
  bool drops_in_first_only() const { return drops_in_first_only_; }

 private:
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder, Replace,
                            MetaspaceDecoder, WordPieceDecoder, CtcDecoder, WordSuffixDecoder>;

  void choose_streaming(const std::vector<DecoderStep>& steps);
  static std::string replaced(const Replace& replace, const std::string& text);
  static void run(const Step& step, std::vector<std::string>& tokens);

  std::vector<Step> steps_;
  bool joins_with_spaces_ = false;
  bool has_byte_tokens_ = false;
  Streaming streaming_ = Streaming::window;
  size_t dropped_spaces_ = 0;
  bool drops_in_first_only_ = false;
};

}  // namespace rafter::text
