// The `loop` variable: where a for loop stands in what it goes through. It looks ahead only when asked to.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "text/jinja_object.h"

namespace rafter::text::jinja {

class LoopContext : public Object {
 public:
  using Recurse = std::function<Value(const Value& items, int depth)>;

  // `sized` has a length where the iterator's is known beforehand, else it is None. `recurse` is empty unless
  // the loop is recursive.
  LoopContext(Meter& meter, std::unique_ptr<Iterator> items, Value sized, int depth, Recurse recurse);
  bool advance(Value& item);

  std::string type_name() const override { return "LoopContext"; }
  void print(Builder& out, Runtime& runtime) const override;
  std::optional<size_t> length() override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override;
  std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime) override;

 private:
  const std::optional<Value>& peek();
  Value cycle(const Arguments& arguments) const;
  Value changed(const Arguments& arguments, Runtime& runtime);

  Meter& meter_;
  std::unique_ptr<Iterator> items_;
  Value sized_;
  int depth_;  // of recursive loops around it, from 0
  Recurse recurse_;
  int64_t index_ = -1;  // from 0
  bool peeked_ = false;
  std::optional<Value> after_;  // if peeked_: the next item, or nothing
  Value current_, before_;
  std::optional<size_t> length_;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace rafter::text::jinja
