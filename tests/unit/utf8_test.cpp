#include "base/utf8.h"

#include <gtest/gtest.h>

namespace rafter::base {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    Utf8Step step = decode_utf8(text);
    ASSERT_TRUE(step.valid) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(incomplete_utf8_suffix(text.substr(0, cut)), cut);
    }
    ASSERT_EQ(incomplete_utf8_suffix(text), 0u);
  }
}

TEST(Utf8, MalformedBytesAreReplacedPerMaximalSubpart) {
  EXPECT_EQ(replace_malformed_utf8("a\xC0\x80z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");              // overlong
  EXPECT_EQ(replace_malformed_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(replace_malformed_utf8("\xF0\x9F\x98!"), "\xEF\xBF\xBD!");                        // cut short
  EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));  // above U+10FFFF
}

}  // namespace
}  // namespace rafter::base
