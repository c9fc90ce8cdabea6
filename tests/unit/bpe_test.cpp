#include "text/bpe.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/naive_bpe.h"
#include "text/byte_alphabet.h"

namespace rafter::text {
namespace {

// All bytes, and random merges over few letters, so that long words merge in many ways.
BpeSpec random_spec(uint32_t seed, size_t merges) {
  BpeSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    spec.pieces.push_back(bytes_to_alphabet(std::string_view(&character, 1)));
  }
  std::mt19937 random(seed);
  std::vector<std::string> pool = {"a", "b", "c", "Ġ"};
  std::map<std::string, bool> known;
  while (spec.merges.size() < merges) {
    const std::string left = pool[random() % pool.size()], right = pool[random() % pool.size()];
    if (left.size() + right.size() > 40) continue;
    spec.merges.emplace_back(left, right);  // the same piece may come from several pairs
    if (!known[left + right]) {
      known[left + right] = true;
      spec.pieces.push_back(left + right);
      pool.push_back(left + right);
    }
  }
  return spec;
}

std::vector<int32_t> encode(const BpeModel& model, std::string_view word) {
  WordWorkspace workspace;
  std::vector<int32_t> ids;
  EXPECT_EQ(model.encode_word(word, workspace, ids), WordOutcome::done);
  return ids;
}

TEST(Bpe, ShortAndLongWordsMergeAsDefined) {
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const BpeSpec spec = random_spec(seed, 20 + seed * 25);
    auto model = BpeModel::build(spec, "test");
    ASSERT_TRUE(model.ok()) << model.error().message();
    const NaiveBpe naive(spec);
    for (int i = 0; i < 400; ++i) {
      std::string word;
      const size_t length = 1 + random() % (i % 2 == 0 ? 24 : 160);
      for (size_t k = 0; k < length; ++k) word += "aaabbc \xFF"[random() % 8];
      const std::vector<int32_t> expected = naive.encode_word(word);
      ASSERT_EQ(encode(*model, word), expected) << word;
      ASSERT_EQ(encode(*model, word), expected) << word << ", known by now";
    }
  }
}

TEST(Bpe, MegabyteWordsAreNotQuadratic) {
  auto model = BpeModel::build(random_spec(1, 300), "test");
  ASSERT_TRUE(model.ok());
  std::mt19937 random(5);
  std::string mixed;
  while (mixed.size() < 1u << 20) mixed += "abc"[random() % 3];
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& word : {mixed, std::string(1 << 20, 'a')})
    EXPECT_FALSE(encode(*model, word).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // 0.4 s on an idle core
}

TEST(Bpe, DuplicateMergesFollowTheFormat) {
  BpeSpec spec;
  spec.pieces = {"a", "b", "c", "ab", "bc"};
  spec.merges = {{"a", "b"}, {"b", "c"}, {"a", "b"}};
  EXPECT_EQ(encode(*BpeModel::build(spec, "json"), "abc"),
            (std::vector<int32_t>{0, 4}));  // the last one holds
  spec.first_duplicate_merge_wins = true;
  EXPECT_EQ(encode(*BpeModel::build(spec, "gguf"), "abc"), (std::vector<int32_t>{3, 2}));
}

TEST(Bpe, IgnoreMergesTakesPiecesWhole) {
  BpeSpec spec;
  spec.pieces = {"a", "b", "ab", "aba"};
  spec.merges = {{"a", "b"}};
  EXPECT_EQ(encode(*BpeModel::build(spec, "x"), "aba"), (std::vector<int32_t>{2, 0}));
  spec.ignore_merges = true;
  EXPECT_EQ(encode(*BpeModel::build(spec, "x"), "aba"), (std::vector<int32_t>{3}));
}

TEST(Bpe, BrokenVocabulariesAreRefused) {
  auto error_of = [](const std::vector<std::string>& pieces,
                     const std::vector<std::pair<std::string, std::string>>& merges) {
    BpeSpec spec;
    spec.pieces = pieces;
    spec.merges = merges;
    auto model = BpeModel::build(spec, "file");
    return model.ok() ? std::string() : model.error().message();
  };
  EXPECT_EQ(error_of({"a", "", "b", "中", "\xFF"}, {}), "");
  EXPECT_NE(error_of({}, {}).find("empty"), std::string::npos);
  EXPECT_NE(error_of({"a", "b", "a"}, {}).find("ids 0 and 2 are the same piece \"a\""), std::string::npos);
  EXPECT_NE(error_of({"中", "b", "中"}, {}).find("same piece"), std::string::npos);
  EXPECT_NE(error_of({"a", "b"}, {{"a", "b"}}).find("needs the piece \"ab\""), std::string::npos);
  EXPECT_NE(error_of({"a", "ab"}, {{"a", "b"}}).find("needs the piece \"b\""), std::string::npos);
  EXPECT_NE(error_of({"a", "b", "ab"}, {{"", "ab"}}).find("needs the piece"), std::string::npos);
  EXPECT_NE(error_of(std::vector<std::string>(kMaxTokens + 1), {}).find("too large"), std::string::npos);
}

TEST(Bpe, GgufMergesAreCutAtTheFirstSpaceThatIsNotTheFirstByte) {
  EXPECT_EQ(split_merge("a b"), std::pair(std::string("a"), std::string("b")));
  EXPECT_EQ(split_merge("  b c"), std::pair(std::string(" "), std::string("b c")));
  EXPECT_EQ(split_merge("a "), std::pair(std::string("a"), std::string()));
  EXPECT_EQ(split_merge("ab"), std::nullopt);
  EXPECT_EQ(split_merge(" "), std::nullopt);
  EXPECT_EQ(split_merge(""), std::nullopt);
}

}  // namespace
}  // namespace rafter::text
