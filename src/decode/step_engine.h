// What generation needs of an engine, and nothing more: the seam at which tests put an engine whose logits
// are a plain function of the tokens. The contracts are those of engine/engine.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "engine/engine.h"

namespace rafter::decode {

class StepEngine {
 public:
  virtual ~StepEngine() = default;
  virtual int64_t vocabulary_size() const = 0;
  virtual int64_t context_limit() const = 0;
  virtual int row_capacity() const = 0;
  virtual base::Result<int32_t> create_sequence() = 0;
  virtual void release_sequence(int32_t sequence) = 0;
  virtual int64_t length(int32_t sequence) const = 0;
  virtual bool reenters_anywhere() const { return true; }
  virtual int64_t reentry_position(int32_t, int64_t length) const { return length; }
  virtual bool take_snapshot(int32_t) { return true; }
  virtual void truncate(int32_t sequence, int64_t length) = 0;
  virtual base::Result<int32_t> fork_sequence(int32_t sequence, int64_t length) = 0;
  virtual base::Status check_fits(int64_t positions) const = 0;
  virtual bool has_room(std::span<const engine::Row> rows) const = 0;
  virtual bool can_hold(std::span<const engine::Growth> sequences) const = 0;
  virtual int64_t bytes_held(std::span<const int32_t> sequences) const = 0;
  // --- sequences in files; an engine without them says so
  virtual cache::SequenceOrigin sequence_origin() const { return {}; }
  virtual base::Status save_sequence_blocking(int32_t, std::span<const int32_t>, const std::string&,
                                              const std::string& path) const {
    return base::Error{base::ErrorCode::unsupported, "this engine saves no sequences", path, ""};
  }
  virtual base::Result<engine::Engine::LoadedSequence> load_sequence_blocking(const std::string& path) {
    return base::Error{base::ErrorCode::unsupported, "this engine loads no sequences", path, ""};
  }
  virtual base::Status step(std::span<const engine::Row> rows) = 0;
  virtual std::span<const float> logits(int i) const = 0;
};

// The real one. `engine` must outlive it.
class EngineAdapter final : public StepEngine {
 public:
  explicit EngineAdapter(engine::Engine& engine) : engine_(engine) {}
  int64_t vocabulary_size() const override { return engine_.vocabulary_size(); }
  int64_t context_limit() const override { return engine_.context_limit(); }
  int row_capacity() const override { return engine_.options().row_capacity; }
  base::Result<int32_t> create_sequence() override { return engine_.create_sequence(); }
  void release_sequence(int32_t sequence) override { engine_.release_sequence(sequence); }
  int64_t length(int32_t sequence) const override { return engine_.length(sequence); }
  bool reenters_anywhere() const override { return engine_.reenters_anywhere(); }
  int64_t reentry_position(int32_t sequence, int64_t length) const override {
    return engine_.reentry_position(sequence, length);
  }
  bool take_snapshot(int32_t sequence) override { return engine_.take_snapshot(sequence); }
  void truncate(int32_t sequence, int64_t length) override { engine_.truncate(sequence, length); }
  base::Result<int32_t> fork_sequence(int32_t sequence, int64_t length) override {
    return engine_.fork_sequence(sequence, length);
  }
  base::Status check_fits(int64_t positions) const override { return engine_.check_fits(positions); }
  bool has_room(std::span<const engine::Row> rows) const override { return engine_.has_room(rows); }
  bool can_hold(std::span<const engine::Growth> sequences) const override {
    return engine_.can_hold(sequences);
  }
  int64_t bytes_held(std::span<const int32_t> sequences) const override {
    return engine_.bytes_held(sequences);
  }
  cache::SequenceOrigin sequence_origin() const override { return engine_.sequence_origin(); }
  base::Status save_sequence_blocking(int32_t sequence, std::span<const int32_t> tokens,
                                      const std::string& space, const std::string& path) const override {
    return engine_.save_sequence_blocking(sequence, tokens, space, path);
  }
  base::Result<engine::Engine::LoadedSequence> load_sequence_blocking(const std::string& path) override {
    return engine_.load_sequence_blocking(path);
  }
  base::Status step(std::span<const engine::Row> rows) override { return engine_.step(rows); }
  std::span<const float> logits(int i) const override { return engine_.logits(i); }

 private:
  engine::Engine& engine_;
};

}  // namespace rafter::decode
