#include "text/bpe.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/bpe_merge.h"
#include "text/byte_alphabet.h"
#include "text/quote.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

}  // namespace

std::optional<std::pair<std::string, std::string>> split_merge(std::string_view merge) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(merge.substr(0, space)), std::string(merge.substr(space + 1)));
}

Result<BpeModel> BpeModel::build(const BpeSpec& spec, const std::string& where) {
  BpeModel model;
  model.fuse_unknown_ = spec.fuse_unknown;
  model.ignore_merges_ = spec.ignore_merges;
  RAFTER_TRY(model.add_pieces(spec, where));
  RAFTER_TRY(model.add_merges(spec, where));
  RAFTER_TRY(model.add_bytes(spec, where));
  return model;
}

Status BpeModel::add_pieces(const BpeSpec& spec, const std::string& where) {
  if (spec.pieces.empty()) return Error{ErrorCode::invalid_data, "the vocabulary is empty", where, ""};
  size_t total = 0;
  for (const std::string& piece : spec.pieces) total += piece.size();
  if (spec.pieces.size() > static_cast<size_t>(kMaxTokens) || total > UINT32_MAX) {
    return Error{
        ErrorCode::invalid_data,
        fmt::format("a vocabulary of {} pieces and {} bytes is too large", spec.pieces.size(), total), where,
        ""};
  }
  pieces_.reserve(spec.pieces.size());
  for (size_t i = 0; i < spec.pieces.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string& piece = spec.pieces[i];
    const std::optional<std::string> bytes = alphabet_to_bytes(piece);
    bytes_.append(bytes ? *bytes : piece);
    if (piece.empty()) continue;
    if (!bytes) {
      literal_pieces_.push_back(id);
      continue;
    }
    if (const int32_t other = pieces_.insert(bytes_, id); other >= 0) {
      return Error{ErrorCode::invalid_data,
                   fmt::format("ids {} and {} are the same piece {}", other, id, quote(piece)), where, ""};
    }
  }
  std::sort(literal_pieces_.begin(), literal_pieces_.end(),
            [&](int32_t a, int32_t b) { return bytes_[a] < bytes_[b]; });
  for (size_t i = 1; i < literal_pieces_.size(); ++i) {
    const int32_t one = literal_pieces_[i - 1], two = literal_pieces_[i];
    if (bytes_[one] == bytes_[two]) {
      return Error{ErrorCode::invalid_data,
                   fmt::format("ids {} and {} are the same piece {}", one, two, quote(bytes_[one])), where,
                   ""};
    }
  }
  return {};
}

int32_t BpeModel::find_piece(std::string_view piece) const {
  if (piece.empty()) return -1;
  const std::optional<std::string> bytes = alphabet_to_bytes(piece);
  return bytes ? pieces_.find(bytes_, *bytes) : find_literal_piece(piece);
}

std::string BpeModel::piece(int32_t id) const {
  return find_literal_piece(bytes(id)) == id ? std::string(bytes(id)) : bytes_to_alphabet(bytes(id));
}

int32_t BpeModel::find_literal_piece(std::string_view piece) const {
  const auto found = std::lower_bound(literal_pieces_.begin(), literal_pieces_.end(), piece,
                                      [&](int32_t id, std::string_view text) { return bytes_[id] < text; });
  return found != literal_pieces_.end() && bytes_[*found] == piece ? *found : -1;
}

Status BpeModel::add_merges(const BpeSpec& spec, const std::string& where) {
  constexpr size_t kMaxMerges = 4u << 20;
  if (spec.merges.size() > kMaxMerges) {
    return Error{ErrorCode::invalid_data, fmt::format("{} merges are too many", spec.merges.size()), where,
                 ""};
  }
  merges_.reserve(spec.merges.size());
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [left, right] = spec.merges[i];
    const int32_t left_id = find_piece(left);
    const int32_t right_id = find_piece(right);
    const int32_t merged = find_piece(left + right);
    if (left_id < 0 || right_id < 0 || merged < 0) {
      const std::string missing = left_id < 0 ? left : right_id < 0 ? right : left + right;
      return Error{ErrorCode::invalid_data,
                   fmt::format("merge {} ({} {}) needs the piece {}, which is not in the vocabulary", i,
                               quote(left), quote(right), quote(missing)),
                   where, ""};
    }
    merges_.insert(left_id, right_id, {static_cast<uint32_t>(i), merged}, !spec.first_duplicate_merge_wins);
  }
  return {};
}

Status BpeModel::add_bytes(const BpeSpec& spec, const std::string& where) {
  has_all_bytes_ = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto character = static_cast<char>(byte);
    byte_ids_[byte] = pieces_.find(bytes_, std::string_view(&character, 1));
    if (byte_ids_[byte] < 0) has_all_bytes_ = false;
  }
  if (spec.unknown_piece) {
    unknown_id_ = find_piece(*spec.unknown_piece);
    if (unknown_id_ < 0) {
      return Error{ErrorCode::invalid_data,
                   fmt::format("the unknown token {} is not in the vocabulary", quote(*spec.unknown_piece)),
                   where, ""};
    }
  }
  return {};
}

void BpeModel::split_into_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
  symbols.clear();
  bool after_unknown = false;
  for (char character : word) {
    int32_t id = byte_ids_[static_cast<uint8_t>(character)];
    const bool is_unknown = id < 0;
    if (is_unknown) id = after_unknown && fuse_unknown_ ? -1 : unknown_id_;
    after_unknown = is_unknown;
    if (id >= 0) symbols.push_back(id);
  }
}

WordOutcome BpeModel::encode_word(std::string_view word, WordWorkspace& workspace,
                                  std::vector<int32_t>& ids) const {
  WordCache::Slot* slot = workspace.cache.slot_of(word);
  if (slot != nullptr && slot->holds(word)) {
    for (int32_t id : slot->found()) ids.push_back(id);
    return WordOutcome::done;
  }
  const int32_t whole = ignore_merges_ ? pieces_.find(bytes_, word) : -1;
  if (whole >= 0) {
    workspace.ids.assign(1, whole);
  } else {
    split_into_bytes(word, workspace.ids);
    merge_symbols(merges_, workspace);
  }
  if (slot != nullptr) WordCache::store(*slot, word, workspace.ids);
  ids.insert(ids.end(), workspace.ids.begin(), workspace.ids.end());
  return WordOutcome::done;
}

}  // namespace rafter::text
