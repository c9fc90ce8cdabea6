// UTF-8, strictly as Unicode 15 table 3-7: no overlongs, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rafter::base {

// One decoding step. `length` is the bytes consumed (1 to 4; 0 only at the end of the text). For malformed
// input `valid` is false, `code_point` is U+FFFD and `length` is that of the maximal subpart, so a loop over
// decode_utf8 replaces exactly as the WHATWG decoder and Python's errors="replace" do. `truncated`: the text
// ends inside a sequence that could still become valid.
struct Utf8Step {
  char32_t code_point = 0xFFFD;
  uint8_t length = 0;
  bool valid = false;
  bool truncated = false;
};

Utf8Step decode_utf8(std::string_view text);
bool is_valid_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);

// Malformed bytes become U+FFFD, one per maximal subpart.
std::string replace_malformed_utf8(std::string_view text);

// Bytes at the end of `text` that begin a sequence which more bytes could complete: 0 to 3.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace rafter::base
