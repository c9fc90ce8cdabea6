#include "lab/embedding.h"

#include <algorithm>
#include <cmath>

namespace rafter::lab {
namespace {

constexpr const char* kState = "final_norm";

std::vector<float> normalized(std::span<const float> state) {
  double squares = 0;
  for (float value : state) squares += double{value} * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> result;
  for (float value : state) result.push_back(static_cast<float>(value * scale));
  return result;
}

// The sequences of one group, all held at once, through steps that are as full as they go.
base::Status embed_group(engine::Engine& engine, std::span<const std::vector<int32_t>> sequences,
                         std::span<const int32_t> ids, std::vector<std::vector<float>>& vectors) {
  const auto capacity = static_cast<size_t>(engine.options().row_capacity);
  const auto width = static_cast<size_t>(engine.model().info().width);
  std::vector<engine::Row> rows;
  const auto flush = [&]() -> base::Status {
    if (rows.empty()) return {};
    RAFTER_TRY(engine.step(rows));
    const std::span<const float> states = engine.tap(kState);
    size_t wanted = 0;
    for (const engine::Row& row : rows) wanted += row.wants_logits;
    for (size_t i = 0; i < wanted; ++i) vectors.push_back(normalized(states.subspan(i * width, width)));
    rows.clear();
    return {};
  };
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (size_t t = 0; t < sequences[s].size(); ++t) {
      rows.push_back({sequences[s][t], static_cast<int32_t>(t), ids[s], t + 1 == sequences[s].size(), 0});
      if (rows.size() == capacity) RAFTER_TRY(flush());
    }
  }
  return flush();
}

}  // namespace

void set_embedding_options(engine::EngineOptions& options) {
  options.head = false;
  options.taps.push_back(kState);
}

base::Result<std::vector<int32_t>> embedding_tokens(const decode::ModelText& text, std::string_view input) {
  RAFTER_ASSIGN(std::vector<int32_t> tokens,
                text.tokenizer().encode(input, /*add_special=*/false, text::SpecialTokens::as_text));
  const std::vector<int32_t>& suffix = text.tokenizer().suffix();
  const std::optional<int32_t> end_of_text = text.tokenizer().token_id("<|endoftext|>");
  if (!suffix.empty()) {
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
  } else if (end_of_text.has_value()) {
    tokens.push_back(*end_of_text);
  } else if (!text.end_tokens().empty()) {
    tokens.push_back(text.end_tokens().front());
  } else {
    return base::Error{base::ErrorCode::unsupported, "the tokenizer has no token that ends a text", "embed",
                       "use an embedding model"};
  }
  return tokens;
}

base::Result<std::vector<std::vector<float>>> embed_blocking(
    engine::Engine& engine, std::span<const std::vector<int32_t>> sequences) {
  const auto most = static_cast<size_t>(engine.options().max_sequences);
  std::vector<std::vector<float>> vectors;
  for (size_t begin = 0; begin < sequences.size(); begin += most) {
    const auto group = sequences.subspan(begin, std::min(most, sequences.size() - begin));
    std::vector<int32_t> ids;
    base::Status status;
    for (size_t s = 0; s < group.size() && status.ok(); ++s) {
      auto id = engine.create_sequence();
      if (id.ok()) ids.push_back(*id);
      if (!id.ok()) status = id.error();
    }
    if (status.ok()) status = embed_group(engine, group, ids, vectors);
    for (int32_t id : ids) engine.release_sequence(id);
    RAFTER_TRY(status);
  }
  return vectors;
}

}  // namespace rafter::lab
