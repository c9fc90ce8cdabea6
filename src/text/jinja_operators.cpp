#include "text/jinja_operators.h"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "text/jinja_runtime.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

constexpr int kMaxComparisonDepth = 2 * kMaxNesting;

[[noreturn]] void fail_order(const Value& a, const Value& b, std::string_view operation) {
  fail(FailureKind::type, "'{}' not supported between instances of '{}' and '{}'", operation, a.type_name(),
       b.type_name());
}

bool is_number(const Value& value) { return value.is_int() || value.is(Kind::real); }

bool numbers_equal(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.as_integer() == b.as_integer();
  if (a.is(Kind::real) && b.is(Kind::real)) return a.as_real() == b.as_real();
  const double real = a.is(Kind::real) ? a.as_real() : b.as_real();
  const int64_t integer = a.is_int() ? a.as_integer() : b.as_integer();
  return static_cast<long double>(real) == static_cast<long double>(integer);  // exact: 64 bits of mantissa
}

long double wide(const Value& number) {
  return number.is_int() ? static_cast<long double>(number.as_integer())
                         : static_cast<long double>(number.as_real());
}

// Comparison with the depth it has reached: a list that was appended to itself has no end.
class Comparison {
 public:
  explicit Comparison(Meter& meter) : meter_(meter) {}

  bool equal(const Value& a, const Value& b) {
    meter_.step();
    if (is_number(a) && is_number(b)) return numbers_equal(a, b);
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case Kind::none:
      case Kind::undefined:
        return true;
      case Kind::string:
        meter_.copy(std::min(a.text().size(), b.text().size()));
        return a.text() == b.text();
      case Kind::list:
      case Kind::tuple:
        return sequences_equal(a.as_sequence().items, b.as_sequence().items);
      case Kind::dict:
        return dicts_equal(a.as_dict(), b.as_dict());
      case Kind::object:
        return a.identity() == b.identity() || a.as_object().equals(b.as_object(), meter_);
      default:
        return false;
    }
  }

  // a < b, or a <= b.
  bool ordered(const Value& a, const Value& b, bool or_equal) {
    meter_.step();
    for (const Value* side : {&a, &b}) {
      if (side->is_undefined()) fail(FailureKind::undefined, "{}", side->why_undefined());
    }
    if (is_number(a) && is_number(b)) return or_equal ? wide(a) <= wide(b) : wide(a) < wide(b);
    if (a.is_string() && b.is_string()) {  // the order of UTF-8 bytes is that of code points
      meter_.copy(std::min(a.text().size(), b.text().size()));
      return or_equal ? a.text() <= b.text() : a.text() < b.text();
    }
    if (!a.is_sequence() || a.kind() != b.kind()) fail_order(a, b, or_equal ? "<=" : "<");
    Descent descent(*this);
    const auto& left = a.as_sequence().items;
    const auto& right = b.as_sequence().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!same_or_equal(left[i], right[i])) return ordered(left[i], right[i], or_equal);
    }
    return or_equal ? left.size() <= right.size() : left.size() < right.size();
  }

  bool same_or_equal(const Value& a, const Value& b) {
    return (a.identity() != nullptr && a.identity() == b.identity()) || equal(a, b);
  }

 private:
  struct Descent {
    explicit Descent(Comparison& comparison) : depth(comparison.depth_) {
      if (++depth > kMaxComparisonDepth)
        fail(FailureKind::limit, "maximum recursion depth exceeded in comparison");
    }
    ~Descent() { --depth; }
    int& depth;
  };

  bool sequences_equal(const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) return false;
    Descent descent(*this);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same_or_equal(a[i], b[i])) return false;
    }
    return true;
  }

  bool dicts_equal(const Dict& a, const Dict& b) {
    if (a.size() != b.size()) return false;
    Descent descent(*this);
    for (const Dict::Entry& entry : a.entries()) {
      const Value* other = b.find(entry.key, meter_);
      if (other == nullptr || !same_or_equal(entry.value, *other)) return false;
    }
    return true;
  }

  Meter& meter_;
  int depth_ = 0;
};

// Yields what `at(position)` gives, in either direction.
class IndexedIterator : public Iterator {
 public:
  using At = std::function<Value(size_t)>;
  IndexedIterator(Meter& meter, size_t size, bool backwards, int depth, At at)
      : meter_(meter), size_(size), backwards_(backwards), at_(std::move(at)) {
    nesting = depth;
  }
  bool next(Value& item) override {
    if (position_ >= size_) return false;
    meter_.step();
    item = at_(backwards_ ? size_ - 1 - position_ : position_);
    ++position_;
    return true;
  }

 private:
  Meter& meter_;
  size_t size_;
  bool backwards_;
  At at_;
  size_t position_ = 0;
};

class SequenceIterator : public Iterator {
 public:
  SequenceIterator(Meter& meter, Value sequence) : meter_(meter), sequence_(std::move(sequence)) {
    nesting = sequence_.nesting() + 1;
  }
  bool next(Value& item) override {
    const auto& items = sequence_.as_sequence().items;  // may have grown
    if (position_ >= items.size()) return false;
    meter_.step();
    item = items[position_++];
    return true;
  }

 private:
  Meter& meter_;
  Value sequence_;
  size_t position_ = 0;
};

class CharacterIterator : public Iterator {
 public:
  CharacterIterator(Runtime& runtime, Value string) : runtime_(runtime), string_(std::move(string)) {}
  bool next(Value& item) override {
    const Text& text = string_.as_string().text;
    if (position_ >= text.size()) return false;
    const size_t end = position_ + code_point_size(text.bytes()[position_]);
    item = runtime_.string(text.slice(position_, end));
    position_ = end;
    return true;
  }

 private:
  Runtime& runtime_;
  Value string_;
  size_t position_ = 0;
};

class EmptyIterator : public Iterator {
 public:
  bool next(Value&) override { return false; }
};

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.as_sequence().items.empty();
    case Kind::dict:
      return value.as_dict().size() != 0;
    case Kind::object:
      return value.as_object().truthy();
  }
  return false;
}

bool equals(const Value& a, const Value& b, Meter& meter) { return Comparison(meter).equal(a, b); }
bool less(const Value& a, const Value& b, Meter& meter) { return Comparison(meter).ordered(a, b, false); }
bool less_or_equal(const Value& a, const Value& b, Meter& meter) {
  return Comparison(meter).ordered(a, b, true);
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_none()) return true;
  if (a.is_int()) return a.as_integer() == b.as_integer();
  if (a.is_string() && a.text() == b.text() && a.text().size() <= 1) return true;  // as interned by CPython
  return a.identity() != nullptr && a.identity() == b.identity();
}

uint64_t hash_text(std::string_view text) {
  static const uint64_t seed = reinterpret_cast<uintptr_t>(&seed);  // differs from run to run
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

uint64_t hash_value(const Value& value, Meter& meter) {
  meter.step();
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  switch (value.kind()) {
    case Kind::none:
      return 1;
    case Kind::undefined:
      return 2;
    case Kind::boolean:
    case Kind::integer:
      return static_cast<uint64_t>(value.as_integer()) * kMix;
    case Kind::real: {
      const double real = value.as_real();
      if (real >= -9.2e18 && real <= 9.2e18 && real == static_cast<double>(static_cast<int64_t>(real))) {
        return static_cast<uint64_t>(static_cast<int64_t>(real)) * kMix;  // as the equal integer
      }
      return std::hash<double>()(real);
    }
    case Kind::string:
      meter.copy(value.text().size());
      return hash_text(value.text());
    case Kind::tuple: {
      uint64_t hash = 3;
      for (const Value& item : value.as_sequence().items) hash = (hash ^ hash_value(item, meter)) * kMix + 1;
      return hash;
    }
    case Kind::object:
      if (value.object_if<BigInteger>() != nullptr) return hash_text(value.object_if<BigInteger>()->digits());
      if (value.object_if<Range>() != nullptr) return *value.as_object().length();
      if (value.as_object().hashable()) return std::hash<const void*>()(value.identity());
      break;
    default:
      break;
  }
  fail(FailureKind::type, "unhashable type: '{}'", value.type_name());
}

bool contains(const Value& container, const Value& item, Runtime& runtime) {
  Meter& meter = runtime.meter;
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) {
        fail(FailureKind::type, "'in <string>' requires string as left operand, not {}", item.type_name());
      }
      return find_bytes(container.text(), item.text(), 0, meter) != std::string_view::npos;
    case Kind::dict:
      return container.as_dict().find(item, meter) != nullptr;
    case Kind::object:
      if (auto* range = container.object_if<Range>(); range != nullptr && item.is_int()) {
        return range->contains(item.as_integer());
      }
      if (auto* view = container.object_if<DictView>();
          view != nullptr && view->part() == DictView::Part::keys) {
        return view->dict().as_dict().find(item, meter) != nullptr;
      }
      break;
    default:
      break;
  }
  if (!is_iterable(container, runtime)) {
    fail(FailureKind::type, "argument of type '{}' is not iterable", container.type_name());
  }
  Value candidate;
  Comparison comparison(meter);
  for (auto items = iterate(container, runtime); items->next(candidate);) {
    if (comparison.same_or_equal(candidate, item)) return true;
  }
  return false;
}

std::optional<size_t> try_length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return value.as_string().code_points;
    case Kind::list:
    case Kind::tuple:
      return value.as_sequence().items.size();
    case Kind::dict:
      return value.as_dict().size();
    case Kind::object:
      return value.as_object().length();
    default:
      return std::nullopt;
  }
}

size_t length(const Value& value) {
  if (auto size = try_length(value)) return *size;
  fail(FailureKind::type, "object of type '{}' has no len()", value.type_name());
}

bool is_iterable(const Value& value, Runtime& runtime) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return true;
    case Kind::object:
      return value.as_object().iterate(value, runtime) != nullptr;
    default:
      return false;
  }
}

std::unique_ptr<Iterator> iterate(const Value& value, Runtime& runtime) {
  switch (value.kind()) {
    case Kind::undefined:
      return std::make_unique<EmptyIterator>();
    case Kind::string:
      return std::make_unique<CharacterIterator>(runtime, value);
    case Kind::list:
    case Kind::tuple:
      return std::make_unique<SequenceIterator>(runtime.meter, value);
    case Kind::dict:
      return DictView(value, DictView::Part::keys).iterate(value, runtime);
    case Kind::object:
      if (auto items = value.as_object().iterate(value, runtime)) return items;
      break;
    default:
      break;
  }
  fail(FailureKind::type, "'{}' object is not iterable", value.type_name());
}

std::unique_ptr<Iterator> iterate_backwards(const Value& value, Runtime& runtime) {
  switch (value.kind()) {
    case Kind::undefined:
      return std::make_unique<EmptyIterator>();
    case Kind::string:
    case Kind::list:
    case Kind::tuple: {
      Value items = value.is_string() ? runtime.list(to_vector(value, runtime)) : value;
      const size_t size = items.as_sequence().items.size();
      return std::make_unique<IndexedIterator>(runtime.meter, size, true, items.nesting() + 1,
                                               [items](size_t i) -> Value {
                                                 const auto& all = items.as_sequence().items;
                                                 return i < all.size() ? all[i] : Value();
                                               });
    }
    case Kind::dict:
      return DictView(value, DictView::Part::keys).backwards(value, runtime);
    case Kind::object:
      if (auto items = value.as_object().backwards(value, runtime)) return items;
      break;
    default:
      break;
  }
  fail(FailureKind::type, "'{}' object is not reversible", value.type_name());
}

std::vector<Value> to_vector(const Value& value, Runtime& runtime) {
  std::vector<Value> out;
  Charge charge(runtime.meter, 0);
  Value item;
  for (auto items = iterate(value, runtime); items->next(item);) {
    out.push_back(std::move(item));
    charge.grow_to(out.capacity() * sizeof(Value));
  }
  return out;
}

std::vector<Value> sorted(std::vector<Value> items, const std::vector<Value>& keys, bool reverse,
                          Meter& meter) {
  std::vector<uint32_t> order(items.size()), merged(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  auto goes_before = [&](uint32_t a, uint32_t b) {
    return reverse ? less(keys[b], keys[a], meter) : less(keys[a], keys[b], meter);
  };
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool take_right = right < end && (left == middle || goes_before(order[right], order[left]));
        merged[out] = order[take_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
  std::vector<Value> result;
  result.reserve(items.size());
  for (uint32_t index : order) result.push_back(std::move(items[index]));
  return result;
}

}  // namespace rafter::text::jinja
