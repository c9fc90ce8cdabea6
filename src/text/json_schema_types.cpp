// Strings, numbers and lists that a schema takes.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "text/json_numbers.h"
#include "text/json_schema_compiler.h"
#include "text/quote.h"

namespace rafter::text::schema {
namespace {

using base::ErrorCode;

constexpr int32_t kLongestString = 20'000, kLongestList = 20'000;
constexpr int64_t kLargestMultiple = 1000;

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

// One end of a range of numbers; `number` is null where there is none.
struct Bound {
  const Json* number = nullptr;
  bool is_exclusive = false;
  const char* keyword = "";

  double value() const { return number->get<double>(); }
};

// The tighter one of `inclusive` and `exclusive`, which draft 4 has as a boolean beside the other.
Bound bound_of(const Json& schema, const char* inclusive, const char* exclusive, bool is_low,
               const std::string& pointer) {
  const auto read = [&](const char* keyword) {
    const Json* found = find(schema, keyword);
    if (found != nullptr && !found->is_number())
      fail(ErrorCode::invalid_argument, pointer, keyword, "must be a number");
    return found;
  };
  Bound bound{read(inclusive), false, inclusive};
  const Json* other = find(schema, exclusive);
  if (other != nullptr && other->is_boolean()) {
    bound.is_exclusive = other->get<bool>();
    return bound;
  }
  const Bound strict{read(exclusive), true, exclusive};
  if (strict.number == nullptr) return bound;
  if (bound.number == nullptr) return strict;
  return (is_low ? strict.value() >= bound.value() : strict.value() <= bound.value()) ? strict : bound;
}

// The nearest integer that a bound takes: upwards of a low one, downwards of a high one.
int64_t integer_bound(const Bound& bound, bool is_low, const std::string& pointer) {
  const int64_t direction = is_low ? 1 : -1;
  if (bound.number == nullptr) return -direction * kLargestInteger;
  if (std::abs(bound.value()) > static_cast<double>(kLargestInteger)) {
    if ((bound.value() > 0) == is_low) refuse(pointer, bound.keyword, "of such a size is not supported");
    return -direction * kLargestInteger;
  }
  const double rounded = is_low ? std::ceil(bound.value()) : std::floor(bound.value());
  const int64_t integer =
      bound.number->is_number_integer() ? bound.number->get<int64_t>() : static_cast<int64_t>(rounded);
  const bool is_hit = bound.number->is_number_integer() || rounded == bound.value();
  return std::clamp(integer + (bound.is_exclusive && is_hit ? direction : 0), -kLargestInteger,
                    kLargestInteger);
}

// The digits of a bound's magnitude: the fewest that mean the same double.
DecimalBound decimal_bound(const Bound& bound, const std::string& pointer) {
  constexpr int kMostFractionDigits = 40;
  const double magnitude = std::abs(bound.value());
  DecimalBound result{kLargestDecimal, "", bound.is_exclusive};
  if (magnitude > static_cast<double>(kLargestDecimal)) return result;
  for (int digits = 0; digits <= kMostFractionDigits; ++digits) {
    const std::string text = fmt::format("{:.{}f}", magnitude, digits);
    double same = 0;
    std::from_chars(text.data(), text.data() + text.size(), same);
    if (same != magnitude) continue;
    std::from_chars(text.data(), text.data() + text.size(), result.whole);
    if (digits > 0) result.fraction = text.substr(text.find('.') + 1);
    return result;
  }
  refuse(pointer, bound.keyword, "so close to zero is not supported");
}

std::optional<int64_t> multiple_of(const Json& schema, const std::string& pointer) {
  const Json* found = find(schema, "multipleOf");
  if (found == nullptr) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : 0;
  if (!(value > 0)) fail(ErrorCode::invalid_argument, pointer, "multipleOf", "must be a number above 0");
  if (value != std::floor(value) || value > static_cast<double>(kLargestMultiple)) {
    refuse(pointer, "multipleOf", fmt::format("is supported for whole numbers up to {}", kLargestMultiple));
  }
  return static_cast<int64_t>(value);
}

}  // namespace

void Compiler::add_integers(const Json& schema, const std::string& pointer, int32_t start) {
  const int64_t low =
      integer_bound(bound_of(schema, "minimum", "exclusiveMinimum", true, pointer), true, pointer);
  const int64_t high =
      integer_bound(bound_of(schema, "maximum", "exclusiveMaximum", false, pointer), false, pointer);
  if (low <= high) {
    grammar.add_jump(start, add_integer(grammar, low, high, multiple_of(schema, pointer).value_or(1)));
  }
}

// With bounds: those on either side of zero, without exponents. Of multiples the integers.
void Compiler::add_numbers(const Json& schema, const std::string& pointer, int32_t start) {
  if (schema.contains("multipleOf")) return add_integers(schema, pointer, start);
  const Bound low = bound_of(schema, "minimum", "exclusiveMinimum", true, pointer);
  const Bound high = bound_of(schema, "maximum", "exclusiveMaximum", false, pointer);
  if (low.number == nullptr && high.number == nullptr) {
    if (any_number_ < 0) any_number_ = add_any_number(grammar);
    return grammar.add_jump(start, any_number_);
  }
  const auto largest = static_cast<double>(kLargestDecimal);
  const double least = low.number == nullptr ? -largest : low.value();
  const double most = high.number == nullptr ? largest : high.value();
  if (least > largest) refuse(pointer, low.keyword, "of such a size is not supported");
  if (most < -largest) refuse(pointer, high.keyword, "of such a size is not supported");
  const DecimalBound low_digits =
      low.number == nullptr ? DecimalBound{kLargestDecimal, "", false} : decimal_bound(low, pointer);
  const DecimalBound high_digits =
      high.number == nullptr ? DecimalBound{kLargestDecimal, "", false} : decimal_bound(high, pointer);
  const DecimalBound zero;
  if (most >= 0) grammar.add_jump(start, add_decimal(grammar, least >= 0 ? low_digits : zero, high_digits));
  if (least < 0)
    grammar.add_edge(start, '-', add_decimal(grammar, most <= 0 ? high_digits : zero, low_digits));
}

void Compiler::open_string(int32_t start, int32_t body) {
  const std::string_view open = characters_.notation().open;
  const int32_t last = grammar.add_text(start, open.substr(0, open.size() - 1));
  grammar.add_edge(last, static_cast<uint8_t>(open.back()), static_cast<uint8_t>(open.back()), body);
}

int32_t Compiler::string_body(const CharacterAutomaton& automaton, const std::string& pointer) {
  if (possible_ == nullptr) return automaton.write(grammar, characters_);
  const auto possible = automaton.intersect(*possible_);
  if (!possible.ok()) refuse(pointer, "", possible.error().what);
  return possible->write(grammar, characters_);
}

int32_t Compiler::free_body(int32_t least, int32_t most, const std::string& pointer) {
  const auto [found, is_new] = free_bodies_.try_emplace({least, most}, -1);
  if (!is_new) return found->second;
  if (possible_ == nullptr) return found->second = add_free_string_body(grammar, characters_, least, most);
  CharacterAutomaton body = *possible_;
  if (least > 0 || most != ByteGrammar::kUnlimited) {
    auto limited = body.with_length(least, most);
    if (!limited.ok()) refuse(pointer, least > 0 ? "minLength" : "maxLength", limited.error().what);
    body = std::move(*limited);
  }
  return found->second = body.write(grammar, characters_);
}

void Compiler::add_string(const Json& schema, const std::string& pointer, int32_t start) {
  const int32_t least = count_of(schema, "minLength", 0, kLongestString, pointer);
  // A longer limit is none in practice, but it must hold.
  const int32_t most = count_of(schema, "maxLength", ByteGrammar::kUnlimited, kLongestString, pointer);
  if (least > most) return;
  std::vector<std::pair<const char*, std::string>> patterns;
  for (const char* keyword : {"pattern", "format"}) {
    const Json* value = find(schema, keyword);
    if (value == nullptr) continue;
    if (!value->is_string()) fail(ErrorCode::invalid_argument, pointer, keyword, "must be a string");
    const auto& text = value->get_ref<const std::string&>();
    const char* of_format = keyword[0] == 'f' ? format_pattern(text) : text.c_str();
    if (of_format != nullptr) patterns.emplace_back(keyword, keyword[0] == 'f' ? of_format : text);
  }
  if (patterns.empty()) return open_string(start, free_body(least, most, pointer));
  std::string key = fmt::format("{} {}", least, most);
  for (const auto& [keyword, pattern] : patterns) key += fmt::format(" {} {}", pattern.size(), pattern);
  const auto [found, is_new] = pattern_bodies_.try_emplace(key, -1);
  if (is_new) {
    const auto check = [&](base::Result<CharacterAutomaton> result, const char* keyword) {
      if (!result.ok()) refuse(pointer, keyword, result.error().what);
      return std::move(result).value();
    };
    CharacterAutomaton automaton =
        check(CharacterAutomaton::from_pattern(patterns[0].second), patterns[0].first);
    if (patterns.size() > 1) {
      automaton = check(
          automaton.intersect(check(CharacterAutomaton::from_pattern(patterns[1].second), patterns[1].first)),
          patterns[1].first);
    }
    if (least > 0 || most != ByteGrammar::kUnlimited) {
      automaton = check(automaton.with_length(least, most), least > 0 ? "minLength" : "maxLength");
    }
    found->second = string_body(automaton, pointer);
    check_size(pointer);
  }
  open_string(start, found->second);
}

int32_t Compiler::one_of(const std::vector<std::string>& texts, const std::string& pointer) {
  const int32_t start = grammar.add_state();
  open_string(start, string_body(CharacterAutomaton::from_strings(texts, false), pointer));
  return start;
}

// A state for every number of items up to where it no longer matters.
void Compiler::add_array(const Json& schema, const std::string& pointer, int32_t start) {
  const int32_t least = count_of(schema, "minItems", 0, kLongestList, pointer);
  int32_t most = count_of(schema, "maxItems", ByteGrammar::kUnlimited, kLongestList, pointer);
  const Json* prefix = find(schema, "prefixItems");
  const Json* rest = find(schema, "items");
  if (rest != nullptr && rest->is_array())
    refuse(pointer, "items", "as a list is not supported; use prefixItems");
  if (prefix != nullptr && !prefix->is_array()) {
    fail(ErrorCode::invalid_argument, pointer, "prefixItems", "must be a list of schemas");
  }
  const auto prefix_size = static_cast<int32_t>(prefix == nullptr ? 0 : prefix->size());
  if (rest != nullptr && *rest == Json(false)) most = std::min(most, prefix_size);
  if (least > most) return;
  const int32_t last = most != ByteGrammar::kUnlimited ? most : std::max(least, prefix_size);
  const Json& any = document_.keep(Json::object());
  const auto item = [&](int32_t index) {
    if (index < prefix_size) {
      return later((*prefix)[static_cast<size_t>(index)],
                   pointer_to(pointer_to(pointer, "prefixItems"), std::to_string(index)));
    }
    return rest == nullptr ? later(any, pointer) : later(*rest, pointer_to(pointer, "items"));
  };
  const int32_t open = grammar.add_state();
  int32_t next = grammar.add_state();  // the next item begins here
  grammar.add_edge(start, '[', open);
  grammar.add_call(open, white_space(), next);
  if (least == 0) grammar.add_jump(open, closing(']'));
  for (int32_t count = 0; count <= last; ++count) {
    const bool is_loop = count == last && most == ByteGrammar::kUnlimited;
    if (count == last && !is_loop) break;
    const int32_t behind = grammar.add_state(), comma = grammar.add_state();
    grammar.add_call(next, item(count), behind);
    if (count + 1 >= least) grammar.add_jump(behind, closing(']'));
    if (!is_loop) next = grammar.add_state();
    grammar.add_edge(behind, ',', comma);
    grammar.add_call(comma, white_space(), next);
  }
  check_size(pointer);
}

}  // namespace rafter::text::schema
