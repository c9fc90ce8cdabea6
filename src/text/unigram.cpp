#include "text/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "text/quote.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;

constexpr double kUnknownPenalty = 10;
constexpr uint32_t kNotReached = UINT32_MAX;
constexpr size_t kLongestWord = 256 << 20;  // a node takes 16 bytes per byte

// Of an unknown character; SentencePiece itself has it in single precision.
double score_of_unknown(const UnigramSpec& spec) {
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < spec.scores.size(); ++id) {
    if (spec.is_text.empty() || spec.is_text[id]) lowest = std::min(lowest, spec.scores[id]);
  }
  const double score = lowest - kUnknownPenalty;
  return spec.is_text.empty() ? score : static_cast<double>(static_cast<float>(score));
}

}  // namespace

Result<UnigramModel> UnigramModel::build(const UnigramSpec& spec, const std::string& where) {
  RAFTER_ASSIGN(TextVocabulary vocabulary,
                TextVocabulary::build(spec.pieces, TextVocabulary::Duplicates::last_wins, where));
  if (spec.scores.size() != spec.pieces.size()) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("{} scores for {} pieces", spec.scores.size(), spec.pieces.size()), where, ""};
  }
  for (size_t id = 0; id < spec.scores.size(); ++id) {
    if (!std::isfinite(spec.scores[id])) {
      return Error{ErrorCode::invalid_data,
                   fmt::format("the score of piece {} is not a finite number", quote(spec.pieces[id])), where,
                   ""};
    }
  }
  if (spec.unknown_id && (*spec.unknown_id < 0 || *spec.unknown_id >= vocabulary.size())) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("the unknown id {} is not in the vocabulary", *spec.unknown_id), where, ""};
  }
  RAFTER_ASSIGN(PieceTrie trie, PieceTrie::build(vocabulary, spec.is_text, where));
  return UnigramModel(std::move(vocabulary), std::move(trie), spec);
}

UnigramModel::UnigramModel(TextVocabulary vocabulary, PieceTrie trie, const UnigramSpec& spec)
    : vocabulary_(std::move(vocabulary)),
      trie_(std::move(trie)),
      scores_(spec.scores),
      unknown_score_(score_of_unknown(spec)),
      single_precision_(!spec.is_text.empty()),
      unknown_id_(spec.unknown_id) {
  if (spec.byte_fallback) bytes_.emplace(vocabulary_);
}

bool UnigramModel::find_best_paths(std::string_view word, WordWorkspace& workspace) const {
  std::vector<WordWorkspace::Node>& nodes = workspace.nodes;
  nodes.assign(word.size() + 1, {0, kNotReached, -1});
  for (size_t begin = 0; begin < word.size();) {
    const double score_here = nodes[begin].score;
    const size_t character = char_at(word, begin).length;
    const auto reach = [&](size_t length, int32_t id, double score) {
      WordWorkspace::Node& node = nodes[begin + length];
      const double sum = single_precision_ ? static_cast<double>(static_cast<float>(score_here + score))
                                           : score_here + score;
      if (node.begin == kNotReached || sum > node.score) {
        node = {sum, static_cast<uint32_t>(begin), id};
      }
    };
    bool has_single = false;
    trie_.for_each_prefix(word.substr(begin), [&](size_t length, int32_t id) {
      reach(length, id, scores_[static_cast<size_t>(id)]);
      if (length == character) has_single = true;
    });
    if (!has_single) {
      if (!unknown_id_) return false;
      reach(character, *unknown_id_, unknown_score_);
    }
    begin += character;
  }
  return true;
}

WordOutcome UnigramModel::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const int32_t id = vocabulary_.find(text); id >= 0) {
    ids.push_back(id);
  } else if (!bytes_ || !bytes_->append(text, ids)) {
    if (!unknown_id_) return WordOutcome::no_unknown_piece;
    ids.push_back(*unknown_id_);
  }
  return WordOutcome::done;
}

WordOutcome UnigramModel::encode_word(std::string_view word, WordWorkspace& workspace,
                                      std::vector<int32_t>& ids) const {
  if (word.size() > kLongestWord) return WordOutcome::too_long;
  WordCache::Slot* slot = workspace.cache.slot_of(word);
  if (slot != nullptr && slot->holds(word)) {
    for (int32_t id : slot->found()) ids.push_back(id);
    return WordOutcome::done;
  }
  if (!find_best_paths(word, workspace)) return WordOutcome::no_unknown_piece;

  // The path from its end, as (begin, id).
  std::vector<WordWorkspace::Symbol>& path = workspace.symbols;
  path.clear();
  for (size_t end = word.size(); end > 0; end = path.back().previous) {
    const WordWorkspace::Node& node = workspace.nodes[end];
    path.push_back({node.id, node.begin, static_cast<uint32_t>(end), 0});
  }
  std::reverse(path.begin(), path.end());

  const size_t first_id = ids.size();
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i].id != unknown_id_) {
      ids.push_back(path[i].id);
      continue;
    }
    const size_t begin = path[i].previous;
    while (i + 1 < path.size() && path[i + 1].id == unknown_id_) ++i;
    if (const WordOutcome outcome = append_unknown(word.substr(begin, path[i].next - begin), ids);
        outcome != WordOutcome::done) {
      return outcome;
    }
  }
  if (slot != nullptr) WordCache::store(*slot, word, std::span(ids).subspan(first_id));
  return WordOutcome::done;
}

}  // namespace rafter::text
