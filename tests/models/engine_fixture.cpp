#include "tests/models/engine_fixture.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::testing {

std::unique_ptr<engine::Engine> open_engine(const std::string& path, engine::EngineOptions options) {
  auto checkpoint = format::Checkpoint::open(path);
  RAFTER_CHECK(checkpoint.ok(), "{}", checkpoint.error().message());
  auto opened = engine::Engine::open(
      std::make_shared<const format::Checkpoint>(std::move(checkpoint).value()), options);
  RAFTER_CHECK(opened.ok(), "{}", opened.error().message());
  return std::move(opened).value();
}

void feed(engine::Engine& engine, int32_t sequence, std::span<const int32_t> tokens, int64_t begin,
          int64_t end, int64_t chunk, std::vector<float>* logits) {
  std::vector<engine::Row> rows;
  for (int64_t start = begin; start < end; start += chunk) {
    rows.clear();
    for (int64_t t = start; t < std::min(end, start + chunk); ++t) {
      rows.push_back(
          {tokens[static_cast<size_t>(t)], static_cast<int32_t>(t), sequence, logits != nullptr, 0});
    }
    const base::Status status = engine.step(rows);
    RAFTER_CHECK(status.ok(), "{}", status.error().message());
    for (size_t i = 0; logits != nullptr && i < rows.size(); ++i) {
      const std::span<const float> row = engine.logits(static_cast<int>(i));
      logits->insert(logits->end(), row.begin(), row.end());
    }
  }
}

}  // namespace rafter::testing
