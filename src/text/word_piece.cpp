#include "text/word_piece.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;

// A step looks at up to as many prefixes as a piece has bytes, so both are bounded.
constexpr size_t kLongestPiece = 1024;
constexpr size_t kLongestWord = 4096;

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Result<WordPieceModel> WordPieceModel::build(const WordPieceSpec& spec, const std::string& where) {
  RAFTER_ASSIGN(TextVocabulary vocabulary,
                TextVocabulary::build(spec.pieces, TextVocabulary::Duplicates::refused, where));
  if (spec.longest_word > kLongestWord) {
    return Error{ErrorCode::unsupported, fmt::format("words of up to {} characters", spec.longest_word),
                 where, fmt::format("at most {} are supported", kLongestWord)};
  }
  WordPieceModel model(std::move(vocabulary), spec);
  if (model.longest_piece_ > kLongestPiece) {
    return Error{
        ErrorCode::unsupported,
        fmt::format("a piece of {} bytes; at most {} are supported", model.longest_piece_, kLongestPiece),
        where, ""};
  }
  return model;
}

WordPieceModel::WordPieceModel(TextVocabulary vocabulary, const WordPieceSpec& spec)
    : vocabulary_(std::move(vocabulary)),
      prefix_(spec.continuing_prefix),
      longest_word_(spec.longest_word),
      unknown_id_(vocabulary_.find(spec.unknown_piece)) {
  for (const std::string& piece : spec.pieces) longest_piece_ = std::max(longest_piece_, piece.size());
}

size_t WordPieceModel::longest_piece(std::string_view rest, bool continues, std::string& scratch,
                                     int32_t& id) const {
  const size_t prefix = continues ? prefix_.size() : 0;
  if (longest_piece_ <= prefix) return 0;
  scratch.assign(prefix_, 0, prefix);
  scratch += rest.substr(0, longest_piece_ - prefix);
  size_t end = scratch.size() - prefix;
  while (end > 0 && end < rest.size() && (static_cast<uint8_t>(rest[end]) & 0xC0) == 0x80) --end;
  while (end > 0) {
    id = vocabulary_.find(std::string_view(scratch).substr(0, prefix + end));
    if (id >= 0) return end;
    end -= char_before(rest, end).length;
  }
  return 0;
}

WordOutcome WordPieceModel::encode_word(std::string_view word, WordWorkspace& workspace,
                                        std::vector<int32_t>& ids) const {
  std::vector<int32_t>& cut = workspace.ids;
  cut.clear();
  bool known = word.size() <= longest_word_ * 4 && count_characters(word) <= longest_word_;
  for (size_t begin = 0; known && begin < word.size();) {
    int32_t id = -1;
    const size_t length = longest_piece(word.substr(begin), begin > 0, workspace.text, id);
    if (length == 0) known = false;
    begin += length;
    cut.push_back(id);
  }
  if (known) {
    ids.insert(ids.end(), cut.begin(), cut.end());
    return WordOutcome::done;
  }
  if (unknown_id_ < 0) return WordOutcome::no_unknown_piece;
  ids.push_back(unknown_id_);
  return WordOutcome::done;
}

Result<WordLevelModel> WordLevelModel::build(const WordLevelSpec& spec, const std::string& where) {
  RAFTER_ASSIGN(TextVocabulary vocabulary,
                TextVocabulary::build(spec.pieces, TextVocabulary::Duplicates::refused, where));
  return WordLevelModel(std::move(vocabulary), spec);
}

WordOutcome WordLevelModel::encode_word(std::string_view word, WordWorkspace&,
                                        std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_.find(word);
  if (id < 0 && unknown_id_ < 0) return WordOutcome::no_unknown_piece;
  ids.push_back(id >= 0 ? id : unknown_id_);
  return WordOutcome::done;
}

}  // namespace rafter::text
