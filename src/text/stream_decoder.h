// Turns generated ids into text as they come. Never emits half a character: at most 3 bytes wait for their
// rest, so the pieces put together equal the full decode of the same ids, however they are cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace rafter::text {

// Valid UTF-8 from bytes that come in any portions; malformed bytes become U+FFFD, one per maximal subpart.
class Utf8Stream {
 public:
  // The text that is complete now.
  std::string push(std::string_view bytes);
  // The end: what waited can no longer be completed and becomes U+FFFD.
  std::string flush();

 private:
  std::string pending_;  // the start of a character, at most 3 bytes
};

class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, bool skip_special)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text that this id completes; may be empty.
  std::string push(int32_t id);
  // The rest of the text. The decoder can then start again.
  std::string flush() { return stream_.flush(); }

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
};

}  // namespace rafter::text
