// Object: values with behaviour of their own (ranges, views, namespaces, macros, functions, loops), and
// Iterator, the protocol of everything that can be looped over. Iteration is lazy, as in Python: a filter
// such as `select` looks at an item only when that item is asked for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace rafter::text::jinja {

class Builder;
class Runtime;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual bool next(Value& item) = 0;
  int nesting = 1;
};

class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;                 // Python's name of the type
  virtual void print(Builder& out, Runtime& runtime) const;  // repr()
  virtual bool truthy() const { return true; }
  virtual bool equals(const Object& other, Meter& meter) const;
  virtual bool hashable() const { return true; }
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, Arguments arguments);
  virtual std::optional<size_t> length() { return std::nullopt; }
  virtual std::unique_ptr<Iterator> iterate(const Value& self, Runtime& runtime);    // null: not iterable
  virtual std::unique_ptr<Iterator> backwards(const Value& self, Runtime& runtime);  // null: not reversible
  virtual std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime);
  virtual std::optional<Value> item(const Value& key, Runtime& runtime);  // nothing: wrong type or not there
  virtual bool has_items() const { return false; }                        // Python's __getitem__

  int nesting = 1;
  Charge charge;
};

// An integer outside 64 bits, as it came in a request's JSON or a literal: it can be passed on and printed,
// not computed with.
class BigInteger : public Object {
 public:
  explicit BigInteger(std::string digits) : digits_(std::move(digits)) {}
  std::string type_name() const override { return "int"; }
  void print(Builder& out, Runtime& runtime) const override;
  bool equals(const Object& other, Meter& meter) const override;
  const std::string& digits() const { return digits_; }

 private:
  std::string digits_;
};

class Range : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step);
  std::string type_name() const override { return "range"; }
  void print(Builder& out, Runtime& runtime) const override;
  bool truthy() const override { return size_ != 0; }
  bool equals(const Object& other, Meter& meter) const override;
  std::optional<size_t> length() override { return size_; }
  std::unique_ptr<Iterator> iterate(const Value& self, Runtime& runtime) override;
  std::unique_ptr<Iterator> backwards(const Value& self, Runtime& runtime) override;
  std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime) override;
  std::optional<Value> item(const Value& key, Runtime& runtime) override;
  bool has_items() const override { return true; }

  int64_t at(size_t position) const { return start_ + static_cast<int64_t>(position) * step_; }
  // The items at positions start, start + step, … up to stop, as a range.
  Value slice(int64_t start, int64_t stop, int64_t step, Runtime& runtime) const;
  bool contains(int64_t value) const;

 private:
  int64_t start_, stop_, step_;
  size_t size_;
};

// d.keys(), d.values(), d.items(): live views of a dict.
class DictView : public Object {
 public:
  enum class Part { keys, values, items };
  DictView(Value dict, Part part) : dict_(std::move(dict)), part_(part) { nesting = dict_.nesting() + 1; }
  std::string type_name() const override;
  void print(Builder& out, Runtime& runtime) const override;
  bool truthy() const override { return dict_.as_dict().size() != 0; }
  bool equals(const Object& other, Meter& meter) const override;
  bool hashable() const override { return part_ == Part::values; }
  std::optional<size_t> length() override { return dict_.as_dict().size(); }
  std::unique_ptr<Iterator> iterate(const Value& self, Runtime& runtime) override;
  std::unique_ptr<Iterator> backwards(const Value& self, Runtime& runtime) override;
  Part part() const { return part_; }
  const Value& dict() const { return dict_; }

 private:
  Value dict_;
  Part part_;
};

// A generator: an iterator as a value, used up by iterating.
class Generator : public Object {
 public:
  Generator(std::unique_ptr<Iterator> items, std::string type_name, std::string function);
  std::string type_name() const override { return type_name_; }
  void print(Builder& out, Runtime& runtime) const override;
  std::unique_ptr<Iterator> iterate(const Value& self, Runtime& runtime) override;
  bool next(Value& item) { return items_->next(item); }

 private:
  std::unique_ptr<Iterator> items_;
  std::string type_name_;
  std::string function_;  // the filter that made it; empty for reversed()
};

// A function of the engine: a global, or a method bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Value& self, const Arguments&)>;
  Function(std::string name, Body body, Value self = {});
  std::string type_name() const override { return "builtin_function_or_method"; }
  void print(Builder& out, Runtime& runtime) const override;
  bool equals(const Object& other, Meter& meter) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override { return body_(runtime, self_, arguments); }

 private:
  std::string name_;
  Body body_;
  Value self_;
};

// namespace(): the one thing whose attributes a template may set.
class Namespace : public Object {
 public:
  explicit Namespace(std::shared_ptr<Dict> attributes) : attributes_(std::move(attributes)) {}
  std::string type_name() const override { return "Namespace"; }
  void print(Builder& out, Runtime& runtime) const override;
  std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime) override;
  void set(std::string_view name, Value value, Runtime& runtime);
  // Lets go of the values, so that namespaces that hold each other can be freed.
  void clear() { attributes_->clear(); }

 private:
  std::shared_ptr<Dict> attributes_;
};

}  // namespace rafter::text::jinja
