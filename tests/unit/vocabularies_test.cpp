// Real vocabularies, and small ones of every kind, against the `tokenizers` library: encode and decode of
// over 50,000 texts, byte for byte.
#include "tests/support/vocabularies.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include <gtest/gtest.h>

#include "text/stream_decoder.h"

namespace rafter::text {
namespace {

class Vocabularies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(vocabularies_folder() + "/corpus.bin"))
      GTEST_SKIP() << kHowToMakeVocabularies;
  }
};

base::Result<Tokenizer> load(const std::string& name) {
  const std::string path = vocabularies_folder() + "/" + name + "/tokenizer.json";
  return Tokenizer::from_json(file_content(path), name);
}

// A text or ids on one line, escaped.
std::string shown(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void report(const std::string& name, const VocabularyCase& expected, const VocabularyDifferences& differences,
            const Tokenizer& tokenizer) {
  constexpr size_t kShown = 5;
  const std::vector<std::string>& texts = vocabulary_corpus();
  for (size_t k = 0; k < std::min(kShown, differences.encodes.size()); ++k) {
    const size_t i = differences.encodes[k];
    const auto ids = tokenizer.encode(texts[i], false);
    ADD_FAILURE() << name << ": ids of text " << i << " differ (" << differences.encodes.size()
                  << " such): " << shown(texts[i])
                  << "\nhere: " << (ids.ok() ? nlohmann::json(*ids).dump() : ids.error().message());
  }
  for (size_t k = 0; k < std::min(kShown, differences.decodes_of_texts.size()); ++k) {
    const size_t i = differences.decodes_of_texts[k];
    ADD_FAILURE() << name << ": the decoded text " << i << " differs (" << differences.decodes_of_texts.size()
                  << " such): " << shown(texts[i])
                  << "\nhere: " << shown(tokenizer.decode(*tokenizer.encode(texts[i], false), false));
  }
  for (size_t k = 0; k < std::min(kShown, differences.decodes.size()); ++k) {
    const VocabularyCase::Decode& decode = expected.decodes[differences.decodes[k]];
    ADD_FAILURE() << name << ": decoded ids differ (" << differences.decodes.size()
                  << " such): " << nlohmann::json(decode.ids).dump()
                  << "\nhere: " << shown(tokenizer.decode(decode.ids, false));
  }
}

TEST_F(Vocabularies, EveryOneEncodesAndDecodesAsTheLibrary) {
  for (const std::string& name : vocabulary_names()) {
    if (name.starts_with("spm")) continue;
    SCOPED_TRACE(name);
    const auto tokenizer = load(name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    const VocabularyCase expected =
        read_vocabulary_case(vocabularies_folder() + "/" + name + ".expected", vocabulary_corpus().size());
    const VocabularyDifferences differences = compare_with(expected, *tokenizer);
    EXPECT_GT(differences.compared, vocabulary_corpus().size() * 3 / 4);
    report(name, expected, differences, *tokenizer);
  }
}

// Models of SentencePiece itself against its own library. It joins what is around special tokens, so those
// texts were left out.
TEST_F(Vocabularies, SentencePieceModelsCutAsTheirOwnLibrary) {
  for (const std::string& name : vocabulary_names()) {
    if (!name.starts_with("spm")) continue;
    SCOPED_TRACE(name);
    const auto tokenizer =
        Tokenizer::from_sentencepiece(file_content(vocabularies_folder() + "/" + name + ".model"), name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    const VocabularyCase expected =
        read_vocabulary_case(vocabularies_folder() + "/" + name + ".expected", vocabulary_corpus().size());
    VocabularyDifferences differences = compare_with(expected, *tokenizer);
    differences.decodes_of_texts.clear();
    EXPECT_GT(differences.compared, vocabulary_corpus().size() / 2);
    report(name, expected, differences, *tokenizer);
  }
}

// The comparer must catch a tokenizer that is nearly right.
TEST_F(Vocabularies, FaultsAreCaught) {
  const std::pair<const char*, void (*)(nlohmann::json&)> faults[] = {
      {"llama2", [](nlohmann::json& json) { json["normalizer"]["normalizers"].erase(0); }},
      {"llama2", [](nlohmann::json& json) { json["decoder"]["decoders"].erase(3); }},
      {"bpe_llama", [](nlohmann::json& json) { json["model"]["byte_fallback"] = false; }},
      {"bpe_fused_unknown", [](nlohmann::json& json) { json["model"]["fuse_unk"] = false; }},
      {"bpe_suffix", [](nlohmann::json& json) { json["normalizer"]["normalizers"].erase(2); }},
      {"unigram_t5", [](nlohmann::json& json) { json["normalizer"] = nullptr; }},
      {"unigram_xlmr", [](nlohmann::json& json) { json["pre_tokenizer"]["prepend_scheme"] = "always"; }},
      {"unigram_bytes", [](nlohmann::json& json) { json["model"]["byte_fallback"] = false; }},
      {"unigram_metaspace",
       [](nlohmann::json& json) {  // several: a random corpus may not need any one piece
         for (size_t i = 9; i < 60; ++i) json["model"]["vocab"][i][1] = -9.0;
       }},
      {"wordpiece_bert", [](nlohmann::json& json) { json["normalizer"]["clean_text"] = false; }},
      {"wordpiece_bert", [](nlohmann::json& json) { json["post_processor"] = nullptr; }},
      {"wordpiece_cased", [](nlohmann::json& json) { json["model"]["max_input_chars_per_word"] = 13; }},
      {"wordpiece_cased", [](nlohmann::json& json) { json["decoder"]["cleanup"] = true; }},
      {"ctc", [](nlohmann::json& json) { json["pre_tokenizer"]["pretokenizers"][1]["length"] = 3; }},
      {"bpe_first",
       [](nlohmann::json& json) { json["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] = "never"; }},
      {"unigram_first", [](nlohmann::json& json) { json["pre_tokenizer"]["prepend_scheme"] = "never"; }},
      {"unigram_scripts", [](nlohmann::json& json) { json["pre_tokenizer"]["pretokenizers"].erase(0); }},
  };
  for (const auto& [name, fault] : faults) {
    nlohmann::json json =
        nlohmann::json::parse(file_content(vocabularies_folder() + "/" + name + "/tokenizer.json"));
    fault(json);
    const auto tokenizer = Tokenizer::from_json(json.dump(), name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    const VocabularyCase expected =
        read_vocabulary_case(vocabularies_folder() + "/" + name + ".expected", vocabulary_corpus().size());
    EXPECT_FALSE(compare_with(expected, *tokenizer, 7).none()) << name;
  }
}

// However tokens come, their text is that of all at once. A run of byte tokens that is not text is left out:
// the stream shows the good part of it.
TEST_F(Vocabularies, StreamsEqualTheWhole) {
  for (const std::string& name : vocabulary_names()) {
    if (name.starts_with("spm")) continue;
    const auto tokenizer = load(name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    StreamDecoder decoder(*tokenizer, false);
    for (size_t i = 0; i < vocabulary_corpus().size(); i += 501) {
      const auto ids = tokenizer->encode(vocabulary_corpus()[i], false);
      ASSERT_TRUE(ids.ok());
      std::string text;
      for (const int32_t id : *ids) text += decoder.push(id);
      ASSERT_EQ(text + decoder.flush(), tokenizer->decode(*ids, false)) << name << " " << i;
    }
  }
}

TEST_F(Vocabularies, AllThatAreNamedAreThere) {
  const std::vector<std::string> names = vocabulary_names();
  for (const char* name :
       {"gemma3", "llama3", "qwen3", "gpt4o", "qwen35", "smollm2", "llama2", "deepseek_v3"}) {
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), name)) << name;
  }
}

}  // namespace
}  // namespace rafter::text
