// Value: what a template computes with, with Python's types and semantics. Callers build a render's inputs
// from the static functions (or from JSON text, jinja_json.h); the engine itself makes values through
// Runtime, which counts what it makes. A value is cheap to copy; containers are shared, as in Python.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_meter.h"
#include "text/jinja_text.h"

namespace rafter::text::jinja {

class Dict;
class Object;
struct Sequence;
struct String;

// In the order of Value's variant.
enum class Kind : uint8_t { none, undefined, boolean, integer, real, string, list, tuple, dict, object };

// Whether control tokens inside a string are text (input: messages, tools, documents) or may act (trusted:
// the special tokens that a tokenizer's configuration names, the template's own literals).
enum class Origin : uint8_t { input, trusted };

class Value {
 public:
  Value() = default;  // None
  static Value undefined(std::string why);
  static Value boolean(bool value) { return Value(std::in_place_index<2>, value); }
  static Value integer(int64_t value) { return Value(std::in_place_index<3>, value); }
  static Value real(double value) { return Value(std::in_place_index<4>, value); }
  // Malformed UTF-8 is replaced by U+FFFD.
  static Value string(std::string_view text, Origin origin = Origin::input);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  // Insertion order is kept; of equal keys the last value wins, in the first one's place.
  static Value dict(const std::vector<std::pair<std::string, Value>>& entries);

  static Value from(std::shared_ptr<const String> value) {
    return Value(std::in_place_index<5>, std::move(value));
  }
  static Value from_list(std::shared_ptr<Sequence> value) {
    return Value(std::in_place_index<6>, std::move(value));
  }
  static Value from_tuple(std::shared_ptr<Sequence> value) {
    return Value(std::in_place_index<7>, std::move(value));
  }
  static Value from(std::shared_ptr<Dict> value) { return Value(std::in_place_index<8>, std::move(value)); }
  static Value from(std::shared_ptr<Object> value) { return Value(std::in_place_index<9>, std::move(value)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_none() const { return is(Kind::none); }
  bool is_undefined() const { return is(Kind::undefined); }
  bool is_string() const { return is(Kind::string); }
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }
  bool is_int() const {
    return is(Kind::integer) || is(Kind::boolean);
  }  // Python's isinstance(x, int), in 64 bits

  // Each is for its own kinds only.
  const std::string& why_undefined() const { return *std::get<1>(data_).why; }
  bool as_boolean() const { return std::get<2>(data_); }
  int64_t as_integer() const { return is(Kind::boolean) ? as_boolean() : std::get<3>(data_); }
  double as_real() const { return std::get<4>(data_); }
  const String& as_string() const { return *std::get<5>(data_); }
  Sequence& as_sequence() const { return is(Kind::list) ? *std::get<6>(data_) : *std::get<7>(data_); }
  Dict& as_dict() const { return *std::get<8>(data_); }
  Object& as_object() const { return *std::get<9>(data_); }
  template <typename T>
  T* object_if() const {
    return is(Kind::object) ? dynamic_cast<T*>(std::get<9>(data_).get()) : nullptr;
  }
  std::string_view text() const;  // of a string

  const void* identity() const;   // the shared object's address; null for what is held by value
  int nesting() const;            // 0 for scalars, 1 for a flat container, …
  std::string type_name() const;  // Python's: "str", "NoneType", "dict_items"

 private:
  struct Undefined {
    std::shared_ptr<const std::string> why;
  };

  template <size_t kIndex, typename T>
  Value(std::in_place_index_t<kIndex> index, T&& value) : data_(index, std::forward<T>(value)) {}

  std::variant<std::monostate, Undefined, bool, int64_t, double, std::shared_ptr<const String>,
               std::shared_ptr<Sequence>, std::shared_ptr<Sequence>, std::shared_ptr<Dict>,
               std::shared_ptr<Object>>
      data_;
};

inline constexpr size_t kAllocationBytes = 64;  // counted for an object beside its own size

struct String {
  Text text;
  size_t code_points;
  bool markup = false;  // the `safe` filter's Markup: joins with plain strings HTML-escape those
  Charge charge;

  String(Text value, bool is_markup);
  bool ascii() const { return code_points == text.size(); }  // code points are bytes
  String(Meter& meter, Text value, bool is_markup);
};

// A list or a tuple.
struct Sequence {
  std::vector<Value> items;
  int nesting = 1;
  bool is_group = false;  // a tuple from groupby, with the names `grouper` and `list`
  Charge charge;

  explicit Sequence(std::vector<Value> values);
  Sequence(Meter& meter, std::vector<Value> values);
};

// A dict: insertion-ordered, keys by Python's equality (1, 1.0 and True are one key).
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
    uint64_t hash;
  };

  Dict() = default;
  explicit Dict(Meter& meter) : charge_(meter, sizeof(Dict) + kAllocationBytes) {}

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int nesting() const { return nesting_; }

  // Keys are hashed by hash_value() (jinja_operators.h), which fails for lists and dicts.
  const Value* find(const Value& key, Meter& meter) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value, Meter& meter);
  bool remove(const Value& key, Meter& meter);
  void clear();

 private:
  template <typename Equal>
  size_t position(uint64_t hash, Equal equal) const;
  void index_entry(size_t position);
  void rebuild_index();

  std::vector<Entry> entries_;
  std::vector<uint32_t> index_;  // open addressing over entries_, position + 1; empty while there are few
  int nesting_ = 1;
  Charge charge_;
};

}  // namespace rafter::text::jinja
