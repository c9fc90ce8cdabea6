#include <chrono>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/normal_form.h"

namespace rafter::text {
namespace {

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(normalize(NormalForm::nfc, text, storage));
}

// utf8proc's own normal form of the whole text at once.
std::string whole_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::string out(reinterpret_cast<char*>(result), static_cast<size_t>(length));
  std::free(result);
  return out;
}

TEST(Normalizer, KnownForms) {
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("\u212B \u2126"), "Å Ω");
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "각");
  EXPECT_EQ(nfc("\uAC00\u11A8"), "각");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(nfc("か\u3099"), "が");
}

TEST(Normalizer, NormalTextIsNotCopied) {
  for (std::string_view text : {"", "plain", "déjà vu Ж 中文 한글 😀"}) {
    std::string storage;
    EXPECT_EQ(normalize(NormalForm::nfc, text, storage).data(), text.data());
  }
}

TEST(Normalizer, StretchesEqualTheWhole) {
  std::mt19937 random(9);
  static constexpr char32_t kSome[] = {'a',    'e',     'q',    ' ',    0xE9,   0x301, 0x323,  0x307,
                                       0x345,  0x1100,  0x1161, 0x11A8, 0xAC00, 0x915, 0x93C,  0x958,
                                       0x304B, 0x3099,  0x4E2D, 0x212B, 0x37E,  0x344, 0x1E69, 0x2ADC,
                                       0xFB1D, 0x1D15E, 0x622,  0x627,  0x653,  0x654};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t i = random() % 12; i > 0; --i) {
      char32_t c = kSome[random() % std::size(kSome)];
      if (random() % 8 == 0) c = static_cast<char32_t>(random() % 0x30000);
      if (c < 0xD800 || c > 0xDFFF) base::append_utf8(text, c);
    }
    ASSERT_EQ(nfc(text), whole_nfc(text));
  }
}

TEST(Normalizer, EveryCharacterAloneAndBehindALetter) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    base::append_utf8(text, c);
    text = text + "a" + text;
    std::string storage;
    ASSERT_EQ(normalize(NormalForm::nfc, text, storage), whole_nfc(text))
        << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(Normalizer, LongRunsOfMarksAreNotQuadratic) {
  std::string text = "a";
  while (text.size() < 1u << 20) text += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(nfc(text).size(), text.size());  // ordered, the first mark composed
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // 0.1 s on an idle core
}

}  // namespace
}  // namespace rafter::text
