#include "text/jinja_object.h"

#include <algorithm>

#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {
namespace {

// Python prints where an object lies; a fixed address keeps renders reproducible.
constexpr std::string_view kAddress = "0x7f0000000000";

class RangeIterator : public Iterator {
 public:
  RangeIterator(Meter& meter, Value range, bool backwards)
      : meter_(meter), range_(std::move(range)), backwards_(backwards) {}
  bool next(Value& item) override {
    auto& range = static_cast<Range&>(range_.as_object());
    const size_t size = *range.length();
    if (position_ >= size) return false;
    meter_.step();
    item = Value::integer(range.at(backwards_ ? size - 1 - position_ : position_));
    ++position_;
    return true;
  }

 private:
  Meter& meter_;
  Value range_;
  bool backwards_;
  size_t position_ = 0;
};

class DictIterator : public Iterator {
 public:
  DictIterator(Runtime& runtime, Value dict, DictView::Part part, bool backwards)
      : runtime_(runtime),
        dict_(std::move(dict)),
        part_(part),
        backwards_(backwards),
        size_(dict_.as_dict().size()) {
    nesting = dict_.nesting() + 1;
  }
  bool next(Value& item) override {
    const auto& entries = dict_.as_dict().entries();
    if (entries.size() != size_) fail(FailureKind::value, "dictionary changed size during iteration");
    if (position_ >= size_) return false;
    runtime_.meter.step();
    const Dict::Entry& entry = entries[backwards_ ? size_ - 1 - position_ : position_];
    ++position_;
    if (part_ == DictView::Part::items) {
      item = runtime_.tuple({entry.key, entry.value});
    } else {
      item = part_ == DictView::Part::keys ? entry.key : entry.value;
    }
    return true;
  }

 private:
  Runtime& runtime_;
  Value dict_;
  DictView::Part part_;
  bool backwards_;
  size_t size_;
  size_t position_ = 0;
};

// Iterates over a generator, which keeps its place.
class GeneratorIterator : public Iterator {
 public:
  explicit GeneratorIterator(Value generator) : generator_(std::move(generator)) {
    nesting = generator_.nesting();
  }
  bool next(Value& item) override { return static_cast<Generator&>(generator_.as_object()).next(item); }

 private:
  Value generator_;
};

}  // namespace

void Object::print(Builder& out, Runtime&) const { out.append(fmt::format("<{} object>", type_name())); }
bool Object::equals(const Object& other, Meter&) const { return this == &other; }
Value Object::call(Runtime&, Arguments) {
  fail(FailureKind::type, "'{}' object is not callable", type_name());
}
std::unique_ptr<Iterator> Object::iterate(const Value&, Runtime&) { return nullptr; }
std::unique_ptr<Iterator> Object::backwards(const Value&, Runtime&) { return nullptr; }
std::optional<Value> Object::attribute(const Value&, std::string_view, Runtime&) { return std::nullopt; }
std::optional<Value> Object::item(const Value&, Runtime&) { return std::nullopt; }

void BigInteger::print(Builder& out, Runtime&) const { out.append(digits_); }
bool BigInteger::equals(const Object& other, Meter&) const {
  auto* number = dynamic_cast<const BigInteger*>(&other);
  return number != nullptr && number->digits_ == digits_;
}

Range::Range(int64_t start, int64_t stop, int64_t step) : start_(start), stop_(stop), step_(step) {
  const auto distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  size_ = distance <= 0 ? 0 : static_cast<size_t>((distance + stride - 1) / stride);
}

void Range::print(Builder& out, Runtime&) const {
  out.append(step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                        : fmt::format("range({}, {}, {})", start_, stop_, step_));
}

bool Range::equals(const Object& other, Meter&) const {
  auto* range = dynamic_cast<const Range*>(&other);
  return range != nullptr && size_ == range->size_ &&
         (size_ == 0 || (start_ == range->start_ && (size_ == 1 || step_ == range->step_)));
}

std::unique_ptr<Iterator> Range::iterate(const Value& self, Runtime& runtime) {
  return std::make_unique<RangeIterator>(runtime.meter, self, false);
}

std::unique_ptr<Iterator> Range::backwards(const Value& self, Runtime& runtime) {
  return std::make_unique<RangeIterator>(runtime.meter, self, true);
}

std::optional<Value> Range::attribute(const Value& self, std::string_view name, Runtime& runtime) {
  if (name == "start") return Value::integer(start_);
  if (name == "stop") return Value::integer(stop_);
  if (name == "step") return Value::integer(step_);
  return sequence_method(self, name, runtime);
}

std::optional<Value> Range::item(const Value& key, Runtime&) {
  if (!key.is_int()) return std::nullopt;
  const auto size = static_cast<int64_t>(size_);
  const int64_t index = key.as_integer();
  if (index >= size || index < -size) return std::nullopt;
  return Value::integer(at(static_cast<size_t>(index < 0 ? index + size : index)));
}

Value Range::slice(int64_t start, int64_t stop, int64_t step, Runtime& runtime) const {
  const auto item = [&](int64_t position) { return start_ + static_cast<__int128>(position) * step_; };
  const __int128 first = item(start), last = item(stop), stride = static_cast<__int128>(step) * step_;
  for (const __int128 number : {first, last, stride}) {
    if (number > INT64_MAX || number < INT64_MIN)
      fail(FailureKind::value, "the range is outside 64-bit integers");
  }
  return runtime.object<Range>(static_cast<int64_t>(first), static_cast<int64_t>(last),
                               static_cast<int64_t>(stride));
}

bool Range::contains(int64_t value) const {
  if (size_ == 0) return false;
  const int64_t first = std::min(start_, at(size_ - 1)), last = std::max(start_, at(size_ - 1));
  return value >= first && value <= last && (static_cast<__int128>(value) - start_) % step_ == 0;
}

std::string DictView::type_name() const {
  return part_ == Part::keys ? "dict_keys" : part_ == Part::values ? "dict_values" : "dict_items";
}

void DictView::print(Builder& out, Runtime& runtime) const {
  out.append(type_name() + "(");
  Value self = runtime.object<DictView>(dict_, part_);
  append_repr(out, runtime.list(to_vector(self, runtime)), runtime);
  out.append(")");
}

bool DictView::equals(const Object& other, Meter& meter) const {
  auto* view = dynamic_cast<const DictView*>(&other);
  if (view == nullptr || view->part_ != part_ || part_ == Part::values) return this == &other;
  const Dict& mine = dict_.as_dict();
  const Dict& theirs = view->dict_.as_dict();
  if (mine.size() != theirs.size()) return false;
  return std::all_of(mine.entries().begin(), mine.entries().end(), [&](const Dict::Entry& entry) {
    const Value* found = theirs.find(entry.key, meter);
    return found != nullptr && (part_ == Part::keys || jinja::equals(entry.value, *found, meter));
  });
}

std::unique_ptr<Iterator> DictView::iterate(const Value&, Runtime& runtime) {
  return std::make_unique<DictIterator>(runtime, dict_, part_, false);
}

std::unique_ptr<Iterator> DictView::backwards(const Value&, Runtime& runtime) {
  return std::make_unique<DictIterator>(runtime, dict_, part_, true);
}

Generator::Generator(std::unique_ptr<Iterator> items, std::string type_name, std::string function)
    : items_(std::move(items)), type_name_(std::move(type_name)), function_(std::move(function)) {
  nesting = items_->nesting + 1;
}

void Generator::print(Builder& out, Runtime&) const {
  out.append(function_.empty() ? fmt::format("<{} object at {}>", type_name_, kAddress)
                               : fmt::format("<{} object {} at {}>", type_name_, function_, kAddress));
}

std::unique_ptr<Iterator> Generator::iterate(const Value& self, Runtime&) {
  return std::make_unique<GeneratorIterator>(self);
}

Function::Function(std::string name, Body body, Value self)
    : name_(std::move(name)), body_(std::move(body)), self_(std::move(self)) {
  nesting = self_.nesting() + 1;
}

void Function::print(Builder& out, Runtime&) const {
  out.append(self_.is_none() ? fmt::format("<function {} at {}>", name_, kAddress)
                             : fmt::format("<built-in method {} of {} object at {}>", name_,
                                           self_.type_name(), kAddress));
}

bool Function::equals(const Object& other, Meter&) const {
  auto* function = dynamic_cast<const Function*>(&other);
  return function == this || (function != nullptr && self_.identity() != nullptr &&
                              name_ == function->name_ && self_.identity() == function->self_.identity());
}

void Namespace::print(Builder& out, Runtime& runtime) const {
  out.append("<Namespace ");
  append_repr(out, Value::from(attributes_), runtime);
  out.append(">");
}

std::optional<Value> Namespace::attribute(const Value&, std::string_view name, Runtime&) {
  const Value* found = attributes_->find(name);
  return found == nullptr ? std::nullopt : std::optional<Value>(*found);
}

void Namespace::set(std::string_view name, Value value, Runtime& runtime) {
  runtime.check_nesting(value.nesting());
  attributes_->set(runtime.string(name), std::move(value), runtime.meter);
}

}  // namespace rafter::text::jinja
