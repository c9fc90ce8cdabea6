// Turns generated ids into text as they come. Never emits half a character: at most 3 bytes wait for their
// rest, so the pieces put together equal the full decode of the same ids, however they are cut. One
// exception: where bytes are a fallback, `decode` gives up a whole run of byte tokens if any part of it is
// malformed, which cannot be known before the run ends; here its good characters come out as they are
// completed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace rafter::text {

// Valid UTF-8 from bytes that come in any portions; malformed bytes become U+FFFD, one per maximal subpart.
class Utf8Stream {
 public:
  // What becomes of malformed bytes.
  enum class Malformed { per_subpart, per_byte };

  explicit Utf8Stream(Malformed malformed = Malformed::per_subpart) : malformed_(malformed) {}

  // The text that is complete now.
  std::string push(std::string_view bytes);
  // The end: what waited can no longer be completed and becomes U+FFFD.
  std::string flush();

 private:
  std::string repair(std::string_view bytes) const;

  Malformed malformed_;
  std::string pending_;  // the start of a character, at most 3 bytes
};

class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, bool skip_special);

  // The text that this id completes; may be empty.
  std::string push(int32_t id);
  // The rest of the text. The decoder can then start again.
  std::string flush();

 private:
  std::string push_bytes(int32_t id);
  std::string push_window(int32_t id);
  std::string without_dropped_spaces(std::string text);

  Tokenizer tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
  // Where a text loses spaces at its start: how many may still go.
  size_t dropped_spaces_ = 0;

  // Where tokens have to be decoded together: the last ids, and the text of those before the newest one.
  std::vector<int32_t> window_;
  std::string window_text_;
};

}  // namespace rafter::text
