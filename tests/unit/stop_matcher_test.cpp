#include "text/stop_matcher.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/support/naive_stop.h"

namespace rafter::text {
namespace {

TEST(StopMatcher, HoldsWhatMayBeAStop) {
  StopMatcher matcher = *StopMatcher::create({"STOP", "\n\n"});
  EXPECT_EQ(matcher.push("Hello S").text, "Hello ");
  EXPECT_EQ(matcher.push("T").text, "");
  EXPECT_EQ(matcher.push("ART\n").text, "START");
  const StopMatcher::Output output = matcher.push("\nmore STOP");
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.stop, 1u);
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, EarliestThenLongest) {
  StopMatcher matcher = *StopMatcher::create({"b", "bcd", "abc", "bc"});
  EXPECT_EQ(matcher.push("xbcd").stop, 1u);
  matcher = *StopMatcher::create({"b", "bcd", "abc", "bc"});
  const StopMatcher::Output output = matcher.push("xabcd");
  EXPECT_EQ(output.text, "x");
  EXPECT_EQ(output.stop, 2u);
}

TEST(StopMatcher, FlushReleasesWhatWasHeld) {
  StopMatcher matcher = *StopMatcher::create({"aab"});
  EXPECT_EQ(matcher.push("xaaa").text, "xa");
  EXPECT_EQ(matcher.flush(), "aa");
  EXPECT_EQ(matcher.push("b").text, "b");  // what was released no longer counts
}

TEST(StopMatcher, WithoutStopStringsNothingIsHeld) {
  StopMatcher matcher = *StopMatcher::create({});
  EXPECT_EQ(matcher.push("anything").text, "anything");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_FALSE(StopMatcher::create({"x", ""}).ok());
}

TEST(StopMatcher, EqualsTheRulesOnRandomText) {
  std::mt19937 random(4);
  auto word = [&](size_t most) {
    std::string text;
    for (size_t i = 1 + random() % most; i > 0; --i) text += "aab"[random() % 3];
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (uint32_t i = 1 + random() % 4; i > 0; --i) stops.push_back(word(7));
    StopMatcher matcher = *StopMatcher::create(stops);
    NaiveStop naive{stops};
    for (int i = 0; i < 8; ++i) {
      const std::string text = word(5);
      const StopMatcher::Output output = matcher.push(text);
      ASSERT_EQ(output.text, naive.push(text));
      ASSERT_EQ(matcher.stopped(), naive.stop.has_value());
      if (output.stop) {
        ASSERT_EQ(stops[*output.stop], stops[*naive.stop]);
      }
    }
    ASSERT_EQ(matcher.flush(), naive.held);
    stopped += matcher.stopped();
  }
  EXPECT_GT(stopped, 5000);
  EXPECT_LT(stopped, 19900);
}

}  // namespace
}  // namespace rafter::text
