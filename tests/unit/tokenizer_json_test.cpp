// Hostile and unsupported tokenizer files: an error that says where, never a crash.
#include <nlohmann/json.hpp>
#include <random>

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace rafter::text {
namespace {

using Json = nlohmann::json;

Json sound() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 4, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}})");
}

base::Error error_of(const std::string& text) {
  auto tokenizer = Tokenizer::from_json(text, "tokenizer.json");
  return tokenizer.ok() ? base::Error{base::ErrorCode::internal, "accepted", "", ""} : tokenizer.error();
}

// `sound()` with the value at `pointer` replaced.
base::Error error_with(const char* pointer, const Json& value) {
  Json json = sound();
  json[Json::json_pointer(pointer)] = value;
  return error_of(json.dump());
}

TEST(TokenizerJson, SoundFileWorks) {
  auto tokenizer = Tokenizer::from_json(sound().dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  EXPECT_EQ(*tokenizer->encode("ab<s>a b", true), (std::vector<int32_t>{4, 2, 4, 0, 3, 1}));
  EXPECT_EQ(tokenizer->vocab_size(), 5);
}

TEST(TokenizerJson, MergesMayBePairsAndHaveAVersionLine) {
  Json json = sound();
  for (const Json& merges : {Json::parse(R"([["a", "b"]])"), Json::parse(R"(["#version: 0.2", "a b"])")}) {
    json["model"]["merges"] = merges;
    auto tokenizer = Tokenizer::from_json(json.dump(), "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    EXPECT_EQ(*tokenizer->encode("ab", false), (std::vector<int32_t>{2}));
  }
}

// What stands behind a token inside one expanded character comes from the text's first character as well: the
// ids are the `tokenizers` library's.
TEST(TokenizerJson, MetaspaceInFrontOfTheFirstCharactersParts) {
  Json json = sound();
  json["added_tokens"] = Json::parse(R"([{"id": 4, "content": "1", "special": false, "normalized": true}])");
  json["normalizer"] = {{"type", "NFKD"}};
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  json["post_processor"] = nullptr;
  json["decoder"] = nullptr;
  json["model"]["vocab"] = {{"▁", 0}, {"⁄", 1}, {"2", 2}, {"x", 3}};
  json["model"]["merges"] = Json::array();
  const auto tokenizer = Tokenizer::from_json(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  const auto ids = [&](const char* text) { return *tokenizer->encode(text, false); };
  EXPECT_EQ(ids("½x"), (std::vector<int32_t>{4, 0, 1, 2, 3}));
  EXPECT_EQ(ids("x½"), (std::vector<int32_t>{0, 3, 4, 1, 2}));
  EXPECT_EQ(ids("1x"), (std::vector<int32_t>{4, 3}));
  EXPECT_EQ(ids("1½"), (std::vector<int32_t>{4, 4, 1, 2}));
}

TEST(TokenizerJson, ScriptsAreCutApart) {
  Json json = sound();
  json["added_tokens"] = Json::array();
  json["normalizer"] = json["post_processor"] = json["decoder"] = nullptr;
  json["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  json["model"] = {{"type", "WordLevel"},
                   {"vocab", {{"x ", 0}, {"ーか中", 1}, {"б", 2}, {"[UNK]", 3}}},
                   {"unk_token", "[UNK]"}};
  const auto tokenizer = Tokenizer::from_json(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  const auto ids = [&](const char* text) { return *tokenizer->encode(text, false); };
  EXPECT_EQ(ids("  x ーか中"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(ids("ーか中x б, "), (std::vector<int32_t>{1, 0, 2, 3}));
  EXPECT_EQ(ids("   "), (std::vector<int32_t>{}));
}

TEST(TokenizerJson, UnsupportedComponentsAreNamed) {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"/model/type", "CharacterModel", "model: type \"CharacterModel\""},
      {"/model/dropout", 0.1, "model.dropout"},
      {"/model/end_of_word_suffix", std::string(100, '/'), "model.end_of_word_suffix"},
      {"/normalizer", {{"type", "Rot13"}}, "normalizer: type \"Rot13\""},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Uppercase"}}}}},
       "normalizer.normalizers[1]: type \"Uppercase\""},
      {"/normalizer", {{"type", "Prepend"}, {"prepend", std::string(5000, 'x')}}, "normalizer.prepend"},
      {"/pre_tokenizer", {{"type", "UnicodeBlocks"}}, "pre_tokenizer: type \"UnicodeBlocks\""},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "last"}}, "pre_tokenizer.prepend_scheme"},
      {"/post_processor", {{"type", "Truncation"}}, "post_processor: type \"Truncation\""},
      {"/decoder", {{"type", "Encoder"}}, "decoder: type \"Encoder\""},
      {"/version", "2.0", "version"},
  };
  for (const auto& [pointer, value, expected] : cases) {
    const base::Error error = error_with(pointer, value);
    EXPECT_EQ(error.code, base::ErrorCode::unsupported) << pointer << ": " << error.message();
    EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("tokenizer.json"), std::string::npos) << error.message();
  }
}

TEST(TokenizerJson, BrokenFilesAreRefused) {
  const std::pair<const char*, Json> cases[] = {
      {"/model/vocab/a", -1},
      {"/model/vocab/a", 1},  // two pieces with one id
      {"/model/vocab/a", 1e9},
      {"/model/vocab/a", 2147483648u},
      {"/model/vocab/a", 18446744073709551615u},
      {"/model/vocab/a", "0"},
      {"/model/vocab/a", nullptr},
      {"/model/vocab/a", Json::object()},
      {"/model/vocab", Json::array()},
      {"/model/vocab", Json::object()},
      {"/model/vocab/", 9},  // the empty piece
      {"/model/merges", Json::object()},
      {"/model/merges/0", "a c"},
      {"/model/merges/0", "ab"},
      {"/model/merges/0", "a b "},
      {"/model/merges/0", {"a"}},
      {"/model/merges/0", {"a", "b", "c"}},
      {"/model/merges/0", {"a", 1}},
      {"/model/merges/0", {Json::array(), "b"}},
      {"/model/merges/0", 7},
      {"/model/unk_token", "<unk>"},
      {"/model", nullptr},
      {"/added_tokens/0/id", 3},
      {"/added_tokens/0/id", 5},  // not the next id
      {"/added_tokens/0/id", -4},
      {"/added_tokens/0/id", "4"},
      {"/added_tokens/0/content", "ab"},  // has another id in the vocabulary
      {"/added_tokens/0/content", std::string(100'000, 'x')},
      {"/added_tokens/0/content", nullptr},
      {"/added_tokens/0", 1},
      {"/added_tokens", "x"},
      {"/pre_tokenizer", {{"type", "Sequence"}}},
      {"/pre_tokenizer", {{"type", 5}}},
      {"/post_processor/special_tokens/<s>/ids", {77}},
      {"/post_processor/special_tokens/<s>/ids", {-1}},
      {"/post_processor/special_tokens", nullptr},
      {"/post_processor/single", "A"},
      {"/post_processor/single", Json::array()},
  };
  for (const auto& [pointer, value] : cases) {
    const base::Error error = error_with(pointer, value);
    EXPECT_NE(error.what, "accepted") << pointer << " = " << value.dump().substr(0, 40);
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
    EXPECT_LT(error.message().size(), 400u);
  }
}

TEST(TokenizerJson, WhatIsNotJsonIsRefused) {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "[";
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{\"model\":"),
        std::string("{\"a\":\"\\ud83d\"}"), std::string("{\"a\":\"\xFF\"}"), deep, "{\"a\":" + deep,
        "{\"model\":{\"merges\":" + deep, std::string("{\"x\": \"") + std::string(100'000, 'y')}) {
    const base::Error error = error_of(text);
    EXPECT_EQ(error.code, base::ErrorCode::invalid_data) << text.substr(0, 40);
    EXPECT_LT(error.message().size(), 400u);
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
}

TEST(TokenizerJson, MutatedFilesNeverCrash) {
  std::mt19937 random(17);
  const std::string text = sound().dump();
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = text;
    for (uint32_t k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % mutated.size();
      switch (random() % 4) {
        case 0:
          mutated[at] = static_cast<char>(random());
          break;
        case 1:
          mutated.erase(at, 1 + random() % 8);
          break;
        case 2:
          mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 30));
          break;
        default:
          mutated.insert(at, 1, "0123456789{}[],:\"-e"[random() % 19]);
          break;
      }
      if (mutated.empty()) mutated = "{";
    }
    auto tokenizer = Tokenizer::from_json(mutated, "tokenizer.json");
    if (!tokenizer.ok()) continue;
    ++accepted;
    auto ids = tokenizer->encode("ab <s> ba\xFF", true);
    if (ids.ok()) (void)tokenizer->decode(*ids, false);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 2900);
}

}  // namespace
}  // namespace rafter::text
