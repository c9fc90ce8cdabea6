// JSON from clients: what is taken, what is refused, and that no text of a body's size takes long.
#include <chrono>

#include <gtest/gtest.h>

#include "serve/proto/json.h"

namespace rafter::serve {
namespace {

TEST(WireJson, KeepsTheOrderOfKeysAndTheLastOfEqualOnes) {
  const auto json = parse_json(R"({"b":1,"a":[true,null,-2,3.5,"x"],"b":{"c":{},"c":[]}})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(to_text(*json), R"({"b":{"c":[]},"a":[true,null,-2,3.5,"x"]})");
  EXPECT_EQ(to_text(*parse_json(" 7 ")), "7");
}

TEST(WireJson, RefusesWhatIsNoJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":NaN}", "1e999", "\"\\ud800\"", "\"\xff\"", "{} {}", "nul"})
    EXPECT_FALSE(parse_json(text).ok()) << text;
  EXPECT_FALSE(parse_json(std::string(100'000, '[') + std::string(100'000, ']')).ok());
  EXPECT_FALSE(parse_body("[]").ok());
}

TEST(WireJson, AnObjectOfManyKeysTakesTimeInProportion) {
  std::string text = "{\"0\":0";
  constexpr size_t kKeys = 300'000;
  for (size_t i = 1; i < kKeys; ++i) text += ",\"" + std::to_string(i) + "\":0";
  const auto start = std::chrono::steady_clock::now();
  const auto json = parse_body(text + "}");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), kKeys);
}

}  // namespace
}  // namespace rafter::serve
