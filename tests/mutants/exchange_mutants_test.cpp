// Faults that the comparer of recorded exchanges must see.
#include <gtest/gtest.h>

#include "tests/support/exchange.h"

namespace rafter::testing {
namespace {

const Json kRecorded =
    Json::parse(R"({"id": "<id>", "n": 3, "x": 1.5, "text": "four", "none": null, "created": "<number>",
    "model": "<text>", "choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {}}], "done": false})");

Json came() {
  Json json = kRecorded;
  json["id"] = "chatcmpl-0123456789";
  json["created"] = 1'800'000'000;
  json["model"] = "m";
  return json;
}

TEST(ExchangeMutants, TheSameIsTheSame) {
  EXPECT_EQ(first_difference(kRecorded, came()), "");
  Json reordered = Json::object();
  const Json original = came();
  for (auto it = original.items().begin(); it != original.items().end(); ++it)
    reordered[it.key()] = it.value();
  EXPECT_EQ(first_difference(kRecorded, reordered), "");
}

TEST(ExchangeMutants, EveryFaultIsSeenAtItsPlace) {
  const struct {
    const char* place;
    void (*damage)(Json&);
  } faults[] = {
      {"$.n", [](Json& json) { json["n"] = 4; }},
      {"$.n", [](Json& json) { json["n"] = "3"; }},
      {"$.x", [](Json& json) { json["x"] = 1.4999; }},
      {"$.text", [](Json& json) { json["text"] = "four "; }},
      {"$.none", [](Json& json) { json["none"] = false; }},
      {"$: \"none\"", [](Json& json) { json.erase("none"); }},
      {"$: \"more\"", [](Json& json) { json["more"] = nullptr; }},
      {"$.done", [](Json& json) { json["done"] = true; }},
      {"$.id", [](Json& json) { json["id"] = ""; }},
      {"$.id", [](Json& json) { json["id"] = 12345678901; }},
      {"$.created", [](Json& json) { json["created"] = "now"; }},
      {"$.model", [](Json& json) { json["model"] = nullptr; }},
      {"$.choices", [](Json& json) { json["choices"].erase(1); }},
      {"$.choices", [](Json& json) { json["choices"].push_back(nullptr); }},
      {"$.choices[0].index", [](Json& json) { std::swap(json["choices"][0], json["choices"][1]); }},
      {"$.choices[0].delta", [](Json& json) { json["choices"][0]["delta"]["role"] = "assistant"; }},
      {"$.choices[1].delta", [](Json& json) { json["choices"][1]["delta"] = nullptr; }},
  };
  for (const auto& fault : faults) {
    Json json = came();
    fault.damage(json);
    EXPECT_TRUE(first_difference(kRecorded, json).starts_with(fault.place)) << fault.place << " " << json;
  }
}

}  // namespace
}  // namespace rafter::testing
