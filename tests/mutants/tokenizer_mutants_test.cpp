// Planted faults that the comparers of the tokenizer tests must catch.
#include <random>

#include "base/utf8.h"
#include "tests/support/naive_bpe.h"
#include "tests/support/naive_stop.h"
#include "tests/support/tokenizer_vectors.h"
#include "text/stop_matcher.h"
#include "text/tokenizer_json.h"

namespace rafter::text {
namespace {

// The spec of a committed tokenizer, to be broken.
TokenizerSpec spec_of(const char* name) {
  auto spec = parse_tokenizer_json(committed_vectors().tokenizer(name).json.dump(), name);
  EXPECT_TRUE(spec.ok());
  return std::move(spec).value();
}

BpeSpec& bpe_of(TokenizerSpec& spec) { return std::get<BpeSpec>(spec.model); }

bool is_caught(const char* name, const TokenizerSpec& spec) {
  const TokenizerVectors& vectors = committed_vectors();
  auto tokenizer = Tokenizer::from_spec(spec, name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  return !differing_groups(vectors, vectors.tokenizer(name).hashes, ids_of(*tokenizer)).empty();
}

void replace(std::string& text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, what.size(), by);
}

// The tokenizer `name` with a part of its pattern replaced.
bool pattern_fault_is_caught(const char* name, std::string_view what, std::string_view by) {
  TokenizerSpec spec = spec_of(name);
  replace(std::get<SplitStep>(spec.pre_tokenizer[0]).pattern, what, by);
  return is_caught(name, spec);
}

TEST(TokenizerMutants, SoundSpecsPass) {
  for (const char* name : {"llama3", "qwen2", "qwen2_added", "smollm", "qwen35"}) {
    EXPECT_FALSE(is_caught(name, spec_of(name))) << name;
  }
}

TEST(TokenizerMutants, WrongWhiteSpace) {
  // ECMAScript's \s: with U+FEFF, without U+0085.
  EXPECT_TRUE(
      pattern_fault_is_caught("llama3", R"(\s+(?!\S)|\s+)",
                              R"([\t-\r \u00A0\uFEFF\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]+)"));
  EXPECT_TRUE(pattern_fault_is_caught("llama3", R"([^\s\p{L}\p{N}])", R"([^\s\u180E\p{L}\p{N}])"));
  EXPECT_TRUE(pattern_fault_is_caught("llama3", R"(|\s+(?!\S))", ""));
  EXPECT_TRUE(pattern_fault_is_caught("llama3", R"(|\s*[\r\n]+)", ""));
}

TEST(TokenizerMutants, WrongPatterns) {
  EXPECT_TRUE(pattern_fault_is_caught("llama3", R"(\p{N}{1,3})", R"(\p{N}{1,4})"));
  EXPECT_TRUE(pattern_fault_is_caught("llama3", "(?i:", "(?:"));
  EXPECT_TRUE(pattern_fault_is_caught("llama3", R"([^\r\n\p{L}\p{N}]?\p{L}+)", R"( ?\p{L}+)"));
  EXPECT_TRUE(pattern_fault_is_caught("qwen2", R"(\p{N}|)", R"([0-9]|)"));
  EXPECT_TRUE(pattern_fault_is_caught("qwen35", R"([\p{L}\p{M}]+)", R"([\p{L}]+)"));
  EXPECT_TRUE(
      pattern_fault_is_caught("qwen35", R"([^\s\p{L}\p{M}\p{N}]+[\r\n]*)", R"([^\s\p{L}\p{M}\p{N}]+)"));
  TokenizerSpec spec = spec_of("smollm");
  spec.pre_tokenizer.erase(spec.pre_tokenizer.begin());
  EXPECT_TRUE(is_caught("smollm", spec));
}

TEST(TokenizerMutants, WrongNormalizationAndAddedTokens) {
  TokenizerSpec spec = spec_of("qwen2");
  spec.normalizer.clear();
  EXPECT_TRUE(is_caught("qwen2", spec));
  const std::pair<const char*, void (*)(AddedToken&)> faults[] = {
      {"strip", [](AddedToken& token) { token.lstrip = token.rstrip = false; }},
      {"single_word", [](AddedToken& token) { token.single_word = false; }},
      {"normalized", [](AddedToken& token) { token.normalized = false; }},
      {"all_normalized", [](AddedToken& token) { token.normalized = true; }},
  };
  for (const auto& [name, fault] : faults) {
    spec = spec_of("qwen2_added");
    for (AddedToken& token : spec.added) fault(token);
    EXPECT_TRUE(is_caught("qwen2_added", spec)) << name;
  }
  spec = spec_of("qwen2_added");  // the shorter of two tokens that start alike
  std::erase_if(spec.added, [](const AddedToken& token) { return token.content == "<a><b>"; });
  EXPECT_TRUE(is_caught("qwen2_added", spec));
}

TEST(TokenizerMutants, WrongMerges) {
  TokenizerSpec spec = spec_of("llama3");
  bpe_of(spec).merges.resize(bpe_of(spec).merges.size() / 2);
  EXPECT_TRUE(is_caught("llama3", spec));
  spec = spec_of("llama3");
  std::reverse(bpe_of(spec).merges.begin(), bpe_of(spec).merges.end());
  EXPECT_TRUE(is_caught("llama3", spec));
  spec = spec_of("llama3_ignore_merges");
  bpe_of(spec).ignore_merges = false;
  EXPECT_TRUE(is_caught("llama3_ignore_merges", spec));
  spec = spec_of("fuse_unknown");
  bpe_of(spec).fuse_unknown = false;
  EXPECT_TRUE(is_caught("fuse_unknown", spec));
}

// `tokenizer`'s words merged by definition, with ties broken as told.
NumbersOf naive_ids(const TokenizerSpec& spec, Ties ties) {
  return [pre_tokenizer = *PreTokenizer::compile(spec.pre_tokenizer, PreTokenizer::Pieces::bytes, "test"),
          naive = NaiveBpe(std::get<BpeSpec>(spec.model)), ties](std::string_view text) {
    struct Sink : PieceSink {
      const NaiveBpe* bpe = nullptr;
      Ties ties = Ties::leftmost;
      std::vector<int32_t> ids;
      bool piece(std::string_view bytes) override {
        const std::vector<int32_t> word = bpe->encode_word(bytes, ties);
        ids.insert(ids.end(), word.begin(), word.end());
        return true;
      }
    } sink;
    sink.bpe = &naive;
    sink.ties = ties;
    EXPECT_TRUE(pre_tokenizer.split(text, true, sink).ok());
    return sink.ids;
  };
}

TEST(TokenizerMutants, MergeTiesBrokenFromTheRight) {
  const TokenizerVectors& vectors = committed_vectors();
  const TokenizerCase& entry = vectors.tokenizer("deepseek");
  TokenizerSpec spec = spec_of("deepseek");
  TokenizerVectors plain = vectors;  // the definition knows no added tokens
  for (std::string& text : plain.texts) {
    if (text.find("<|im_") != std::string::npos || text.find("<think>") != std::string::npos)
      text = "aaa aaaaa";
  }
  std::string expected;
  auto tokenizer = load_case(entry);
  ASSERT_TRUE(tokenizer.ok());
  for (size_t i = 0; i < plain.texts.size(); i += plain.group) {
    expected +=
        hash_numbers(ids_of(*tokenizer), &plain.texts[i], std::min(plain.group, plain.texts.size() - i));
  }
  EXPECT_TRUE(differing_groups(plain, expected, naive_ids(spec, Ties::leftmost)).empty());
  EXPECT_FALSE(differing_groups(plain, expected, naive_ids(spec, Ties::rightmost)).empty());
}

// The stream decoder's test compares with the full decode: text by text decoding must fail it.
TEST(TokenizerMutants, DecodingEveryTokenOnItsOwn) {
  auto tokenizer = load_case(committed_vectors().tokenizer("llama3"));
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<int32_t> ids = *tokenizer->encode("\U0001FAE9", false);
  ASSERT_GT(ids.size(), 1u);
  std::string text;
  for (int32_t id : ids) text += tokenizer->decode(std::vector<int32_t>{id}, false);
  EXPECT_NE(text, tokenizer->decode(ids, false));
}

TEST(TokenizerMutants, StopStringsWithoutHoldBack) {
  std::mt19937 random(4);
  int differing = 0;
  for (int round = 0; round < 1000; ++round) {
    StopMatcher matcher = *StopMatcher::create({"aab", "ba"});
    NaiveStop faulty{.stops = {"aab", "ba"}, .holds = false};
    for (int i = 0; i < 5; ++i) {
      const std::string text(1, "aab"[random() % 3]);
      differing += matcher.push(text).text != faulty.push(text);
    }
  }
  EXPECT_GT(differing, 100);
}

}  // namespace
}  // namespace rafter::text
