// Random answers of every family, whole, broken and cut anywhere; and that time is linear and little is held.
#include <chrono>

#include <gtest/gtest.h>

#include "tests/support/output_checks.h"

namespace rafter::text {
namespace {

class Families : public ::testing::TestWithParam<size_t> {
 protected:
  const testing::FamilySpelling spelling_ = testing::family_spellings()[GetParam()];
};

TEST_P(Families, ReadWhatIsWrittenHoweverItIsCut) {
  const auto result = testing::check_family(spelling_, 3000, 11);
  EXPECT_TRUE(result.wrong.empty()) << result.wrong.size() << " wrong\n" << result.wrong.front();
  EXPECT_EQ(result.answers, 3000u);
  EXPECT_GT(result.calls, 2000u);
  EXPECT_GT(result.broken, 300u);
}

// A family's own markup and others', in any order.
TEST_P(Families, RandomFragmentsAreNeverLost) {
  std::mt19937 random(5);
  std::vector<std::string> parts = {"<think>", "</think>", " ",    "\n", "text", "{",          "}",
                                    "\"",      "<",        "name", ":",  ",",    "get_weather"};
  const testing::RandomCall call{"get_weather", {{"city", "Z"}}};
  const std::string written = spelling_.write({call, call}, random);
  for (size_t at = 0, size; at < written.size(); at += size)
    parts.push_back(written.substr(at, size = 1 + random() % 24));
  for (const std::string& opener : spelling_.openers) parts.push_back(opener);
  const OutputFormat format = testing::output_format(spelling_.family);
  OutputParserOptions options = testing::output_options();
  options.delivery = CallDelivery::whole;
  for (int round = 0; round < 3000; ++round) {
    std::string input;
    for (uint32_t i = random() % 24; i > 0; --i) input += testing::one_of(parts, random);
    const auto events = testing::events_of_pieces(format, options, {input});
    EXPECT_EQ(testing::events_of_pieces(format, options, testing::random_pieces(input, random)), events)
        << input;
    EXPECT_EQ(testing::fault_of_shape(events), "") << input;
    const std::string text = base::replace_malformed_utf8(input);
    EXPECT_EQ(testing::fault_of_account(events, text, spelling_.openers), "") << input;
  }
}

double seconds_for(const OutputFormat& format, const std::string& input) {
  const auto start = std::chrono::steady_clock::now();
  testing::events_of_pieces(format, testing::output_options(),
                            {input.substr(0, input.size() / 2), input.substr(input.size() / 2)});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A sanitizer's build takes many times as long, and a busy machine several times more: less text, a wider
// bound. Quadratic time would still miss it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr size_t kLongText = size_t{1} << 16;
constexpr double kLongTextSeconds = 10;
#else
constexpr size_t kLongText = size_t{1} << 18;
constexpr double kLongTextSeconds = 5;
#endif

// Texts that make a parser that looks again at what it has read take quadratic time: a megabyte would be
// minutes.
TEST_P(Families, TakeLinearTime) {
  std::mt19937 random(3);
  const testing::RandomCall call{"write-file", {{"text", "Z"}, {"path", ""}}};
  const std::string written = spelling_.write({call}, random);
  const OutputFormat format = testing::output_format(spelling_.family, "think");
  std::vector<std::string> repeated = {"<",
                                       " ",
                                       "\n",
                                       "<think>",
                                       "</think>",
                                       "\n</think",
                                       "</parameter>\n\n",
                                       "</parameter>" + std::string(60, ' '),
                                       "<|\"",
                                       "]]",
                                       "&",
                                       "{\"a\":",
                                       "[",
                                       "\\ud800",
                                       "<tool_call>{\""};
  for (const std::string& opener : spelling_.openers) repeated.push_back(opener);
  for (const std::string& part : repeated) {
    for (const std::string& begin :
         {std::string(), written.substr(0, written.find('Z')), spelling_.openers[0]}) {
      std::string input = begin;
      while (input.size() < kLongText) input += part;
      EXPECT_LT(seconds_for(format, input), kLongTextSeconds) << begin << " and then " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::Range<size_t>(0, testing::family_spellings().size()),
                         [](const auto& tested) {
                           std::string name = testing::family_spellings()[tested.param].family;
                           std::erase_if(name,
                                         [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

TEST(OutputParser, HoldsBackLittle) {
  // Text is shown but for what may begin a marker; a string argument but for what may end it.
  OutputParser text(testing::output_format("qwen3.5", "think"), testing::output_options());
  size_t shown = 0, given = 0;
  const auto push = [&](OutputParser& parser, const std::string& piece) {
    given += piece.size();
    for (const OutputEvent& event : parser.push(piece)) shown += event.text.size();
    EXPECT_LE(given, shown + 400);
  };
  for (int i = 0; i < 2000; ++i) push(text, "word <tool <think ");
  OutputParser call(testing::output_format("qwen3.5", "think"), testing::output_options());
  call.push("<tool_call>\n<function=write-file>\n<parameter=text>\n");
  shown = given = 0;
  for (int i = 0; i < 2000; ++i) push(call, "</parameter>      word </parameter> <par");
}

}  // namespace
}  // namespace rafter::text
