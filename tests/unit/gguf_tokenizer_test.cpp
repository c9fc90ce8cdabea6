// GGUF files with tokenizers of kind llama, t5 and gemma4, written here from the vocabularies of the oracle:
// the ids and texts that the oracle has for the same vocabulary.
#include <map>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "decode/open_tokenizer.h"
#include "format/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/vocabularies.h"
#include "text/sentencepiece.h"
#include "text/text_vocabulary.h"

namespace rafter::text {
namespace {

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

struct GgufVocabulary {
  std::string kind;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::vector<int32_t> charsmap;
  uint32_t bos = 1;
  bool add_space_prefix = true;
  bool remove_extra_spaces = false;
};

class GgufTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(vocabularies_folder() + "/corpus.bin"))
      GTEST_SKIP() << kHowToMakeVocabularies;
  }

  base::Result<Tokenizer> load(const GgufVocabulary& vocabulary) {
    format::GgufWriter writer(folder / "m.gguf");
    const std::string key = "tokenizer.ggml.";
    writer.set_string("general.architecture", "llama");
    writer.set_string(key + "model", vocabulary.kind);
    writer.set_strings(key + "tokens", vocabulary.tokens);
    writer.set_i32s(key + "token_type", vocabulary.types);
    writer.set_u32(key + "bos_token_id", vocabulary.bos);
    writer.set_bool(key + "add_bos_token", true);
    writer.set_bool(key + "add_eos_token", false);
    writer.set_bool(key + "add_space_prefix", vocabulary.add_space_prefix);
    writer.set_bool(key + "remove_extra_whitespaces", vocabulary.remove_extra_spaces);
    if (!vocabulary.scores.empty()) writer.set_f32s(key + "scores", vocabulary.scores);
    if (!vocabulary.merges.empty()) writer.set_strings(key + "merges", vocabulary.merges);
    if (!vocabulary.charsmap.empty()) writer.set_i32s(key + "precompiled_charsmap", vocabulary.charsmap);
    const float value = 1;
    RAFTER_TRY(writer.declare("x", tensor::NumberFormat::plain(tensor::DType::f32), {1}));
    RAFTER_TRY(writer.begin());
    RAFTER_TRY(writer.append("x", std::as_bytes(std::span(&value, 1))));
    RAFTER_TRY(writer.finish_blocking());
    return decode::open_tokenizer(folder / "m.gguf");
  }

  // Over every `step`-th text of the corpus.
  VocabularyDifferences differences(const GgufVocabulary& vocabulary, const std::string& name, size_t step) {
    const auto tokenizer = load(vocabulary);
    if (!tokenizer.ok()) {
      ADD_FAILURE() << name << ": " << tokenizer.error().message();
      return {};
    }
    const VocabularyCase expected =
        read_vocabulary_case(vocabularies_folder() + "/" + name + ".expected", vocabulary_corpus().size());
    VocabularyDifferences result = compare_with(expected, *tokenizer, step);
    EXPECT_GT(result.compared, vocabulary_corpus().size() / step / 2);
    return result;
  }

  testing::TempFolder folder;
};

std::string shown(const std::vector<size_t>& texts) {
  std::string result = std::to_string(texts.size()) + " differ";
  for (size_t k = 0; k < std::min<size_t>(texts.size(), 5); ++k) {
    result += "\n" + std::to_string(texts[k]) + ": " +
              nlohmann::json(vocabulary_corpus()[texts[k]])
                  .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  return result;
}

void expect_same(const VocabularyDifferences& differences) {
  EXPECT_TRUE(differences.encodes.empty()) << shown(differences.encodes);
  EXPECT_TRUE(differences.decodes_of_texts.empty()) << shown(differences.decodes_of_texts);
  EXPECT_TRUE(differences.decodes.empty()) << differences.decodes.size() << " decoded ids differ";
}

// What a converter makes of a tokenizer.model.
GgufVocabulary of_sentencepiece(const std::string& name) {
  const SentencePieceModel model =
      parse_sentencepiece(file_content(vocabularies_folder() + "/" + name + ".model"), name).value();
  GgufVocabulary result;
  result.kind = model.algorithm == SentencePieceModel::Algorithm::bpe ? "llama" : "t5";
  result.tokens = model.pieces;
  result.scores = model.scores;
  for (const SentencePieceType type : model.types) result.types.push_back(static_cast<int32_t>(type));
  for (const char byte : model.charsmap) result.charsmap.push_back(static_cast<uint8_t>(byte));
  result.bos = static_cast<uint32_t>(model.bos);
  result.add_space_prefix = model.add_space_prefix;
  result.remove_extra_spaces = model.remove_extra_spaces;
  return result;
}

// And of a tokenizer.json whose model is BPE with byte fallback.
GgufVocabulary of_json(const std::string& name, const std::string& kind) {
  const nlohmann::json json =
      nlohmann::json::parse(file_content(vocabularies_folder() + "/" + name + "/tokenizer.json"));
  GgufVocabulary result;
  result.kind = kind;
  const nlohmann::json& model = json["model"];
  for (const auto& [piece, id] : model["vocab"].items()) {
    result.tokens.resize(std::max(result.tokens.size(), id.get<size_t>() + 1));
    result.tokens[id] = piece;
  }
  for (const nlohmann::json& token : json["added_tokens"]) {
    result.tokens.resize(std::max(result.tokens.size(), token["id"].get<size_t>() + 1));
    result.tokens[token["id"]] = token["content"];
  }
  result.types.assign(result.tokens.size(), kNormal);
  for (size_t id = 0; id < result.tokens.size(); ++id) {
    const std::string& piece = result.tokens[id];
    if (piece.size() == 6 && piece.starts_with("<0x")) result.types[id] = kByte;
    if (piece == model.value("unk_token", "")) result.types[id] = kUnknown;
  }
  for (const nlohmann::json& token : json["added_tokens"]) {
    int32_t& type = result.types[token["id"].get<size_t>()];
    if (type == kNormal) type = token["special"] ? kControl : kUserDefined;
  }
  const std::string bos = json["post_processor"]["single"][0]["SpecialToken"]["id"];
  result.bos = model["vocab"][bos].get<uint32_t>();
  for (const nlohmann::json& merge : model["merges"]) {
    result.merges.push_back(merge.is_string()
                                ? merge.get<std::string>()
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return result;
}

// SentencePiece's own files: the `sentencepiece` library's ids.
TEST_F(GgufTokenizer, SentencePieceModelsGiveTheIdsOfTheirLibrary) {
  for (const char* name : {"spm_llama", "spm_bpe_unk", "spm_unigram", "spm_unigram_bytes"}) {
    SCOPED_TRACE(name);
    VocabularyDifferences found = differences(of_sentencepiece(name), name, 3);
    found.decodes_of_texts.clear();  // the oracle has no texts of those
    expect_same(found);
  }
}

// The merges of Llama 2's tokenizer.json are sorted by the score of what they make.
TEST_F(GgufTokenizer, Llama2GivesTheIdsAndTextsOfItsTokenizerJson) {
  GgufVocabulary vocabulary = of_json("llama2", "llama");
  std::map<std::string, float> score_of;
  for (const std::string& merge : vocabulary.merges) {
    const auto [left, right] = split_merge(merge).value();
    score_of.emplace(left + right, -static_cast<float>(score_of.size()));
  }
  vocabulary.merges.clear();
  for (const std::string& piece : vocabulary.tokens) vocabulary.scores.push_back(score_of[piece]);
  expect_same(differences(vocabulary, "llama2", 3));
  std::fill_n(vocabulary.scores.begin() + 300, 100, -1e6f);
  EXPECT_FALSE(differences(vocabulary, "llama2", 7).encodes.empty());
}

TEST_F(GgufTokenizer, Gemma4sKindGivesTheIdsAndTextsOfGemma3) {
  GgufVocabulary vocabulary = of_json("gemma3", "gemma4");
  expect_same(differences(vocabulary, "gemma3", 7));
  vocabulary.kind = "llama";
  EXPECT_FALSE(load(vocabulary).ok());  // that one needs scores
}

TEST(GgufTokenizerErrors, PiecesAreUtf8) {
  EXPECT_EQ(TextVocabulary::build({"a", "\xE9"}, TextVocabulary::Duplicates::refused, "m").error().code,
            base::ErrorCode::invalid_data);
}

}  // namespace
}  // namespace rafter::text
