#include "text/character_bpe.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/bpe_merge.h"
#include "text/quote.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

constexpr size_t kMaxMerges = 4u << 20;

// The code points at the ends of a piece.
char32_t first_character(std::string_view piece) { return piece.empty() ? 0 : char_at(piece, 0).code_point; }
char32_t last_character(std::string_view piece) {
  return piece.empty() ? 0 : char_before(piece, piece.size()).code_point;
}

bool is_one_character(std::string_view piece) {
  return !piece.empty() && char_at(piece, 0).length == piece.size();
}

// Characters that are parts of mergeable pieces and not pieces themselves.
void add_missing_characters(const BpeSpec& spec, std::vector<std::string>& pieces) {
  std::vector<std::string> characters;
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    const std::string_view piece = spec.pieces[id];
    if (!spec.mergeable[id]) continue;
    for (size_t at = 0; at < piece.size(); at += char_at(piece, at).length) {
      characters.emplace_back(piece.substr(at, char_at(piece, at).length));
    }
  }
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  std::vector<std::string> present;
  for (const std::string& piece : spec.pieces) {
    if (is_one_character(piece)) present.push_back(piece);
  }
  std::sort(present.begin(), present.end());
  std::set_difference(characters.begin(), characters.end(), present.begin(), present.end(),
                      std::back_inserter(pieces));
}

}  // namespace

void CharacterBpeModel::JoinedPairs::add(char32_t left, char32_t right) {
  const uint32_t bit = bit_of(left, right);
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
}

Result<CharacterBpeModel> CharacterBpeModel::build(const BpeSpec& spec, const std::string& where) {
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    if (base::is_valid_utf8(spec.pieces[id])) continue;
    return Error{ErrorCode::invalid_data, fmt::format("piece {} is not valid UTF-8", id), where, ""};
  }
  std::vector<std::string> pieces = spec.pieces;
  const bool has_scores = !spec.scores.empty();
  if (has_scores) {
    if (spec.scores.size() != pieces.size() || spec.mergeable.size() != pieces.size()) {
      return Error{ErrorCode::invalid_data,
                   fmt::format("{} scores for {} pieces", spec.scores.size(), pieces.size()), where, ""};
    }
    add_missing_characters(spec, pieces);
  }
  RAFTER_ASSIGN(TextVocabulary vocabulary,
                TextVocabulary::build(pieces, TextVocabulary::Duplicates::refused, where));
  CharacterBpeModel model(std::move(vocabulary), static_cast<int32_t>(spec.pieces.size()), spec);
  RAFTER_TRY(has_scores ? model.add_scored_merges(spec, where) : model.add_listed_merges(spec, where));
  RAFTER_TRY(model.find_unknown(spec, where));
  return model;
}

CharacterBpeModel::CharacterBpeModel(TextVocabulary vocabulary, int32_t size, const BpeSpec& spec)
    : vocabulary_(std::move(vocabulary)),
      size_(size),
      symbols_(0x10000, -1),
      continuing_prefix_(spec.continuing_prefix),
      word_suffix_(spec.word_suffix),
      fuse_unknown_(spec.fuse_unknown),
      ignore_merges_(spec.ignore_merges) {
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view piece = vocabulary_[id];
    if (!is_one_character(piece)) continue;
    if (const char32_t c = first_character(piece); c < symbols_.size()) symbols_[c] = id;
  }
  if (spec.byte_fallback) bytes_.emplace(vocabulary_);
  knows_all_ = bytes_ && bytes_->is_complete;
  cuts_ = continuing_prefix_.empty() && word_suffix_.empty();
}

void CharacterBpeModel::add_merge(int32_t left, int32_t right, Merge merge, bool replace) {
  merges_.insert(left, right, merge, replace);
  joined_.add(last_character(vocabulary_[left]), first_character(vocabulary_[right]));
  for (const int32_t id : {left, right}) {
    if (!bytes_ || vocabulary_[id].size() != 6 || !vocabulary_[id].starts_with("<0x")) continue;
    knows_all_ = false;
    cuts_ = false;
  }
}

Status CharacterBpeModel::add_listed_merges(const BpeSpec& spec, const std::string& where) {
  if (spec.merges.size() > kMaxMerges) {
    return Error{ErrorCode::invalid_data, fmt::format("{} merges are too many", spec.merges.size()), where,
                 ""};
  }
  merges_.reserve(spec.merges.size());
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [left, right] = spec.merges[i];
    const std::string whole = left + right.substr(std::min(right.size(), continuing_prefix_.size()));
    const int32_t left_id = vocabulary_.find(left);
    const int32_t right_id = vocabulary_.find(right);
    const int32_t merged = vocabulary_.find(whole);
    if (left_id < 0 || right_id < 0 || merged < 0) {
      const std::string& missing = left_id < 0 ? left : right_id < 0 ? right : whole;
      return Error{ErrorCode::invalid_data,
                   fmt::format("merge {} ({} {}) needs the piece {}, which is not in the vocabulary", i,
                               quote(left), quote(right), quote(missing)),
                   where, ""};
    }
    add_merge(left_id, right_id, {static_cast<uint32_t>(i), merged}, !spec.first_duplicate_merge_wins);
  }
  return {};
}

// Every cut of a mergeable piece into two symbols is a merge. Its rank is the place of the piece's score
// among all scores, so that pieces of one score share a rank and the leftmost of them comes first.
Status CharacterBpeModel::add_scored_merges(const BpeSpec& spec, const std::string& where) {
  std::vector<float> scores = spec.scores;
  if (std::any_of(scores.begin(), scores.end(), [](float score) { return score != score; })) {
    return Error{ErrorCode::invalid_data, "a score is not a number", where, ""};
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());

  struct Found {
    int32_t left, right, merged;
  };
  std::vector<Found> found;
  const auto is_symbol = [&](int32_t id, std::string_view text) {
    return id >= 0 && (id >= size_ || spec.mergeable[static_cast<size_t>(id)] || is_one_character(text));
  };
  for (int32_t id = 0; id < size_; ++id) {
    const std::string_view piece = vocabulary_[id];
    if (!spec.mergeable[static_cast<size_t>(id)] || piece.empty()) continue;
    if (piece.size() > 1024) {
      return Error{ErrorCode::unsupported, fmt::format("piece {} has {} bytes", id, piece.size()), where, ""};
    }
    for (size_t cut = char_at(piece, 0).length; cut < piece.size(); cut += char_at(piece, cut).length) {
      const int32_t left = vocabulary_.find(piece.substr(0, cut));
      const int32_t right = vocabulary_.find(piece.substr(cut));
      if (!is_symbol(left, piece.substr(0, cut)) || !is_symbol(right, piece.substr(cut))) continue;
      found.push_back({left, right, id});
      if (found.size() > kMaxMerges) return Error{ErrorCode::invalid_data, "too many merges", where, ""};
    }
  }
  merges_.reserve(found.size());
  for (const Found& merge : found) {
    const auto rank = std::lower_bound(scores.begin(), scores.end(),
                                       spec.scores[static_cast<size_t>(merge.merged)], std::greater<>()) -
                      scores.begin();
    add_merge(merge.left, merge.right, {static_cast<uint32_t>(rank), merge.merged}, false);
  }
  return {};
}

Status CharacterBpeModel::find_unknown(const BpeSpec& spec, const std::string& where) {
  if (!spec.unknown_piece) return {};
  unknown_id_ = find_piece(*spec.unknown_piece);
  if (unknown_id_ >= 0) return {};
  return Error{ErrorCode::invalid_data,
               fmt::format("the unknown token {} is not in the vocabulary", quote(*spec.unknown_piece)),
               where, ""};
}

// Whether the characters on both sides of a position end up in different ids whatever is around them.
// Precondition: 0 < position < word.size().
bool CharacterBpeModel::is_boundary(std::string_view word, size_t position) const {
  const Char left = char_before(word, position);
  const Char right = char_at(word, position);
  if (joined_.may_have(left.code_point, right.code_point)) return false;
  if (knows_all_) return true;
  const auto is_piece = [&](size_t begin, Char character) {
    const int32_t symbol = symbol_of(word.substr(begin, character.length), character.code_point);
    return symbol >= 0 && symbol < size_;
  };
  return is_piece(position - left.length, left) && is_piece(position, right);
}

WordOutcome CharacterBpeModel::encode_word(std::string_view word, WordWorkspace& workspace,
                                           std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const int32_t whole = find_piece(word); whole >= 0) {
      ids.push_back(whole);
      return WordOutcome::done;
    }
  }
  size_t begin = 0;
  for (size_t end = 0; begin < word.size(); begin = end) {
    do {
      end += char_at(word, end).length;
    } while (end < word.size() && !(cuts_ && is_boundary(word, end)));
    encode_part(word.substr(begin, end - begin), workspace, ids);
  }
  return WordOutcome::done;
}

void CharacterBpeModel::encode_part(std::string_view part, WordWorkspace& workspace,
                                    std::vector<int32_t>& ids) const {
  WordCache::Slot* slot = workspace.cache.slot_of(part);
  if (slot != nullptr && slot->holds(part)) {
    for (int32_t id : slot->found()) ids.push_back(id);
    return;
  }
  split_into_symbols(part, workspace);
  merge_symbols(merges_, workspace);
  const size_t first_id = ids.size();
  for (int32_t id : workspace.ids) {
    if (id < size_) {
      ids.push_back(id);
    } else {
      append_character(id, first_id, ids);
    }
  }
  if (slot != nullptr) WordCache::store(*slot, part, std::span(ids).subspan(first_id));
}

// An unknown character waits until the next known one, so that its neighbours can join it; characters that
// become bytes meanwhile go before it. That is what the `tokenizers` library does.
void CharacterBpeModel::split_into_symbols(std::string_view part, WordWorkspace& workspace) const {
  std::vector<int32_t>& symbols = workspace.ids;
  symbols.clear();
  const bool is_decorated = !continuing_prefix_.empty() || !word_suffix_.empty();
  bool unknown_waits = false;
  for (size_t at = 0; at < part.size();) {
    const Char character = char_at(part, at);
    std::string_view text = part.substr(at, character.length);
    int32_t symbol;
    if (is_decorated) {
      workspace.text = at > 0 ? continuing_prefix_ : "";
      workspace.text += text;
      if (at + character.length == part.size()) workspace.text += word_suffix_;
      text = workspace.text;
      symbol = vocabulary_.find(text);
    } else {
      symbol = symbol_of(text, character.code_point);
    }
    at += character.length;
    if (symbol >= 0) {
      if (unknown_waits) symbols.push_back(unknown_id_);
      unknown_waits = false;
      symbols.push_back(symbol);
    } else if (!bytes_ || !bytes_->append(text, symbols)) {
      if (unknown_waits && !fuse_unknown_) symbols.push_back(unknown_id_);
      unknown_waits = unknown_id_ >= 0;
    }
  }
  if (unknown_waits) symbols.push_back(unknown_id_);
}

void CharacterBpeModel::append_character(int32_t symbol, size_t first_id, std::vector<int32_t>& ids) const {
  if (bytes_ && bytes_->append(vocabulary_[symbol], ids)) return;
  const bool joins_previous = fuse_unknown_ && ids.size() > first_id && ids.back() == unknown_id_;
  if (unknown_id_ >= 0 && !joins_previous) ids.push_back(unknown_id_);
}

}  // namespace rafter::text
