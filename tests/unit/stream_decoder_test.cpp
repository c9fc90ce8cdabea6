#include "text/stream_decoder.h"

#include <random>

#include "base/utf8.h"
#include "tests/support/tokenizer_vectors.h"

namespace rafter::text {
namespace {

TEST(Utf8Stream, HoldsAtMostTheStartOfOneCharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "😀z");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("\xE2\x82\xAC"), "\uFFFD€");  // the first start is given up
  EXPECT_EQ(stream.push("\xC0\xED\xA0"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(stream.push("\xF4"), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push("ok"), "ok");
}

TEST(Utf8Stream, EqualsTheWholeForAnyCut) {
  std::mt19937 random(1);
  static constexpr std::string_view kParts[] = {
      "a",    "é",        "€",        "😀",   "\x80",         "\xC3",
      "\xE2", "\xE2\x82", "\xF0\x9F", "\xF0", "\xED\xA0\x80", "\xF4\x90",
      "\xFF", "\xC0\xAF", "\uFFFD"};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (uint32_t i = random() % 12; i > 0; --i) bytes += kParts[random() % std::size(kParts)];
    Utf8Stream stream;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 4;
      const std::string part = stream.push(std::string_view(bytes).substr(at, length));
      EXPECT_TRUE(base::is_valid_utf8(part));
      text += part;
      at += length;
      EXPECT_GE(text.size() + 3, base::replace_malformed_utf8(bytes.substr(0, at)).size() / 3);
    }
    text += stream.flush();
    ASSERT_EQ(text, base::replace_malformed_utf8(bytes));
  }
}

TEST(StreamDecoder, EqualsTheFullDecodeOfTheSameIds) {
  std::mt19937 random(2);
  for (const char* name : {"llama3", "qwen2_added", "gpt2_prefix_space"}) {
    auto tokenizer = load_case(committed_vectors().tokenizer(name));
    ASSERT_TRUE(tokenizer.ok());
    for (bool skip_special : {false, true}) {
      StreamDecoder decoder(*tokenizer, skip_special);
      for (int round = 0; round < 500; ++round) {
        std::vector<int32_t> ids;
        std::string text;
        for (uint32_t i = random() % 20; i > 0; --i) {
          ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer->vocab_size() + 3)));
          const std::string part = decoder.push(ids.back());
          EXPECT_TRUE(base::is_valid_utf8(part));
          text += part;
        }
        text += decoder.flush();
        ASSERT_EQ(text, tokenizer->decode(ids, skip_special));
      }
    }
  }
}

TEST(StreamDecoder, GivesBackEncodedText) {
  auto tokenizer = load_case(committed_vectors().tokenizer("llama3"));
  ASSERT_TRUE(tokenizer.ok());
  for (const std::string& text : committed_vectors().texts) {
    StreamDecoder decoder(*tokenizer, false);
    std::string decoded;
    const std::vector<int32_t> ids = *tokenizer->encode(text, false);
    for (int32_t id : ids) decoded += decoder.push(id);
    EXPECT_EQ(decoded + decoder.flush(), text);
  }
}

}  // namespace
}  // namespace rafter::text
