#include "decode/generation_loop.h"

#include <algorithm>

namespace rafter::decode {

GenerationLoop::GenerationLoop(StepEngine& engine, GenerationSetting setting, LoopOptions options)
    : engine_(engine),
      setting_(std::move(setting)),
      capacity_(engine.row_capacity()),
      prefill_chunk_(capacity_) {
  RAFTER_CHECK(capacity_ >= 1);
  if (options.prefill_chunk > 0) prefill_chunk_ = std::min(options.prefill_chunk, capacity_);
}

base::Status GenerationLoop::submit(GenerationRequest request, GenerationListener listener) {
  RAFTER_ASSIGN(auto generation,
                Generation::start(engine_, setting_, std::move(request), std::move(listener)));
  generations_.push_back(std::move(generation));
  return {};
}

bool GenerationLoop::step() {
  for (auto& generation : generations_) {
    if (generation->is_cancelled()) generation->finish(FinishReason::cancelled);
  }
  drop_finished();
  plan_step();
  if (rows_.empty()) return false;
  if (base::Status status = engine_.step(rows_); !status.ok()) {
    handle_failure(status.error());
  } else {
    int wanted = 0;
    for (const Share& share : shares_) {
      share.generation->advance(share.rows);
      if (share.wants_logits) share.generation->accept(engine_.logits(wanted++), scratch_);
    }
  }
  drop_finished();
  return !generations_.empty();
}

void GenerationLoop::plan_step() {
  rows_.clear();
  shares_.clear();
  const size_t count = generations_.size();
  for (size_t i = 0; i < count; ++i) {
    Generation& generation = *generations_[(turn_ + i) % count];
    const bool has_room = static_cast<int64_t>(rows_.size()) < capacity_;
    if (has_room && generation.has_sampled()) add_share(generation, 1);
  }
  if (count > 0) turn_ = (turn_ + shares_.size()) % count;
  int64_t prompt_rows = std::min(prefill_chunk_, capacity_ - static_cast<int64_t>(rows_.size()));
  for (auto& generation : generations_) {
    if (generation->has_sampled() || prompt_rows == 0) continue;
    add_share(*generation, prompt_rows);
    prompt_rows -= shares_.back().rows;
  }
}

void GenerationLoop::add_share(Generation& generation, int64_t limit) {
  const size_t before = rows_.size();
  generation.add_rows(limit, rows_);
  shares_.push_back({&generation, static_cast<int64_t>(rows_.size() - before), rows_.back().wants_logits});
}

void GenerationLoop::handle_failure(const base::Error& error) {
  if (error.code == base::ErrorCode::out_of_memory) {
    generations_.back()->finish(FinishReason::error, error);
    return;
  }
  for (const Share& share : shares_) share.generation->finish(FinishReason::error, error);
}

void GenerationLoop::drop_finished() {
  std::erase_if(generations_, [](const auto& generation) { return generation->finished(); });
}

base::Result<GenerationResult> generate_blocking(GenerationLoop& loop, GenerationRequest request,
                                                 std::function<void(const TokenEvent&)> on_token) {
  std::optional<GenerationResult> result;
  RAFTER_TRY(
      loop.submit(std::move(request), {std::move(on_token), [&](const GenerationResult& r) { result = r; }}));
  while (!result) loop.step();
  if (result->error) return *result->error;
  return std::move(*result);
}

}  // namespace rafter::decode
