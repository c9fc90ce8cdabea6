// Filters over sequences.
#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja_binder.h"
#include "text/jinja_filters.h"
#include "text/jinja_iterators.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

Value count(Runtime&, const Value& input, const Arguments& arguments) {
  Binder("length", arguments, {});
  return Value::integer(static_cast<int64_t>(length(input)));
}

Value list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("list", arguments, {});
  return runtime.list(to_vector(input, runtime));
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("first", arguments, {});
  Value item;
  return iterate(input, runtime)->next(item) ? item : runtime.undefined("no first item, sequence was empty");
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("last", arguments, {});
  Value item;
  return iterate_backwards(input, runtime)->next(item)
             ? item
             : runtime.undefined("no last item, sequence was empty");
}

bool is_reversible(const Value& value, Runtime& runtime) {
  if (!value.is(Kind::object)) return is_iterable(value, runtime);
  return value.as_object().backwards(value, runtime) != nullptr;
}

// Python's name for the type of reversed(value).
std::string reversed_type(const Value& value) {
  if (value.is(Kind::list)) return "list_reverseiterator";
  if (value.is(Kind::dict)) return "dict_reversekeyiterator";
  if (value.object_if<Range>() != nullptr) return "range_iterator";
  if (auto* view = value.object_if<DictView>()) {
    return view->part() == DictView::Part::keys     ? "dict_reversekeyiterator"
           : view->part() == DictView::Part::values ? "dict_reversevalueiterator"
                                                    : "dict_reverseitemiterator";
  }
  return "reversed";
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("reverse", arguments, {});
  if (input.is_string()) return get_slice(input, {}, {}, Value::integer(-1), runtime);
  if (is_reversible(input, runtime)) {
    return runtime.object<Generator>(iterate_backwards(input, runtime), reversed_type(input), std::string());
  }
  if (!is_iterable(input, runtime)) fail(FailureKind::type, "argument must be iterable");
  std::vector<Value> items = to_vector(input, runtime);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("join", arguments, {"d", "attribute"});
  const bool by_attribute = bound.has(1) && !bound.at(1).is_none();
  const AttributePath path(by_attribute ? bound.at(1) : Value(), runtime);
  const Text separator = bound.has(0) ? to_text(bound.at(0), runtime) : Text();
  Builder joined(runtime.meter);
  Value item;
  bool is_first = true;
  for (auto items = iterate(input, runtime); items->next(item);) {
    if (!is_first) joined.append(separator);
    is_first = false;
    append_str(joined, by_attribute ? path.get(item, runtime) : item, runtime);
  }
  return runtime.string(joined.take());
}

Value items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("items", arguments, {});
  std::shared_ptr<Iterator> pairs;  // made when the first is asked for
  auto next = [&runtime, input, pairs](Value& item) mutable {
    if (pairs == nullptr) {
      if (input.is_undefined()) return false;
      if (!input.is(Kind::dict)) fail(FailureKind::type, "can only get item pairs from a mapping");
      pairs = DictView(input, DictView::Part::items).iterate(input, runtime);
    }
    return pairs->next(item);
  };
  return runtime.generator(std::make_unique<FunctionIterator>(input.nesting() + 1, next), "do_items");
}

Value dict_sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  std::string_view by = "key";
  if (bound.has(1)) by = bound.at(1).is_string() ? bound.at(1).text() : "";
  if (by != "key" && by != "value")
    fail(FailureKind::value, "you can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail(FailureKind::undefined, "{}", input.why_undefined());
  if (!input.is(Kind::dict)) fail(FailureKind::type, "dictsort() needs a mapping, not {}", input.type_name());
  const bool case_sensitive = bound.truth(0, false);
  std::vector<Value> pairs, keys;
  for (const Dict::Entry& entry : input.as_dict().entries()) {
    pairs.push_back(runtime.tuple({entry.key, entry.value}));
    const Value& key = by == "key" ? entry.key : entry.value;
    keys.push_back(case_sensitive ? key : ignore_case(key, runtime));
  }
  return runtime.list(sorted(std::move(pairs), keys, bound.integer(2, 0) != 0, runtime.meter));
}

std::vector<AttributePath> attribute_paths(const Value& attribute, Runtime& runtime) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    paths.emplace_back(attribute, runtime);
    return paths;
  }
  const std::string_view text = attribute.text();
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    paths.emplace_back(runtime.string(text.substr(from, comma - from)), runtime);
    from = comma + 1;
  }
  return paths;
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.truth(1, false);
  const std::vector<AttributePath> paths = attribute_paths(bound.value(2), runtime);
  std::vector<Value> items = to_vector(input, runtime), keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.get(item, runtime);
      key.push_back(case_sensitive ? part : ignore_case(part, runtime));
    }
    keys.push_back(runtime.list(std::move(key)));
  }
  return runtime.list(sorted(std::move(items), keys, bound.integer(0, 0) != 0, runtime.meter));
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truth(0, false);
  const AttributePath path(bound.value(1), runtime);
  auto seen = runtime.new_dict();
  std::shared_ptr<Iterator> source;
  auto next = [&runtime, input, case_sensitive, path, seen, source](Value& item) mutable {
    if (source == nullptr) source = iterate(input, runtime);
    while (source->next(item)) {
      const Value raw = path.get(item, runtime);
      const Value key = case_sensitive ? raw : ignore_case(raw, runtime);
      if (seen->find(key, runtime.meter) != nullptr) continue;
      seen->set(key, Value(), runtime.meter);
      return true;
    }
    return false;
  };
  return runtime.generator(std::make_unique<FunctionIterator>(input.nesting() + 1, next), "sync_do_unique");
}

template <bool kMax>
Value extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound(kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truth(0, false);
  const AttributePath path(bound.value(1), runtime);
  auto key_of = [&](const Value& item) {
    const Value key = path.get(item, runtime);
    return case_sensitive ? key : ignore_case(key, runtime);
  };
  auto items = iterate(input, runtime);
  Value best, item;
  if (!items->next(best)) return runtime.undefined("no aggregated item, sequence was empty");
  Value best_key = key_of(best);
  while (items->next(item)) {
    Value key = key_of(item);
    if (kMax ? less(best_key, key, runtime.meter) : less(key, best_key, runtime.meter)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("sum", arguments, {"attribute", "start"});
  const bool by_attribute = bound.has(0) && !bound.at(0).is_none();
  const AttributePath path(by_attribute ? bound.at(0) : Value(), runtime);
  Value total = bound.value(1, Value::integer(0));
  if (total.is_string()) fail(FailureKind::type, "sum() can't sum strings");
  Value item;
  for (auto items = iterate(input, runtime); items->next(item);) {
    total = add(total, by_attribute ? path.get(item, runtime) : item, runtime);
  }
  return total;
}

Value group_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truth(2, false);
  const AttributePath path(bound.at(0), runtime);
  const Value fallback = bound.value(1);
  std::vector<Value> items = to_vector(input, runtime), keys, positions;
  for (const Value& item : items) {
    const Value key = path.get(item, runtime, &fallback);
    keys.push_back(case_sensitive ? key : ignore_case(key, runtime));
    positions.push_back(Value::integer(static_cast<int64_t>(positions.size())));
  }
  positions = sorted(std::move(positions), keys, false, runtime.meter);
  std::vector<Value> groups;
  for (size_t from = 0; from < positions.size();) {
    auto index = [&](size_t i) { return static_cast<size_t>(positions[i].as_integer()); };
    std::vector<Value> members;
    size_t at = from;
    for (; at < positions.size() && equals(keys[index(at)], keys[index(from)], runtime.meter); ++at) {
      members.push_back(items[index(at)]);
    }
    if (at == from) members.push_back(items[index(at++)]);  // a key unequal to itself
    const Value key = case_sensitive ? keys[index(from)] : path.get(items[index(from)], runtime, &fallback);
    const Value group = runtime.tuple({key, runtime.list(std::move(members))});
    group.as_sequence().is_group = true;
    groups.push_back(group);
    from = at;
  }
  return runtime.list(std::move(groups));
}

Value batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const Value size = bound.at(0), fill = bound.value(1);
  std::shared_ptr<Iterator> source;
  std::vector<Value> pending;
  auto next = [&runtime, input, size, fill, source, pending](Value& row) mutable {
    if (source == nullptr) source = iterate(input, runtime);
    auto pending_size = [&] { return Value::integer(static_cast<int64_t>(pending.size())); };
    for (Value item; source->next(item);) {
      const bool full = equals(pending_size(), size, runtime.meter);
      if (full) row = runtime.list(std::exchange(pending, {}));
      pending.push_back(std::move(item));
      if (full) return true;
    }
    if (pending.empty()) return false;
    if (!fill.is_none() && less(pending_size(), size, runtime.meter)) {
      const auto missing = static_cast<uint64_t>(require_integer(size, "batch()")) - pending.size();
      runtime.meter.check_size(missing, sizeof(Value));
      pending.insert(pending.end(), missing, fill);
    }
    row = runtime.list(std::exchange(pending, {}));
    return true;
  };
  const int depth = std::max(input.nesting(), fill.nesting()) + 1;
  return runtime.generator(std::make_unique<FunctionIterator>(depth, next), "do_batch");
}

Value slice(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("slice", arguments, {"slices", "fill_with"}, 1);
  const Value slices = bound.at(0), fill = bound.value(1);
  std::optional<std::vector<Value>> items;
  int64_t number = 0;
  auto next = [&runtime, input, slices, fill, items, number](Value& column) mutable {
    if (!items) items = to_vector(input, runtime);
    const int64_t count = require_integer(slices, "slice()");
    if (count == 0) fail(FailureKind::value, "integer division or modulo by zero");
    if (number >= count) return false;
    const auto size = static_cast<int64_t>(items->size());
    const int64_t each = size / count, longer = size % count;
    const int64_t begin = number * each + std::min(number, longer);
    const int64_t end = begin + each + (number < longer ? 1 : 0);
    std::vector<Value> part(items->begin() + begin, items->begin() + end);
    if (!fill.is_none() && number >= longer) part.push_back(fill);
    column = runtime.list(std::move(part));
    ++number;
    return true;
  };
  const int depth = std::max(input.nesting(), fill.nesting()) + 1;
  return runtime.generator(std::make_unique<FunctionIterator>(depth, next), "sync_do_slice");
}

constexpr std::array<FilterEntry, 17> kFilters = {{
    {"batch", batch},
    {"count", count},
    {"dictsort", dict_sort},
    {"first", first},
    {"groupby", group_by},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", count},
    {"list", list},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reverse", reverse},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
}};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

AttributePath::AttributePath(const Value& attribute, Runtime& runtime) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string_view text = attribute.text();
  for (size_t from = 0; from <= text.size();) {
    const size_t dot = std::min(text.find('.', from), text.size());
    const std::string_view part = text.substr(from, dot - from);
    const bool is_index =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    parts_.push_back(is_index ? integer_from_digits(part, false, runtime) : runtime.string(part));
    from = dot + 1;
  }
}

Value AttributePath::get(Value item, Runtime& runtime, const Value* fallback) const {
  for (const Value& part : parts_) {
    item = get_subscript(item, part, runtime);
    if (item.is_undefined() && fallback != nullptr && !fallback->is_none()) item = *fallback;
  }
  return item;
}

Value ignore_case(const Value& value, Runtime& runtime) {
  if (!value.is_string()) return value;
  runtime.meter.copy(4 * value.text().size());
  return runtime.string(to_lower(value.as_string().text), value.as_string().markup);
}

}  // namespace rafter::text::jinja
