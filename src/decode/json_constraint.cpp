#include "decode/json_constraint.h"

#include "base/check.h"

namespace rafter::decode {

JsonConstraint::JsonConstraint(std::shared_ptr<const text::CompiledSchema> schema)
    : schema_(std::move(schema)), state_(schema_->start()) {}

void JsonConstraint::mask(std::span<float> logits) {
  RAFTER_CHECK(!ended_, "the answer has ended");
  schema_->mask(state_)->apply(logits);
}

bool JsonConstraint::accept(int32_t token) {
  if (ended_) return false;
  if (!schema_->index().is_end(token)) return schema_->advance(state_, token);
  ended_ = is_complete();
  return ended_;
}

std::unique_ptr<TokenConstraint> JsonConstraint::fork() const {
  return std::make_unique<JsonConstraint>(*this);
}

}  // namespace rafter::decode
