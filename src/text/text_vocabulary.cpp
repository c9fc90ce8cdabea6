#include "text/text_vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/quote.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

using base::Error;
using base::ErrorCode;
using base::Result;

Result<TextVocabulary> TextVocabulary::build(const std::vector<std::string>& pieces, Duplicates duplicates,
                                             const std::string& where) {
  if (pieces.empty()) return Error{ErrorCode::invalid_data, "the vocabulary is empty", where, ""};
  size_t total = 0;
  for (const std::string& piece : pieces) total += piece.size();
  if (pieces.size() > static_cast<size_t>(kMaxTokens) || total > UINT32_MAX) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("a vocabulary of {} pieces and {} bytes is too large", pieces.size(), total),
                 where, ""};
  }
  TextVocabulary vocabulary;
  vocabulary.table_.reserve(pieces.size());
  for (const std::string& piece : pieces) vocabulary.texts_.append(piece);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool backwards = duplicates == Duplicates::last_wins;
    const auto id = static_cast<int32_t>(backwards ? pieces.size() - 1 - i : i);
    if (vocabulary.texts_[id].empty()) continue;
    if (!base::is_valid_utf8(vocabulary.texts_[id])) {
      return Error{ErrorCode::invalid_data, fmt::format("piece {} is not valid UTF-8", id), where, ""};
    }
    const int32_t other = vocabulary.table_.insert(vocabulary.texts_, id);
    if (other >= 0 && duplicates == Duplicates::refused) {
      return Error{
          ErrorCode::invalid_data,
          fmt::format("ids {} and {} are the same piece {}", other, id, quote(vocabulary.texts_[id])), where,
          ""};
    }
  }
  return vocabulary;
}

ByteFallback::ByteFallback(const TextVocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    ids[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    if (ids[byte] < 0) is_complete = false;
  }
}

bool ByteFallback::append(std::string_view text, std::vector<int32_t>& out) const {
  const bool known = is_complete || std::all_of(text.begin(), text.end(), [&](char byte) {
                       return ids[static_cast<uint8_t>(byte)] >= 0;
                     });
  if (!known) return false;
  for (char byte : text) out.push_back(ids[static_cast<uint8_t>(byte)]);
  return true;
}

}  // namespace rafter::text
