// What holds an answer to a form: it says which tokens may come next and follows those that come. One per
// request, whatever samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace rafter::decode {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Sets the logits of tokens that may not come next to −inf. At least one is left while !must_end().
  virtual void mask(std::span<float> logits) = 0;

  // A token came. False, and nothing changes, if it may not.
  [[nodiscard]] virtual bool accept(int32_t token) = 0;

  virtual bool is_complete() const = 0;  // the answer may end here
  virtual bool must_end() const = 0;     // nothing but an end token may come

  // Stands where this one does and goes on independently: for tokens that are tried and may be rejected.
  virtual std::unique_ptr<TokenConstraint> fork() const = 0;
};

}  // namespace rafter::decode
