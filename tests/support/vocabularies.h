// Reads the texts and expected results that oracle/tokenizer_vocabularies.py writes; see there for the
// format.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tokenizer.h"

namespace rafter::text {

// RAFTER_VOCABULARIES names another folder than the oracle's own: one made with another seed.
inline std::string vocabularies_folder() {
  const char* other = std::getenv("RAFTER_VOCABULARIES");
  return other != nullptr ? other : RAFTER_SOURCE_DIR "/build/oracle/vocabularies";
}
inline constexpr const char* kHowToMakeVocabularies =
    "there is no build/oracle/vocabularies: run make oracle";

inline std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  RAFTER_CHECK(file.good(), "{}", path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// Little-endian 32-bit words.
class Words {
 public:
  explicit Words(std::string content) : content_(std::move(content)) {}
  bool at_end() const { return position_ == content_.size(); }
  uint32_t next() {
    uint32_t word;
    std::memcpy(&word, take(4).data(), 4);
    return word;
  }
  std::string_view take(size_t size) {
    RAFTER_CHECK(position_ + size <= content_.size(), "a file that ends too early");
    position_ += size;
    return std::string_view(content_).substr(position_ - size, size);
  }

 private:
  std::string content_;
  size_t position_ = 0;
};

// CRC-32 as zlib has it, but 1 for 0.
inline uint32_t crc_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = entries[i] >> 1 ^ ((entries[i] & 1) != 0 ? 0xEDB88320u : 0u);
    }
    return entries;
  }();
  uint32_t crc = UINT32_MAX;
  for (char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc != 0 ? ~crc : 1;
}

inline uint32_t crc_of(const std::vector<int32_t>& ids) {
  return crc_of(std::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)));
}

struct VocabularyCase {
  struct Row {  // CRCs; all 0: not compared
    uint32_t plain, around, shown, hidden;
    bool is_skipped() const { return plain == 0; }
  };
  struct Decode {
    std::vector<int32_t> ids;
    uint32_t shown, hidden;
  };
  std::vector<Row> rows;  // [text]
  std::vector<Decode> decodes;
};

inline const std::vector<std::string>& vocabulary_corpus() {
  static const std::vector<std::string> texts = [] {
    Words words(file_content(vocabularies_folder() + "/corpus.bin"));
    std::vector<std::string> result(words.next());
    for (std::string& text : result) text = words.take(words.next());
    return result;
  }();
  return texts;
}

inline VocabularyCase read_vocabulary_case(const std::string& path, size_t texts) {
  Words words(file_content(path));
  VocabularyCase result;
  result.rows.resize(texts);
  for (VocabularyCase::Row& row : result.rows) row = {words.next(), words.next(), words.next(), words.next()};
  result.decodes.resize(words.next());
  for (VocabularyCase::Decode& decode : result.decodes) {
    decode.ids.resize(words.next());
    for (int32_t& id : decode.ids) id = static_cast<int32_t>(words.next());
    decode.shown = words.next();
    decode.hidden = words.next();
  }
  RAFTER_CHECK(words.at_end(), "{}", path);
  return result;
}

// What differs between a tokenizer and the expected results: indices of texts and of sequences of ids.
struct VocabularyDifferences {
  std::vector<size_t> encodes, decodes_of_texts, decodes;
  size_t compared = 0;
  bool none() const { return encodes.empty() && decodes_of_texts.empty() && decodes.empty(); }
};

// The comparer. Looks at every `step`-th text.
inline VocabularyDifferences compare_with(const VocabularyCase& expected, const Tokenizer& tokenizer,
                                          size_t step = 1) {
  const std::vector<std::string>& texts = vocabulary_corpus();
  VocabularyDifferences differences;
  for (size_t i = 0; i < texts.size(); i += step) {
    const VocabularyCase::Row& row = expected.rows[i];
    if (row.is_skipped()) continue;
    ++differences.compared;
    const auto plain = tokenizer.encode(texts[i], false), around = tokenizer.encode(texts[i], true);
    if (!plain.ok() || !around.ok() || crc_of(*plain) != row.plain || crc_of(*around) != row.around) {
      differences.encodes.push_back(i);
    } else if (crc_of(tokenizer.decode(*plain, false)) != row.shown ||
               crc_of(tokenizer.decode(*plain, true)) != row.hidden) {
      differences.decodes_of_texts.push_back(i);
    }
  }
  for (size_t i = 0; i < expected.decodes.size(); ++i) {
    const VocabularyCase::Decode& decode = expected.decodes[i];
    if (crc_of(tokenizer.decode(decode.ids, false)) != decode.shown ||
        crc_of(tokenizer.decode(decode.ids, true)) != decode.hidden) {
      differences.decodes.push_back(i);
    }
  }
  return differences;
}

// The names of all vocabularies there are.
inline std::vector<std::string> vocabulary_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(vocabularies_folder())) {
    if (entry.path().extension() == ".expected") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rafter::text
