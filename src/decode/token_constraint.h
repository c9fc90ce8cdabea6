// Which tokens may come next, for output that must obey a grammar.
#pragma once

#include <cstdint>
#include <span>

namespace rafter::decode {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets the logits [V] of tokens that may not come next to −inf; leaves at least one.
  virtual void mask(std::span<float> logits) = 0;
  // The token that was sampled.
  virtual void accept(int32_t token) = 0;
  // Nothing can follow: the output may end here and nowhere later.
  virtual bool is_complete() const = 0;
};

}  // namespace rafter::decode
