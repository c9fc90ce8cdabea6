// map, select, reject and their attribute forms: lazy, applying other filters and tests by name.
#include <array>

#include "text/jinja_filters.h"
#include "text/jinja_iterators.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_tests.h"

namespace rafter::text::jinja {
namespace {

using Apply = std::function<Value(const Value&)>;

const FilterEntry& filter_named(const Value& name, Runtime& runtime) {
  const FilterEntry* entry = name.is_string() ? find_filter(name.text()) : nullptr;
  if (entry == nullptr) fail(FailureKind::type, "no filter named {}", repr_of(name, runtime));
  return *entry;
}

const TestEntry& test_named(const Value& name, Runtime& runtime) {
  const TestEntry* entry = name.is_string() ? find_test(name.text()) : nullptr;
  if (entry == nullptr) fail(FailureKind::type, "no test named {}", repr_of(name, runtime));
  return *entry;
}

Arguments without_first(const Arguments& arguments, size_t count) {
  const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(count);
  return {{begin, arguments.positional.end()}, arguments.named};
}

Apply map_by_attribute(const Arguments& arguments, Runtime& runtime) {
  Value attribute, fallback;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") {
      attribute = value;
    } else if (name == "default") {
      fallback = value;
    } else {
      fail(FailureKind::type, "unexpected keyword argument '{}'", name);
    }
  }
  return [&runtime, path = AttributePath(attribute, runtime), fallback](const Value& item) {
    return path.get(item, runtime, &fallback);
  };
}

Apply mapping(const Arguments& arguments, Runtime& runtime) {
  if (arguments.positional.empty()) {
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") return map_by_attribute(arguments, runtime);
    }
    fail(FailureKind::type, "map requires a filter argument");
  }
  const Value name = arguments.positional[0];
  return [&runtime, name, rest = without_first(arguments, 1)](const Value& item) {
    return filter_named(name, runtime).apply(runtime, item, rest);
  };
}

// Whether an item, or its attribute, passes the test that the arguments name; truth itself if they name none.
std::function<bool(const Value&)> condition(const Arguments& arguments, bool by_attribute, Runtime& runtime) {
  const size_t skipped = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    fail(FailureKind::type, "missing parameter for attribute name");
  }
  const AttributePath path(by_attribute ? arguments.positional[0] : Value(), runtime);
  if (arguments.positional.size() <= skipped) {
    return [&runtime, path](const Value& item) { return truthy(path.get(item, runtime)); };
  }
  const Value name = arguments.positional[skipped];
  return [&runtime, path, name, rest = without_first(arguments, skipped + 1)](const Value& item) {
    return test_named(name, runtime).apply(runtime, path.get(item, runtime), rest);
  };
}

int deepest(const Value& input, const Arguments& arguments) {
  int nesting = input.nesting();
  for (const Value& value : arguments.positional) nesting = std::max(nesting, value.nesting());
  for (const auto& [name, value] : arguments.named) nesting = std::max(nesting, value.nesting());
  return nesting + 1;
}

Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::shared_ptr<Iterator> source;
  Apply apply;
  auto next = [&runtime, input, arguments, source, apply](Value& item) mutable {
    if (source == nullptr) {
      if (!truthy(input)) return false;
      apply = mapping(arguments, runtime);
      source = iterate(input, runtime);
    }
    Value raw;
    if (!source->next(raw)) return false;
    item = apply(raw);
    return true;
  };
  return runtime.generator(std::make_unique<FunctionIterator>(deepest(input, arguments), next),
                           "sync_do_map");
}

template <bool kKeeps, bool kByAttribute>
Value pick(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::shared_ptr<Iterator> source;
  std::function<bool(const Value&)> holds;
  auto next = [&runtime, input, arguments, source, holds](Value& item) mutable {
    if (source == nullptr) {
      if (!truthy(input)) return false;
      holds = condition(arguments, kByAttribute, runtime);
      source = iterate(input, runtime);
    }
    while (source->next(item)) {
      if (holds(item) == kKeeps) return true;
    }
    return false;
  };
  return runtime.generator(std::make_unique<FunctionIterator>(deepest(input, arguments), next),
                           "select_or_reject");
}

constexpr std::array<FilterEntry, 5> kFilters = {{
    {"map", map},
    {"reject", pick<false, false>},
    {"rejectattr", pick<false, true>},
    {"select", pick<true, false>},
    {"selectattr", pick<true, true>},
}};

}  // namespace

std::span<const FilterEntry> selection_filters() { return kFilters; }

}  // namespace rafter::text::jinja
