// An answer that is JSON and obeys a schema.
#pragma once

#include <memory>

#include "decode/token_constraint.h"
#include "text/compiled_schema.h"

namespace rafter::decode {

class JsonConstraint : public TokenConstraint {
 public:
  explicit JsonConstraint(std::shared_ptr<const text::CompiledSchema> schema);

  void mask(std::span<float> logits) override;
  bool accept(int32_t token) override;
  bool is_complete() const override { return schema_->is_complete(state_); }
  bool must_end() const override { return ended_ || !schema_->can_continue(state_); }
  std::unique_ptr<TokenConstraint> fork() const override;

 private:
  std::shared_ptr<const text::CompiledSchema> schema_;
  text::SchemaState state_;
  bool ended_ = false;  // by an end token
};

}  // namespace rafter::decode
