// Methods of list, tuple and dict.
#include <algorithm>
#include <array>

#include "text/jinja_binder.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace rafter::text::jinja {
namespace {

Value count_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("count", arguments, {"/value"}, 1);
  int64_t count = 0;
  Value item;
  for (auto items = iterate(self, runtime); items->next(item);)
    count += equals(item, bound.at(0), runtime.meter);
  return Value::integer(count);
}

Value index_of_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("index", arguments, {"/value", "/start", "/stop"}, 1);
  const auto size = static_cast<int64_t>(length(self));
  auto clamp = [&](int64_t bound_index) {
    return std::clamp<int64_t>(bound_index < 0 ? bound_index + size : bound_index, 0, size);
  };
  const int64_t start = clamp(bound.integer(1, 0)), stop = clamp(bound.integer(2, size));
  Value item;
  int64_t index = 0;
  for (auto items = iterate(self, runtime); items->next(item); ++index) {
    if (index >= start && index < stop && equals(item, bound.at(0), runtime.meter))
      return Value::integer(index);
  }
  fail(FailureKind::value, "{} is not in list", repr_of(bound.at(0), runtime));
}

Value copy_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder("copy", arguments, {});
  return runtime.list(self.as_sequence().items);
}

// A container that was changed may hold itself; it is emptied when the render ends.
void remember_changed(Runtime& runtime, const Value& container, const Value& added) {
  if (added.nesting() == 0) return;
  runtime.meter.reserve(2 * kAllocationBytes);
  runtime.check_nesting(added.nesting());
  runtime.at_end([container] {
    if (container.is(Kind::dict)) {
      container.as_dict().clear();
    } else {
      const std::vector<Value> released = std::move(container.as_sequence().items);
    }
  });
}

void grow_list(Runtime& runtime, const Value& self, size_t at, std::vector<Value> added) {
  Sequence& list = self.as_sequence();
  runtime.meter.step(1 + added.size() + (list.items.size() - at) / 8);
  for (const Value& value : added) {
    list.nesting = std::max(list.nesting, value.nesting() + 1);
    remember_changed(runtime, self, value);
  }
  list.items.insert(list.items.begin() + static_cast<std::ptrdiff_t>(at), added.begin(), added.end());
  list.charge.grow_to(sizeof(Sequence) + kAllocationBytes + list.items.capacity() * sizeof(Value));
}

Value append(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("append", arguments, {"/object"}, 1);
  grow_list(runtime, self, self.as_sequence().items.size(), {bound.at(0)});
  return {};
}

Value extend(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("extend", arguments, {"/iterable"}, 1);
  grow_list(runtime, self, self.as_sequence().items.size(), to_vector(bound.at(0), runtime));
  return {};
}

Value insert(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("insert", arguments, {"/index", "/object"}, 2);
  const auto size = static_cast<int64_t>(self.as_sequence().items.size());
  const int64_t index = bound.integer(0, 0);
  const int64_t at = std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  grow_list(runtime, self, static_cast<size_t>(at), {bound.at(1)});
  return {};
}

Value pop_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("pop", arguments, {"/index"});
  auto& items = self.as_sequence().items;
  if (items.empty()) fail(FailureKind::value, "pop from empty list");
  const auto size = static_cast<int64_t>(items.size());
  int64_t index = bound.integer(0, -1);
  if (index < 0) index += size;
  if (index < 0 || index >= size) fail(FailureKind::value, "pop index out of range");
  runtime.meter.step(1 + static_cast<uint64_t>(size - index) / 8);
  Value value = items[static_cast<size_t>(index)];
  items.erase(items.begin() + index);
  return value;
}

Value remove_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("remove", arguments, {"/value"}, 1);
  auto& items = self.as_sequence().items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return equals(item, bound.at(0), runtime.meter);
  });
  if (found == items.end()) fail(FailureKind::value, "list.remove(x): x not in list");
  items.erase(found);
  return {};
}

Value reverse_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder("reverse", arguments, {});
  auto& items = self.as_sequence().items;
  runtime.meter.step(1 + items.size() / 4);
  std::reverse(items.begin(), items.end());
  return {};
}

Value clear_list(Runtime&, const Value& self, const Arguments& arguments) {
  Binder("clear", arguments, {});
  const std::vector<Value> released = std::move(self.as_sequence().items);
  self.as_sequence().items = {};
  return {};
}

Value view(Runtime& runtime, const Value& self, const Arguments& arguments, DictView::Part part) {
  Binder("view", arguments, {});
  return runtime.object<DictView>(self, part);
}

Value items_view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view(runtime, self, arguments, DictView::Part::items);
}
Value keys_view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view(runtime, self, arguments, DictView::Part::keys);
}
Value values_view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view(runtime, self, arguments, DictView::Part::values);
}

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("get", arguments, {"/key", "/default"}, 1);
  const Value* found = self.as_dict().find(bound.at(0), runtime.meter);
  return found != nullptr ? *found : bound.value(1);
}

Value copy_dict(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder("copy", arguments, {});
  auto copy = runtime.new_dict();
  for (const Dict::Entry& entry : self.as_dict().entries()) copy->set(entry.key, entry.value, runtime.meter);
  return runtime.dict(std::move(copy));
}

Value from_keys(Runtime& runtime, const Value&, const Arguments& arguments) {
  Binder bound("fromkeys", arguments, {"/iterable", "/value"}, 1);
  auto dict = runtime.new_dict();
  Value key;
  for (auto keys = iterate(bound.at(0), runtime); keys->next(key);)
    dict->set(key, bound.value(1), runtime.meter);
  return runtime.dict(std::move(dict));
}

void set_entry(Runtime& runtime, const Value& self, const Value& key, const Value& value) {
  remember_changed(runtime, self, value);
  self.as_dict().set(key, value, runtime.meter);
}

Value update(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Arguments positional{arguments.positional, {}};
  Binder bound("update", positional, {"/other"});
  if (bound.has(0)) {
    if (!bound.at(0).is(Kind::dict)) fail(FailureKind::type, "dict.update() takes a dict here");
    const auto entries = bound.at(0).as_dict().entries();
    for (const Dict::Entry& entry : entries) set_entry(runtime, self, entry.key, entry.value);
  }
  for (const auto& [name, value] : arguments.named) set_entry(runtime, self, runtime.string(name), value);
  return {};
}

Value set_default(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("setdefault", arguments, {"/key", "/default"}, 1);
  if (const Value* found = self.as_dict().find(bound.at(0), runtime.meter)) return *found;
  set_entry(runtime, self, bound.at(0), bound.value(1));
  return bound.value(1);
}

Value pop_key(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("pop", arguments, {"/key", "/default"}, 1);
  const Value* found = self.as_dict().find(bound.at(0), runtime.meter);
  if (found == nullptr && !bound.has(1)) fail(FailureKind::value, "no key {}", repr_of(bound.at(0), runtime));
  if (found == nullptr) return bound.at(1);
  Value value = *found;
  self.as_dict().remove(bound.at(0), runtime.meter);
  return value;
}

Value clear_dict(Runtime&, const Value& self, const Arguments& arguments) {
  Binder("clear", arguments, {});
  self.as_dict().clear();
  return {};
}

constexpr std::array<Method, 2> kSequenceMethods = {{{"count", count_items}, {"index", index_of_item}}};

constexpr std::array<Method, 9> kListMethods = {{
    {"copy", copy_list},
    {"append", append},
    {"extend", extend},
    {"insert", insert},
    {"pop", pop_item},
    {"remove", remove_item},
    {"reverse", reverse_list},
    {"clear", clear_list},
    {"sort", nullptr},
}};

constexpr std::array<Method, 11> kDictMethods = {{
    {"get", get},
    {"items", items_view},
    {"keys", keys_view},
    {"values", values_view},
    {"copy", copy_dict},
    {"fromkeys", from_keys},
    {"update", update},
    {"setdefault", set_default},
    {"pop", pop_key},
    {"popitem", nullptr},
    {"clear", clear_dict},
}};

template <size_t kSize>
MethodBody find_in(const std::array<Method, kSize>& methods, std::string_view name) {
  for (const Method& method : methods) {
    if (method.name == name) return method.body;
  }
  return nullptr;
}

}  // namespace

MethodBody find_container_method(Kind kind, std::string_view name) {
  if (kind == Kind::dict) return find_in(kDictMethods, name);
  if (kind == Kind::list) {
    if (MethodBody body = find_in(kListMethods, name)) return body;
  }
  return find_in(kSequenceMethods, name);
}

bool is_mutator(Kind kind, std::string_view name) {
  static constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                                       "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (kind == Kind::list)
    return std::find(std::begin(kListMutators), std::end(kListMutators), name) != std::end(kListMutators);
  if (kind == Kind::dict)
    return std::find(std::begin(kDictMutators), std::end(kDictMutators), name) != std::end(kDictMutators);
  return false;
}

std::optional<Value> sequence_method(const Value& self, std::string_view name, Runtime& runtime) {
  if (MethodBody body = find_in(kSequenceMethods, name))
    return runtime.function(std::string(name), body, self);
  return std::nullopt;
}

}  // namespace rafter::text::jinja
