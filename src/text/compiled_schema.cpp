#include "text/compiled_schema.h"

#include <unordered_map>

#include "text/json_schema_compiler.h"

namespace rafter::text {

class GrammarRun {
 public:
  GrammarRun(const ByteGrammar& grammar, int32_t start) : machine(grammar, start) {}

  std::shared_ptr<const TokenMask> mask(const TokenIndex& index, GrammarMachine::Configuration at) {
    const auto found = masks_.find(at);
    if (found != masks_.end()) return found->second;
    auto mask = std::make_shared<const TokenMask>(index.allowed(machine, at));
    // Many configurations have the same mask: within a string, at the end of every member.
    const auto [begin, end] = by_hash_.equal_range(mask->hash());
    for (auto it = begin; it != end; ++it) {
      if (*it->second == *mask) return masks_[at] = it->second;
    }
    mask_memory_ += mask->memory() + 128;
    by_hash_.emplace(mask->hash(), mask);
    return masks_[at] = mask;
  }

  size_t memory() const { return machine.memory() + mask_memory_ + masks_.size() * 64; }

  std::mutex mutex;  // of all that follows
  GrammarMachine machine;

 private:
  std::unordered_map<GrammarMachine::Configuration, std::shared_ptr<const TokenMask>> masks_;
  std::unordered_multimap<uint64_t, std::shared_ptr<const TokenMask>> by_hash_;
  size_t mask_memory_ = 0;
};

CompiledSchema::CompiledSchema(ByteGrammar grammar, int32_t start, TokenIndex index)
    : grammar_(std::move(grammar)),
      start_(start),
      index_(std::move(index)),
      run_(std::make_shared<GrammarRun>(grammar_, start_)) {}

CompiledSchema::~CompiledSchema() = default;

SchemaState CompiledSchema::start() const {
  SchemaState state;
  const std::lock_guard lock(mutex_);
  state.run_ = run_;
  state.at_ = run_->machine.start();
  return state;
}

// Moves a state out of a run that has become too large, into the one that all others use.
void CompiledSchema::renew(SchemaState& state) const {
  std::vector<GrammarMachine::Stack> stacks;
  bool is_complete = false, is_start = false;
  {
    const std::lock_guard lock(state.run_->mutex);
    if (state.run_->memory() < kMostMemory) return;
    stacks = state.run_->machine.stacks(state.at_);
    is_complete = state.run_->machine.is_complete(state.at_);
    is_start = state.at_ == state.run_->machine.start();
  }
  {
    const std::lock_guard lock(mutex_);
    if (run_ == state.run_) run_ = std::make_shared<GrammarRun>(grammar_, start_);
    state.run_ = run_;
  }
  const std::lock_guard lock(state.run_->mutex);
  GrammarMachine& machine = state.run_->machine;
  state.at_ = is_start ? machine.start() : machine.from_stacks(stacks, is_complete);
}

std::shared_ptr<const TokenMask> CompiledSchema::mask(SchemaState& state) const {
  renew(state);
  const std::lock_guard lock(state.run_->mutex);
  return state.run_->mask(index_, state.at_);
}

bool CompiledSchema::advance(SchemaState& state, int32_t token) const {
  const std::string_view bytes = index_.writes(token);
  return !bytes.empty() && advance_bytes(state, bytes);
}

bool CompiledSchema::advance_bytes(SchemaState& state, std::string_view bytes) const {
  const std::lock_guard lock(state.run_->mutex);
  GrammarMachine::Configuration at = state.at_;
  for (char byte : bytes) at = state.run_->machine.advance(at, static_cast<uint8_t>(byte));
  if (at == GrammarMachine::kDead) return false;
  state.at_ = at;
  return true;
}

bool CompiledSchema::is_complete(const SchemaState& state) const {
  const std::lock_guard lock(state.run_->mutex);
  return state.run_->machine.is_complete(state.at_);
}

bool CompiledSchema::can_continue(const SchemaState& state) const {
  const std::lock_guard lock(state.run_->mutex);
  return state.run_->machine.can_continue(state.at_);
}

base::Result<std::shared_ptr<const CompiledSchema>> compile_json_schema(std::string_view schema_json,
                                                                        const TokenIndex& index) {
  try {
    schema::Json root = schema::read_schema(schema_json);
    if (root.is_object() && root.empty()) root = schema::Json::parse(kAnyJsonObject);
    schema::Document document(std::move(root));
    schema::Compiler compiler(document);
    const int32_t start = compiler.run(document.root());
    if (!compiler.grammar.trim(start)) {
      return base::Error{base::ErrorCode::invalid_argument, "no value satisfies it", "JSON schema", ""};
    }
    return std::shared_ptr<const CompiledSchema>(
        std::make_shared<CompiledSchema>(std::move(compiler.grammar), start, index));
  } catch (const schema::Failure& failure) {
    return failure.error;
  }
}

}  // namespace rafter::text
