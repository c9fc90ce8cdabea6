// An engine whose logits are a plain function of the tokens a sequence holds: deterministic, exact, and
// strict about the contract of engine/engine.h. And a byte-level tokenizer to go with it.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "decode/random.h"
#include "decode/step_engine.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace rafter::decode {

class FakeEngine : public StepEngine {
 public:
  // Given a sequence's tokens up to a row, its logits [V].
  using Model = std::function<std::vector<float>(std::span<const int32_t>)>;

  FakeEngine(int64_t vocabulary, int64_t context, int capacity, Model model)
      : vocabulary_(vocabulary), context_(context), capacity_(capacity), model_(std::move(model)) {}

  int64_t vocabulary_size() const override { return vocabulary_; }
  int64_t context_limit() const override { return context_; }
  int row_capacity() const override { return capacity_; }

  base::Result<int32_t> create_sequence() override {
    if (sequences.size() >= max_sequences) {
      return base::Error{base::ErrorCode::out_of_memory, "all sequences are in use", "cache", ""};
    }
    sequences[next_] = {};
    return next_++;
  }
  base::Result<int32_t> fork_sequence(int32_t sequence, int64_t length) override {
    RAFTER_CHECK(length <= this->length(sequence) && reentry_position(sequence, length) == length);
    RAFTER_ASSIGN(const int32_t copy, create_sequence());
    const std::vector<int32_t>& tokens = sequences.at(sequence);
    sequences.at(copy).assign(tokens.begin(), tokens.begin() + length);
    return copy;
  }
  void release_sequence(int32_t sequence) override { RAFTER_CHECK(sequences.erase(sequence) == 1); }
  int64_t length(int32_t sequence) const override {
    return static_cast<int64_t>(sequences.at(sequence).size());
  }
  void truncate(int32_t sequence, int64_t length) override {
    RAFTER_CHECK(length <= this->length(sequence));
    sequences.at(sequence).resize(static_cast<size_t>(length));
  }
  base::Status check_fits(int64_t positions) const override {
    if (positions <= std::min({context_, store_positions, total_positions})) return {};
    return base::Error{base::ErrorCode::out_of_memory, fmt::format("{} positions do not fit", positions),
                       "cache", ""};
  }
  // Sequences share nothing here: each takes all of its positions.
  int64_t positions_held() const {
    int64_t total = 0;
    for (const auto& [id, tokens] : sequences) total += static_cast<int64_t>(tokens.size());
    return total;
  }
  bool has_room(std::span<const engine::Row> rows) const override {
    return positions_held() + static_cast<int64_t>(rows.size()) <= total_positions;
  }
  bool can_hold(std::span<const engine::Growth> growth) const override {
    int64_t total = 0;
    for (const engine::Growth& g : growth) total += g.positions;
    return growth.size() <= max_sequences && total <= total_positions;
  }
  int64_t bytes_held(std::span<const int32_t> ids) const override {
    int64_t total = 0;
    for (int32_t id : ids) total += length(id);
    return total;
  }
  base::Status step(std::span<const engine::Row> rows) override {
    ++steps;
    RAFTER_CHECK(!rows.empty() && rows.size() <= static_cast<size_t>(capacity_), "{} rows", rows.size());
    if (fail_at_step == steps) return failure;
    if (!has_room(rows)) {
      return base::Error{base::ErrorCode::out_of_memory, "the store is full", "cache", ""};
    }
    logits_.clear();
    step_rows.push_back(rows.size());
    step_sequences.emplace_back();
    for (const engine::Row& row : rows) {
      std::vector<int32_t>& tokens = sequences.at(row.sequence);
      RAFTER_CHECK(row.position == static_cast<int32_t>(tokens.size()), "position {} after {}", row.position,
                   tokens.size());
      RAFTER_CHECK(row.position < context_ && row.token >= 0 && row.token < vocabulary_ &&
                   row.visible_from == 0);
      tokens.push_back(row.token);
      step_sequences.back().insert(row.sequence);
      if (row.wants_logits) logits_.push_back(model_(tokens));
    }
    return {};
  }
  std::span<const float> logits(int i) const override { return logits_.at(static_cast<size_t>(i)); }

  // A file holds the tokens alone.
  cache::SequenceOrigin sequence_origin() const override { return origin; }
  base::Status save_sequence_blocking(int32_t sequence, std::span<const int32_t> tokens,
                                      const std::string& space, const std::string& path) const override {
    RAFTER_CHECK(std::equal(tokens.begin(), tokens.end(), sequences.at(sequence).begin(),
                            sequences.at(sequence).end()));
    RAFTER_ASSIGN(auto writer,
                  cache::SequenceWriter::create(path, {origin, space, {tokens.begin(), tokens.end()}, {}}));
    writer.append(std::vector<std::byte>(tokens.size()));
    return saves_fail ? base::Status(failure) : writer.finish_blocking();
  }
  base::Result<engine::Engine::LoadedSequence> load_sequence_blocking(const std::string& path) override {
    RAFTER_ASSIGN(const auto file, cache::SequenceFile::open(path));
    RAFTER_TRY(file.check_origin(origin));
    RAFTER_TRY(check_body(file));
    if (positions_held() + static_cast<int64_t>(file.head().tokens.size()) > total_positions) {
      return base::Error{base::ErrorCode::out_of_memory, "the store is full", "cache", ""};
    }
    RAFTER_ASSIGN(const int32_t sequence, create_sequence());
    sequences.at(sequence) = file.head().tokens;
    return engine::Engine::LoadedSequence{sequence, file.head()};
  }

  std::map<int32_t, std::vector<int32_t>> sequences;
  cache::SequenceOrigin origin = {1, "bf16"};
  bool saves_fail = false;
  int64_t store_positions = 1 << 30;  // what check_fits allows
  int64_t total_positions = 1 << 30;  // of all sequences together
  size_t max_sequences = 1 << 20;
  int steps = 0, fail_at_step = -1;
  base::Error failure;
  std::vector<size_t> step_rows;                  // rows of each step
  std::vector<std::set<int32_t>> step_sequences;  // sequences in each step

 private:
  static base::Status check_body(const cache::SequenceFile& file) {
    RAFTER_ASSIGN(const auto body, file.checked_body());
    (void)body;
    return {};
  }

  int64_t vocabulary_, context_;
  int capacity_;
  Model model_;
  int32_t next_ = 0;
  std::vector<std::vector<float>> logits_;
};

// Pseudo-random logits from the whole history.
inline FakeEngine::Model hashing_model(int64_t vocabulary) {
  return [vocabulary](std::span<const int32_t> tokens) {
    uint64_t hash = 17;
    for (int32_t token : tokens) hash = mix64(hash * 31 + static_cast<uint64_t>(token) + 1);
    std::vector<float> logits(static_cast<size_t>(vocabulary));
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(uniform(hash + i) * 8.0);
    }
    return logits;
  };
}

// Says the tokens of a script one after the other: the token at position p is followed by script[p + 1 −
// prompt].
inline FakeEngine::Model scripted_model(int64_t vocabulary, size_t prompt, std::vector<int32_t> script) {
  return [=](std::span<const int32_t> tokens) {
    std::vector<float> logits(static_cast<size_t>(vocabulary));
    const size_t next = tokens.size() - prompt;
    logits[static_cast<size_t>(next < script.size() ? script[next] : 0)] = 10;
    return logits;
  };
}

// Ids 0 … 255 are the bytes, then `words`, then the special tokens: `specials` and <end>.
inline text::Tokenizer byte_tokenizer(const std::vector<std::string>& words = {},
                                      std::vector<std::string> specials = {}) {
  text::BpeSpec bpe;
  for (int byte = 0; byte < 256; ++byte) {
    bpe.pieces.push_back(text::bytes_to_alphabet(std::string(1, static_cast<char>(byte))));
  }
  for (const std::string& word : words) bpe.pieces.push_back(text::bytes_to_alphabet(word));
  text::TokenizerSpec spec;
  specials.push_back("<end>");
  for (const std::string& content : specials) {
    text::AddedToken added;
    added.id = static_cast<int32_t>(bpe.pieces.size());
    added.content = content;
    added.special = true;
    bpe.pieces.push_back(content);
    spec.added.push_back(added);
  }
  spec.model = bpe;
  spec.decoder = {text::ByteLevelDecoder{}};
  spec.pre_tokenizer = {text::ByteLevelStep{false, true}};
  return text::Tokenizer::from_spec(spec, "test").value();
}

}  // namespace rafter::decode
