// Reads and compares with the expected token ids that oracle/tokenizer_vectors.py writes; see there for the
// format.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace rafter::text {

struct TokenizerCase {
  std::string name;
  nlohmann::json json;  // a whole tokenizer.json; null if `path` names one instead
  std::string path;
  std::string hashes;                     // of the ids
  std::string special_hashes;             // of the ids with special tokens added; may be empty
  std::vector<std::vector<int32_t>> ids;  // of the first texts; may be empty
  nlohmann::json decoded;                 // [[ids, text, text without special tokens], …]
};

struct SplitCase {
  SplitStep step;
  std::string hashes;
};

struct TokenizerVectors {
  std::vector<std::string> texts;
  size_t group = 1;  // texts per hash
  std::vector<TokenizerCase> tokenizers;
  std::vector<SplitCase> splits;

  const TokenizerCase& tokenizer(std::string_view name) const {
    for (const TokenizerCase& entry : tokenizers) {
      if (entry.name == name) return entry;
    }
    throw std::out_of_range(std::string(name));
  }
};

inline SplitStep split_step_of(const nlohmann::json& json) {
  SplitStep step;
  step.is_regex = json["pattern"].contains("Regex");
  step.pattern = json["pattern"][step.is_regex ? "Regex" : "String"];
  const std::string behavior = json["behavior"];
  step.behavior = behavior == "Removed"              ? SplitBehavior::removed
                  : behavior == "Isolated"           ? SplitBehavior::isolated
                  : behavior == "MergedWithPrevious" ? SplitBehavior::merged_with_previous
                  : behavior == "MergedWithNext"     ? SplitBehavior::merged_with_next
                                                     : SplitBehavior::contiguous;
  step.inverted = json["invert"];
  return step;
}

inline TokenizerVectors read_tokenizer_vectors(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json root = nlohmann::json::parse(file);
  TokenizerVectors vectors;
  vectors.texts = root["texts"].get<std::vector<std::string>>();
  for (const auto& text : root["random"]) vectors.texts.push_back(text);
  vectors.group = root["group"];
  for (const auto& entry : root["tokenizers"]) {
    TokenizerCase result;
    result.name = entry["name"];
    result.path = entry.value("path", "");
    if (entry.contains("json")) {
      result.json = entry["json"];
      if (!result.json["model"].contains("vocab")) {
        result.json["model"]["vocab"] = root["model"]["vocab"];
        result.json["model"]["merges"] = root["model"]["merges"];
        result.json["model"]["vocab"].update(entry["extra_vocab"]);
      }
    }
    result.hashes = entry["hashes"];
    result.special_hashes = entry.value("special_hashes", "");
    if (entry.contains("ids")) result.ids = entry["ids"].get<std::vector<std::vector<int32_t>>>();
    result.decoded = entry["decoded"];
    vectors.tokenizers.push_back(std::move(result));
  }
  for (const auto& entry : root["splits"])
    vectors.splits.push_back({split_step_of(entry["step"]), entry["hashes"]});
  return vectors;
}

inline const TokenizerVectors& committed_vectors() {
  static const TokenizerVectors vectors =
      read_tokenizer_vectors(std::string(RAFTER_SOURCE_DIR) + "/tests/data/tokenizer/vectors.json");
  return vectors;
}

inline std::string large_vectors_path() {
  return std::string(RAFTER_SOURCE_DIR) + "/build/oracle/tokenizer/vectors.json";
}
inline constexpr const char* kHowToMakeLargeVectors = "there is no build/oracle/tokenizer: run make oracle";

inline base::Result<Tokenizer> load_case(const TokenizerCase& entry) {
  if (entry.path.empty()) return Tokenizer::from_json(entry.json.dump(), entry.name);
  std::ifstream file(entry.path);
  std::stringstream content;
  content << file.rdbuf();
  return Tokenizer::from_json(content.str(), entry.path);
}

// The numbers that a tokenizer or a pre-tokenizer makes of a text.
using NumbersOf = std::function<std::vector<int32_t>(std::string_view)>;

inline std::string hash_numbers(const NumbersOf& numbers_of, const std::string* texts, size_t count) {
  uint32_t crc = UINT32_MAX;  // CRC-32, as zlib has it
  auto add = [&](uint32_t word) {
    for (int bit = 0; bit < 32; ++bit) {
      crc = crc >> 1 ^ (((crc ^ word >> bit) & 1) != 0 ? 0xEDB88320u : 0u);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int32_t> numbers = numbers_of(texts[i]);
    add(static_cast<uint32_t>(numbers.size()));
    for (int32_t number : numbers) add(static_cast<uint32_t>(number));
  }
  return fmt::format("{:06x}", ~crc & 0xFFFFFF);
}

// The comparer: indices of the groups of texts whose numbers differ from what is expected.
inline std::vector<size_t> differing_groups(const TokenizerVectors& vectors, const std::string& hashes,
                                            const NumbersOf& numbers_of) {
  std::vector<size_t> differing;
  const size_t groups = (vectors.texts.size() + vectors.group - 1) / vectors.group;
  EXPECT_EQ(hashes.size(), groups * 6);
  for (size_t i = 0; i < groups; ++i) {
    const size_t first = i * vectors.group;
    const size_t count = std::min(vectors.group, vectors.texts.size() - first);
    if (hash_numbers(numbers_of, &vectors.texts[first], count) != std::string_view(hashes).substr(i * 6, 6)) {
      differing.push_back(i);
    }
  }
  return differing;
}

inline std::string texts_of_group(const TokenizerVectors& vectors, size_t group) {
  const auto first = vectors.texts.begin() + static_cast<ptrdiff_t>(group * vectors.group);
  const size_t count = std::min(vectors.group, vectors.texts.size() - group * vectors.group);
  return nlohmann::json(std::vector<std::string>(first, first + static_cast<ptrdiff_t>(count)))
      .dump(1, ' ', true);
}

inline NumbersOf ids_of(const Tokenizer& tokenizer, bool add_special = false) {
  return [tokenizer, add_special](std::string_view text) {
    auto ids = tokenizer.encode(text, add_special);
    EXPECT_TRUE(ids.ok()) << ids.error().message();
    return ids.ok() ? *ids : std::vector<int32_t>();
  };
}

// Lengths in bytes of the pieces.
inline NumbersOf piece_lengths_of(const PreTokenizer& pre_tokenizer) {
  return [&pre_tokenizer](std::string_view text) {
    struct Lengths : PieceSink {
      std::vector<int32_t> lengths;
      bool piece(std::string_view bytes) override {
        lengths.push_back(static_cast<int32_t>(bytes.size()));
        return true;
      }
    } sink;
    const base::Status status = pre_tokenizer.split(text, true, sink);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return sink.lengths;
  };
}

}  // namespace rafter::text
