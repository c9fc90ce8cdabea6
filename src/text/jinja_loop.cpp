#include "text/jinja_loop.h"

#include <algorithm>

#include "text/jinja_operators.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {
namespace {

// Items that were taken out of an iterator to count them.
class DrainedIterator : public Iterator {
 public:
  DrainedIterator(Meter& meter, std::vector<Value> items)
      : items_(std::move(items)), charge_(meter, items_.capacity() * sizeof(Value)) {
    for (const Value& item : items_) nesting = std::max(nesting, item.nesting() + 1);
  }
  bool next(Value& item) override {
    if (position_ == items_.size()) return false;
    item = items_[position_++];
    return true;
  }

 private:
  std::vector<Value> items_;
  Charge charge_;
  size_t position_ = 0;
};

}  // namespace

LoopContext::LoopContext(Meter& meter, std::unique_ptr<Iterator> items, Value sized, int depth,
                         Recurse recurse)
    : meter_(meter),
      items_(std::move(items)),
      sized_(std::move(sized)),
      depth_(depth),
      recurse_(std::move(recurse)) {
  nesting = items_->nesting + 1;
}

bool LoopContext::advance(Value& item) {
  if (peeked_) {
    if (!after_) return false;
    item = std::move(*after_);
    after_.reset();
    peeked_ = false;
  } else if (!items_->next(item)) {
    return false;
  }
  ++index_;
  before_ = std::move(current_);
  current_ = item;
  return true;
}

const std::optional<Value>& LoopContext::peek() {
  if (!peeked_) {
    Value item;
    after_ = items_->next(item) ? std::optional<Value>(std::move(item)) : std::nullopt;
    peeked_ = true;
  }
  return after_;
}

std::optional<size_t> LoopContext::length() {
  if (length_) return length_;
  length_ = try_length(sized_);
  if (!length_) {
    std::vector<Value> rest;
    Charge held(meter_, 0);
    for (Value item; items_->next(item); held.grow_to(rest.capacity() * sizeof(Value))) {
      rest.push_back(std::move(item));
    }
    length_ = rest.size() + static_cast<size_t>(index_ + 1) + (peeked_ && after_ ? 1 : 0);
    items_ = std::make_unique<DrainedIterator>(meter_, std::move(rest));
  }
  return length_;
}

void LoopContext::print(Builder& out, Runtime&) const {
  auto& self = const_cast<LoopContext&>(*this);  // counting may have to read ahead
  out.append(fmt::format("<LoopContext {}/{}>", index_ + 1, *self.length()));
}

Value LoopContext::call(Runtime&, Arguments arguments) {
  if (!recurse_)
    fail(FailureKind::type, "the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail(FailureKind::type, "a recursive loop takes exactly one argument");
  }
  return recurse_(arguments.positional[0], depth_ + 1);
}

Value LoopContext::cycle(const Arguments& arguments) const {
  const auto& choices = arguments.positional;
  if (choices.empty()) fail(FailureKind::type, "no items for cycling given");
  return choices[static_cast<size_t>(index_) % choices.size()];
}

Value LoopContext::changed(const Arguments& arguments, Runtime& runtime) {
  const auto& now = arguments.positional;
  const bool same =
      last_changed_ && last_changed_->size() == now.size() &&
      std::equal(now.begin(), now.end(), last_changed_->begin(),
                 [&](const Value& a, const Value& b) { return jinja::equals(a, b, runtime.meter); });
  if (!same) last_changed_ = now;
  return Value::boolean(!same);
}

std::optional<Value> LoopContext::attribute(const Value& self, std::string_view name, Runtime& runtime) {
  auto count = [&] { return static_cast<int64_t>(*length()); };
  if (name == "index0") return Value::integer(index_);
  if (name == "index") return Value::integer(index_ + 1);
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(count());
  if (name == "revindex0") return Value::integer(count() - index_ - 1);
  if (name == "revindex") return Value::integer(count() - index_);
  if (name == "depth0") return Value::integer(depth_);
  if (name == "depth") return Value::integer(depth_ + 1);
  if (name == "previtem") return index_ == 0 ? runtime.undefined("there is no previous item") : before_;
  if (name == "nextitem") return peek() ? *peek() : runtime.undefined("there is no next item");
  if (name == "cycle") {
    return runtime.function(
        "cycle",
        [](Runtime&, const Value& loop, const Arguments& arguments) {
          return static_cast<LoopContext&>(loop.as_object()).cycle(arguments);
        },
        self);
  }
  if (name == "changed") {
    return runtime.function(
        "changed",
        [](Runtime& rt, const Value& loop, const Arguments& arguments) {
          return static_cast<LoopContext&>(loop.as_object()).changed(arguments, rt);
        },
        self);
  }
  return std::nullopt;
}

}  // namespace rafter::text::jinja
