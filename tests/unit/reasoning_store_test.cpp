// Reasoning that clients dropped: given back where the conversation matches, and nowhere else.
#include "serve/proto/reasoning_store.h"

#include <gtest/gtest.h>

namespace rafter::serve {
namespace {

Json user(const char* text) { return {{"role", "user"}, {"content", text}}; }
Json said(const char* text) { return {{"role", "assistant"}, {"content", text}}; }
Json called(const char* name, Json arguments) {
  return {
      {"role", "assistant"},
      {"content", ""},
      {"tool_calls", {{{"id", "x"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}}}}};
}

Answer answer(const char* reasoning, const char* content) {
  Answer answer;
  answer.reasoning = reasoning;
  answer.content = content;
  return answer;
}

std::string reasoning_of(const Json& message) { return message.value("reasoning_content", ""); }

class Store : public ::testing::Test {
 protected:
  void put(const Json& before, const Answer& answer, const std::string& client = "") {
    store_.put(ReasoningStore::place_of(client, before), answer);
  }
  ReasoningStore store_;
};

TEST_F(Store, GivesItBackWhereTheAnswerIsTheSame) {
  put(Json::array({user("Hi")}), answer("They greet.", "Hello.\n"));
  Json messages = Json::array({user("Hi"), said(" Hello."), user("Bye")});
  EXPECT_EQ(store_.restore("", messages), 1);
  EXPECT_EQ(reasoning_of(messages[1]), "They greet.");
  EXPECT_FALSE(messages[2].contains("reasoning_content"));
}

TEST_F(Store, AnotherTextAnotherPastOrAnotherClientGetNone) {
  put(Json::array({user("Hi")}), answer("They greet.", "Hello."), "key-a");
  Json edited = Json::array({user("Hi"), said("Hello!"), user("Bye")});
  EXPECT_EQ(store_.restore("key-a", edited), 0);
  Json past = Json::array({user("Hey"), said("Hello."), user("Bye")});
  EXPECT_EQ(store_.restore("key-a", past), 0);
  Json role = Json::array({user("Hi"), user("Hello."), user("Bye")});
  EXPECT_EQ(store_.restore("key-a", role), 0);
  Json other = Json::array({user("Hi"), said("Hello."), user("Bye")});
  EXPECT_EQ(store_.restore("key-b", other), 0);
  EXPECT_EQ(store_.restore("", other), 0);
  EXPECT_EQ(store_.restore("key-a", other), 1);
}

TEST_F(Store, WhatTheClientKeptStays) {
  put(Json::array({user("Hi")}), answer("They greet.", "Hello."));
  Json messages = Json::array({user("Hi"), said("Hello."), user("Bye")});
  messages[1]["reasoning_content"] = "Mine.";
  EXPECT_EQ(store_.restore("", messages), 0);
  EXPECT_EQ(reasoning_of(messages[1]), "Mine.");
}

TEST_F(Store, CallsMatchByNameAndArgumentsWhateverTheirIds) {
  Answer calling = answer("It wants the weather.", "");
  calling.calls = {{"call_1", "weather", R"({"city":"Bonn","days":2})"}};
  put(Json::array({user("Weather?")}), calling);
  // The order of members is the client's.
  Json messages = Json::array({user("Weather?"), called("weather", {{"days", 2}, {"city", "Bonn"}})});
  EXPECT_EQ(store_.restore("", messages), 1);
  Json other = Json::array({user("Weather?"), called("weather", {{"days", 3}, {"city", "Bonn"}})});
  EXPECT_EQ(store_.restore("", other), 0);
}

TEST_F(Store, ALaterTurnIsFoundWhetherOrNotEarlierReasoningIsThere) {
  Json before = Json::array({user("Hi"), said("Hello."), user("And?")});
  before[1]["reasoning_content"] = "They greet.";
  put(before, answer("They wait.", "Well."));
  Json messages = Json::array({user("Hi"), said("Hello."), user("And?"), said("Well.")});
  EXPECT_EQ(store_.restore("", messages), 1);
  EXPECT_EQ(reasoning_of(messages[3]), "They wait.");
}

TEST(ReasoningStore, StaysWithinItsBytesAndForgetsTheLeastRecentlyUsed) {
  ReasoningStore store(10'000);
  const std::string thought(1000, 'x');
  const auto place = [](int i) {
    return ReasoningStore::place_of("", Json::array({user(std::to_string(i).c_str())}));
  };
  const auto is_known = [&](int i) {
    Json messages = Json::array({user(std::to_string(i).c_str()), said("A")});
    return store.restore("", messages) == 1;
  };
  for (int i = 0; i < 100; ++i) {
    store.put(place(i), answer(thought.c_str(), "A"));
    EXPECT_LE(store.bytes(), 10'000u);
    EXPECT_TRUE(is_known(0)) << i;  // asked for again and again, it stays
  }
  EXPECT_TRUE(is_known(99));
  EXPECT_FALSE(is_known(50));
  store.put(place(1000), answer(std::string(20'000, 'y').c_str(), "A"));
  EXPECT_FALSE(is_known(1000));  // larger than the store
  EXPECT_TRUE(is_known(99));
}

TEST(ReasoningStore, TheSameAnswerAgainReplacesWhatWasThought) {
  ReasoningStore store;
  const auto place = ReasoningStore::place_of("", Json::array({user("Hi")}));
  store.put(place, answer("one", "A"));
  store.put(place, answer("another", "A"));
  EXPECT_EQ(store.size(), 1u);
  Json messages = Json::array({user("Hi"), said("A")});
  EXPECT_EQ(store.restore("", messages), 1);
  EXPECT_EQ(reasoning_of(messages[1]), "another");
}

}  // namespace
}  // namespace rafter::serve
