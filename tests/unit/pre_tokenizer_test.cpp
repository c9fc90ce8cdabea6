#include "text/pre_tokenizer.h"

#include <chrono>
#include <filesystem>
#include <random>

#include "base/utf8.h"
#include "tests/support/tokenizer_vectors.h"
#include "text/gguf_pre_tokenizer.h"
#include "text/regex.h"
#include "text/split_scanner.h"

namespace rafter::text {
namespace {

constexpr SplitScanner kScanners[] = {
    SplitScanner::gpt2,       SplitScanner::llama3,       SplitScanner::qwen2, SplitScanner::minicpm5,
    SplitScanner::qwen35,     SplitScanner::digit_groups, SplitScanner::o200k, SplitScanner::tekken,
    SplitScanner::ideographs, SplitScanner::deepseek};

std::vector<std::string> pieces_of(SplitScanner scanner, std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, first_piece_length(scanner, text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(SplitScanner, PublishedSplits) {
  const std::string first = "I'LL  go\r\n\r\n  to 12345!!\n";
  EXPECT_EQ(pieces_of(SplitScanner::gpt2, first),
            (Pieces{"I", "'", "LL", " ", " go", "\r\n\r\n ", " to", " 12345", "!!", "\n"}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, first),
            (Pieces{"I", "'LL", " ", " go", "\r\n\r\n", " ", " to", " ", "123", "45", "!!\n"}));
  EXPECT_EQ(pieces_of(SplitScanner::qwen2, first),
            (Pieces{"I", "'LL", " ", " go", "\r\n\r\n", " ", " to", " ", "1", "2", "3", "4", "5", "!!\n"}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "don't DON'T"), (Pieces{"don", "'t", " DON", "'T"}));
  EXPECT_EQ(pieces_of(SplitScanner::gpt2, "don't DON'T"), (Pieces{"don", "'t", " DON", "'", "T"}));
  EXPECT_EQ(pieces_of(SplitScanner::gpt2, "a\tb \t c   "), (Pieces{"a", "\t", "b", " \t", " c", "   "}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "a\tb \t c   "), (Pieces{"a", "\tb", " \t", " c", "   "}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "e\u0301te\u0301"), (Pieces{"e", "\u0301te", "\u0301"}));
  EXPECT_EQ(pieces_of(SplitScanner::qwen35, "e\u0301te\u0301"), (Pieces{"e\u0301te\u0301"}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "3.14²½١٢"), (Pieces{"3", ".", "14²", "½١٢"}));
  EXPECT_EQ(pieces_of(SplitScanner::qwen35, "\u200D😀\uFE0Fok"), (Pieces{"\u200D😀", "\uFE0Fok"}));
  EXPECT_EQ(pieces_of(SplitScanner::gpt2, "a\u0085b\u00A0\u3000c"),
            (Pieces{"a", "\u0085", "b", "\u00A0", "\u3000", "c"}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "a\u0085b\u00A0\u3000c"),
            (Pieces{"a", "\u0085b", "\u00A0", "\u3000c"}));
  EXPECT_EQ(pieces_of(SplitScanner::llama3, "'\u017Fx"), (Pieces{"'\u017F", "x"}));
  EXPECT_EQ(pieces_of(SplitScanner::gpt2, "'\u017Fx"), (Pieces{"'", "\u017Fx"}));
}

void expect_equal_to_oracle(const TokenizerVectors& vectors) {
  for (const SplitCase& entry : vectors.splits) {
    auto pre_tokenizer =
        PreTokenizer::compile({entry.step, ByteLevelStep{false, false}}, PreTokenizer::Pieces::bytes, "test");
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.error().message();
    for (size_t group : differing_groups(vectors, entry.hashes, piece_lengths_of(*pre_tokenizer))) {
      ADD_FAILURE() << entry.step.pattern << " differs in group " << group << ": "
                    << texts_of_group(vectors, group);
    }
  }
}

TEST(PreTokenizer, EverySplitGivesTheOraclesPieces) { expect_equal_to_oracle(committed_vectors()); }

TEST(PreTokenizer, LargeVectorsGiveTheOraclesPieces) {
  if (!std::filesystem::exists(large_vectors_path())) GTEST_SKIP() << kHowToMakeLargeVectors;
  expect_equal_to_oracle(read_tokenizer_vectors(large_vectors_path()));
}

// Random texts over all characters, and over few of them.
class RandomTexts {
 public:
  std::string next() {
    static constexpr char32_t kFew[] = {' ',   ' ',    '\n',  '\r',    '\t',   '\'',   's',  'L',
                                        'l',   'a',    '1',   '.',     '!',    0x85,   0xA0, 0x3000,
                                        'B',   '/',    0x1C5, 0x2B0,   0x416,  0x3042, 0x07, 0x17F,
                                        0x301, 0x4E2D, 0xBD,  0x1F600, 0x200D, 0x180E};
    std::string text;
    const size_t length = 1 + random_() % 24;
    const bool few = random_() % 4 != 0;
    while (text.size() < length) {
      const char32_t c =
          few ? kFew[random_() % std::size(kFew)] : static_cast<char32_t>(random_() % 0x110000);
      if (c < 0xD800 || c > 0xDFFF) base::append_utf8(text, c);
    }
    return text;
  }

 private:
  std::mt19937 random_{11};
};

TEST(SplitScanner, EqualsItsRegularExpression) {
  RandomTexts texts;
  for (SplitScanner scanner : kScanners) {
    ASSERT_EQ(scanner_for_pattern(pattern_of_scanner(scanner)), scanner);
    auto regex = Regex::compile(pattern_of_scanner(scanner), "test");
    ASSERT_TRUE(regex.ok()) << regex.error().message();
    std::vector<TextSpan> matches;
    for (int i = 0; i < 20000; ++i) {
      const std::string text = texts.next();
      ASSERT_TRUE(regex->find_all(text, matches).ok());
      Pieces expected;
      size_t end = 0;
      for (const TextSpan& match : matches) {
        if (match.begin > end) expected.push_back(text.substr(end, match.begin - end));
        expected.push_back(text.substr(match.begin, match.end - match.begin));
        end = match.end;
      }
      if (end < text.size()) expected.push_back(text.substr(end));
      ASSERT_EQ(pieces_of(scanner, text), expected) << pattern_of_scanner(scanner) << nlohmann::json(text);
    }
  }
}

TEST(PreTokenizer, LongRunsTakeLinearTime) {
  for (SplitScanner scanner : kScanners) {
    for (const char* unit : {" ", "\n", " \n", "a", "'", "1", ".", "\u3000", "\u0301", "\t\r"}) {
      std::string text;
      while (text.size() < (1u << 18)) text += unit;
      text += "x";
      EXPECT_FALSE(pieces_of(scanner, text).empty());
    }
  }
}

TEST(Regex, HostilePatternsGiveAnErrorNotAHang) {
  std::vector<TextSpan> matches;
  const std::string text(1 << 20, 'a');
  for (const char* pattern : {"(a+)+[bc]", "a+[bc]", "(?:a?){30}a{30}[bc]"}) {
    auto regex = Regex::compile(pattern, "hostile.json");
    ASSERT_TRUE(regex.ok()) << regex.error().message();
    const auto start = std::chrono::steady_clock::now();
    const base::Status status = regex->find_all(text, matches);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << pattern;
    EXPECT_FALSE(status.ok()) << pattern;
  }
}

TEST(Regex, WhatIsNotKnownToAgreeIsRefused) {
  for (const char* pattern :
       {"[a[b]]",     "[a-z&&[^b]]", "(?m:a)",    "a(?i)b|c", "(?<n>a)", "\\Gx",   "\\Kx",  "\\X",
        "\\p{Emoji}", "[\\W]",       "[^\\P{L}]", "(*FAIL)",  "\\xE9",   "(?C1)a", "(?R)",  "[[:alpha:]]",
        "a{2}?",      "\\1",         "(",         ")",        "[a",      "\\",     "\\u12", "a\xFF",
        "\\p{L",      "(?#x)",       "(?i:ss)",   "(?i:é)",   "\\pL"}) {
    auto regex = Regex::compile(pattern, "tokenizer.json");
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.error().message().find("tokenizer.json"), std::string::npos);
  }
}

TEST(PreTokenizer, PiecesOfBytesComeFromOneByteLevelStepAtTheEnd) {
  const auto compiles = [](const std::vector<PreTokenizerStep>& steps, PreTokenizer::Pieces pieces) {
    return PreTokenizer::compile(steps, pieces, "x").ok();
  };
  constexpr auto kBytes = PreTokenizer::Pieces::bytes, kText = PreTokenizer::Pieces::text;
  EXPECT_FALSE(compiles({}, kBytes));
  EXPECT_FALSE(compiles({DigitsStep{}}, kBytes));
  EXPECT_FALSE(compiles({ByteLevelStep{}, DigitsStep{}}, kBytes));
  EXPECT_TRUE(compiles({DigitsStep{}, ByteLevelStep{}}, kBytes));
  EXPECT_TRUE(compiles({}, kText));
  EXPECT_TRUE(compiles({ByteLevelStep{}, DigitsStep{}}, kText));
  EXPECT_FALSE(compiles(std::vector<PreTokenizerStep>(10000, ByteLevelStep{}), kText));
  EXPECT_FALSE(compiles({FixedLengthStep{0}}, kText));
}

TEST(GgufPreTokenizer, NamesLeadToTheirPatterns) {
  for (const char* name :
       {"llama3", "llama-v3", "llama-bpe",        "falcon3",        "falcon-h1",   "pixtral", "lfm2",
        "qwen2",  "qwen35",   "deepseek-r1-qwen", "gpt-2",          "mpt",         "olmo",    "jais",
        "phi-2",  "smollm",   "starcoder",        "refact",         "command-r",   "gpt-4o",  "llama4",
        "tekken", "minicpm5", "deepseek-llm",     "deepseek-coder", "deepseek-v3", "default"}) {
    auto choice = pre_tokenizer_from_gguf_name(name);
    ASSERT_TRUE(choice.ok()) << name;
    const auto compiled = PreTokenizer::compile(choice->steps, PreTokenizer::Pieces::bytes, name);
    EXPECT_TRUE(compiled.ok()) << name << ": " << compiled.error().message();
  }
  EXPECT_TRUE(pre_tokenizer_from_gguf_name("llama-bpe")->ignore_merges);
  EXPECT_TRUE(pre_tokenizer_from_gguf_name("llama-bpe")->add_bos);
  EXPECT_EQ(pre_tokenizer_from_gguf_name("qwen2")->normalizer.size(), 1u);
  auto unknown = pre_tokenizer_from_gguf_name("gpt-5\n");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, base::ErrorCode::unsupported);
  EXPECT_NE(unknown.error().message().find("gpt-5"), std::string::npos);
}

}  // namespace
}  // namespace rafter::text
