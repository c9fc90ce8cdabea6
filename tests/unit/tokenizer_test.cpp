#include "text/tokenizer.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "tests/support/tokenizer_vectors.h"

namespace rafter::text {
namespace {

void expect_equal_to_oracle(const TokenizerVectors& vectors, const TokenizerCase& entry) {
  auto tokenizer = load_case(entry);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  for (size_t i = 0; i < entry.ids.size(); ++i) {
    EXPECT_EQ(*tokenizer->encode(vectors.texts[i], false), entry.ids[i]) << nlohmann::json(vectors.texts[i]);
  }
  for (size_t group : differing_groups(vectors, entry.hashes, ids_of(*tokenizer))) {
    ADD_FAILURE() << entry.name << ": ids differ in group " << group << ": "
                  << texts_of_group(vectors, group);
  }
  if (!entry.special_hashes.empty()) {
    EXPECT_TRUE(differing_groups(vectors, entry.special_hashes, ids_of(*tokenizer, true)).empty())
        << entry.name;
  } else {
    EXPECT_TRUE(tokenizer->prefix().empty() && tokenizer->suffix().empty());
  }
  for (const auto& [ids, text, text_without_special] :
       entry.decoded.get<std::vector<std::tuple<std::vector<int32_t>, std::string, std::string>>>()) {
    EXPECT_EQ(tokenizer->decode(ids, false), text) << entry.name;
    EXPECT_EQ(tokenizer->decode(ids, true), text_without_special) << entry.name;
  }
}

TEST(Tokenizer, EveryComponentGivesTheOraclesIds) {
  for (const TokenizerCase& entry : committed_vectors().tokenizers) {
    SCOPED_TRACE(entry.name);
    expect_equal_to_oracle(committed_vectors(), entry);
  }
}

TEST(Tokenizer, LargeVectorsGiveTheOraclesIds) {
  if (!std::filesystem::exists(large_vectors_path())) GTEST_SKIP() << kHowToMakeLargeVectors;
  const TokenizerVectors vectors = read_tokenizer_vectors(large_vectors_path());
  for (const TokenizerCase& entry : vectors.tokenizers) {
    SCOPED_TRACE(entry.name);
    expect_equal_to_oracle(vectors, entry);
  }
}

TEST(Tokenizer, EveryIdHasAPieceThatLeadsBackToIt) {
  for (const TokenizerCase& entry : committed_vectors().tokenizers) {
    auto tokenizer = load_case(entry);
    ASSERT_TRUE(tokenizer.ok());
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      EXPECT_EQ(tokenizer->token_id(tokenizer->piece(id)), id) << entry.name << " " << tokenizer->piece(id);
    }
  }
}

TEST(Tokenizer, MalformedBytesAreReadAsReplacementCharacters) {
  auto tokenizer = load_case(committed_vectors().tokenizer("llama3"));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(*tokenizer->encode("a\xF0\x9F\x98 b\x80\xFF", false),
            *tokenizer->encode("a\uFFFD b\uFFFD\uFFFD", false));
}

TEST(Tokenizer, SpecialTokensCanBeReadAsText) {
  auto tokenizer = load_case(committed_vectors().tokenizer("llama3"));
  ASSERT_TRUE(tokenizer.ok());
  const std::string text = "<|im_start|>a<think>b<|im_end|>";
  const std::vector<int32_t> ids = *tokenizer->encode(text, false, SpecialTokens::as_text);
  EXPECT_EQ(tokenizer->decode(ids, true), text);
  for (int32_t id : ids) EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->token_id("<think>")), 1);
}

TEST(Tokenizer, IdsThatDoNotExistDecodeToNothing) {
  auto tokenizer = load_case(committed_vectors().tokenizer("gpt2"));
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<int32_t> ids = {-1, *tokenizer->token_id("a"), tokenizer->vocab_size(), INT32_MAX};
  EXPECT_EQ(tokenizer->decode(ids, false), "a");
  EXPECT_FALSE(tokenizer->is_special(INT32_MAX));
  EXPECT_EQ(tokenizer->piece(-5), "");
}

TEST(Tokenizer, SmolLm2IdsEqualThoseOfItsOwnTokensAndMerges) {
  const std::string folder = std::string(RAFTER_SOURCE_DIR) + "/build/oracle/tokenizer/";
  if (!std::filesystem::exists(folder + "smollm2_ids.json")) {
    GTEST_SKIP() << folder << "smollm2_ids.json is not there: run make oracle";
  }
  auto json = base::read_text_file(folder + "smollm2_tokenizer.json");
  ASSERT_TRUE(json.ok());
  auto tokenizer = Tokenizer::from_json(*json, "smollm2_tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  std::ifstream file(folder + "smollm2_ids.json");
  for (const auto& entry : nlohmann::json::parse(file)) {
    const std::string text = entry["text"];
    EXPECT_EQ(*tokenizer->encode(text, false), entry["ids"].get<std::vector<int32_t>>()) << entry["text"];
  }
}

}  // namespace
}  // namespace rafter::text
