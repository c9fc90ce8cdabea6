// Constrained decoding with the vocabularies of real models against the `jsonschema` library: what it takes,
// in any layout and however it is cut into tokens, is taken (completeness); what random tokens write under
// the masks, it takes (soundness).
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "decode/open_tokenizer.h"
#include "tests/support/run_program.h"
#include "tests/support/schema_cases.h"
#include "tests/support/schema_oracle.h"
#include "tests/support/temp_folder.h"
#include "tests/support/vocabularies.h"

namespace rafter::text {
namespace {

using testing::OracleCase;

class JsonSchemaOracle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(testing::oracle_cases_file()))
      GTEST_SKIP() << "no random schemas: run make oracle";
    if (!std::filesystem::exists(vocabularies_folder() + "/corpus.bin"))
      GTEST_SKIP() << kHowToMakeVocabularies;
    cases_ = testing::oracle_cases();
  }

  struct Vocabulary {
    Tokenizer tokenizer;
    TokenIndex index;
  };
  static Vocabulary open(const std::string& name) {
    const std::string folder = vocabularies_folder() + "/" + name;
    Tokenizer tokenizer = std::filesystem::exists(folder + ".model")
                              ? Tokenizer::from_sentencepiece(file_content(folder + ".model"), name).value()
                              : decode::open_tokenizer(folder).value();
    std::vector<int32_t> ends;
    for (int32_t id = 0; id < tokenizer.vocab_size() && ends.size() < 2; ++id) {
      if (tokenizer.is_special(id)) ends.push_back(id);
    }
    TokenIndex index = TokenIndex::from(tokenizer, ends).value();
    return {std::move(tokenizer), std::move(index)};
  }

  std::vector<OracleCase> cases_;
};

constexpr const char* kVocabularies[] = {"gemma3",  "llama2",      "qwen3",     "llama3",
                                         "smollm2", "deepseek_v3", "bpe_llama", "spm_llama"};

TEST_F(JsonSchemaOracle, Completeness) {
  std::mt19937 random(3);
  size_t texts = 0;
  for (size_t v = 0; v < std::size(kVocabularies); ++v) {
    const Vocabulary vocabulary = open(kVocabularies[v]);
    const testing::RandomCutter cutter(vocabulary.index);
    for (size_t i = v; i < cases_.size(); i += std::size(kVocabularies)) {
      const auto schema = compile_json_schema(cases_[i].schema, vocabulary.index);
      ASSERT_TRUE(schema.ok()) << cases_[i].schema << ": " << schema.error().message();
      for (const std::string& text : cases_[i].valid) {
        ++texts;
        EXPECT_TRUE(testing::takes(**schema,
                                   vocabulary.tokenizer.encode(text, false, SpecialTokens::as_text).value()))
            << kVocabularies[v] << " " << cases_[i].schema << ": " << text;
        EXPECT_TRUE(testing::takes(**schema, cutter.cut(text, random)))
            << kVocabularies[v] << " " << cases_[i].schema << ": " << text;
      }
    }
  }
  EXPECT_GT(texts, 3000u);
}

TEST_F(JsonSchemaOracle, Soundness) {
  if (!testing::oracle_python()) GTEST_SKIP() << "no Python environment of the oracle: run make oracle";
  std::mt19937 random(4);
  std::vector<testing::Answer> answers;
  size_t unfinished = 0;
  for (size_t v = 0; v < std::size(kVocabularies); ++v) {
    const Vocabulary vocabulary = open(kVocabularies[v]);
    for (size_t i = v; i < cases_.size(); i += std::size(kVocabularies)) {
      const auto schema = compile_json_schema(cases_[i].schema, vocabulary.index);
      ASSERT_TRUE(schema.ok());
      for (int n = 0; n < 2; ++n) {
        const auto text = testing::random_answer(**schema, random, 300);
        if (text) answers.push_back({cases_[i].schema, *text});
        unfinished += text ? 0 : 1;
      }
    }
  }
  EXPECT_GT(answers.size(), 3 * unfinished) << unfinished;
  EXPECT_EQ(testing::faults_of(answers), "");
}

}  // namespace
}  // namespace rafter::text
