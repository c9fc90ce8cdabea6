#include "text/json_numbers.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace rafter::text {
namespace {

// One to `most` digits, from a state on. `end(state)` is called for every state behind one.
template <typename End>
void add_digits(ByteGrammar& grammar, int32_t from, int most, End end) {
  for (int i = 0; i < most; ++i) {
    const int32_t next = grammar.add_state();
    grammar.add_edge(from, '0', '9', next);
    end(next);
    from = next;
  }
}

int digits_of(int64_t value) {
  int digits = 1;
  for (; value >= 10; value /= 10) ++digits;
  return digits;
}

// Digit by digit, the numbers of [low, high] without leading zeros. What was read is either the beginning of
// a bound, or all that matters of it is how many more digits there may be and what remains on division.
class WholeNumbers {
 public:
  // `low` and `high` are not negative.
  WholeNumbers(ByteGrammar& grammar, int64_t low, int64_t high, int64_t multiple)
      : grammar_(grammar), low_(low), high_(high), multiple_(multiple) {}
  virtual ~WholeNumbers() = default;

  int32_t write() {
    const int32_t start = grammar_.add_state();
    for (int64_t digit = 0; digit <= 9; ++digit) {
      const int32_t next = digit == 0 ? zero() : state_of(digit, 1);
      if (next >= 0) grammar_.add_edge(start, static_cast<char>('0' + digit), next);
    }
    return start;
  }

 protected:
  // `state` is behind a number of the range that `multiple` divides; `value` is absent where it is not the
  // beginning of a bound and lies between them.
  virtual void end(int32_t state, std::optional<int64_t> value) {
    (void)value;
    grammar_.set_final(state);
  }
  ByteGrammar& grammar_;

 private:
  int32_t zero() {
    if (low_ > 0) return -1;
    const int32_t state = grammar_.add_state();
    end(state, 0);
    return state;
  }

  int32_t state_of(int64_t value, int digits) {
    // How many more digits there may be.
    int least = -1, most = -1;
    int64_t first = value, last = value;
    bool is_bound = false;
    for (int more = 0; digits + more <= kMostIntegerDigits; ++more) {
      if (more > 0) first *= 10, last = last * 10 + 9;
      if (first > high_ || last < low_) continue;
      is_bound = is_bound || first <= low_ || last >= high_;
      if (least < 0) least = more;
      most = more;
    }
    if (least < 0) return -1;
    if (!is_bound) return free_state(least, most, value % multiple_);
    const int32_t state = grammar_.add_state();
    if (low_ <= value && value <= high_ && value % multiple_ == 0) end(state, value);
    if (digits == kMostIntegerDigits) return state;
    for (int64_t digit = 0; digit <= 9; ++digit) {
      const int32_t next = state_of(value * 10 + digit, digits + 1);
      if (next >= 0) grammar_.add_edge(state, static_cast<char>('0' + digit), next);
    }
    return state;
  }

  int32_t free_state(int least, int most, int64_t remainder) {
    const auto [found, is_new] = free_states_.try_emplace({least, most, remainder}, 0);
    if (!is_new) return found->second;
    const int32_t state = found->second = grammar_.add_state();
    if (least == 0 && remainder == 0) end(state, std::nullopt);
    if (most == 0) return state;
    for (int64_t digit = 0; digit <= 9; ++digit) {
      const int32_t next = free_state(std::max(least - 1, 0), most - 1, (remainder * 10 + digit) % multiple_);
      grammar_.add_edge(state, static_cast<char>('0' + digit), next);
    }
    return state;
  }

  int64_t low_, high_, multiple_;
  std::map<std::tuple<int, int, int64_t>, int32_t> free_states_;
};

// The same in front of a point, and what may stand behind it.
class Decimals : public WholeNumbers {
 public:
  Decimals(ByteGrammar& grammar, const DecimalBound& low, const DecimalBound& high)
      : WholeNumbers(grammar, low.whole, high.whole, 1),
        low_(low),
        high_(high),
        most_(std::max(1, kMostDecimalDigits - std::max(exclusive_digits(low), exclusive_digits(high)))) {}

 private:
  void end(int32_t state, std::optional<int64_t> value) override {
    const bool at_low = value == low_.whole, at_high = value == high_.whole;
    if (may_end(0, at_low, at_high)) grammar_.set_final(state);
    grammar_.add_edge(state, '.', fraction(0, at_low, at_high));
  }

  // Only where a bound itself is out does it matter that a double must tell a number from it.
  static int exclusive_digits(const DecimalBound& bound) {
    return bound.is_exclusive ? digits_of(bound.whole) : 0;
  }
  static int digit_of(const DecimalBound& bound, int position) {
    const auto index = static_cast<size_t>(position);
    return index < bound.fraction.size() ? bound.fraction[index] - '0' : 0;
  }
  static bool has_rest(const DecimalBound& bound, int position) {
    const std::string& digits = bound.fraction;
    return digits.find_first_not_of('0', std::min(digits.size(), static_cast<size_t>(position))) !=
           std::string::npos;
  }

  // After `position` digits behind the point, those of the bounds as long as `at_low` and `at_high`.
  bool may_end(int position, bool at_low, bool at_high) const {
    if (at_low && (has_rest(low_, position) || low_.is_exclusive)) return false;
    return !at_high || has_rest(high_, position) || !high_.is_exclusive;
  }

  int32_t fraction(int position, bool at_low, bool at_high) {
    const auto [found, is_new] = fractions_.try_emplace({position, at_low, at_high}, 0);
    if (!is_new) return found->second;
    const int32_t state = found->second = grammar_.add_state();
    if (position > 0 && may_end(position, at_low, at_high)) grammar_.set_final(state);
    const int longest = std::max(
        {most_, static_cast<int>(low_.fraction.size()) + 1, static_cast<int>(high_.fraction.size()) + 1});
    if (position >= (at_low || at_high ? longest : most_)) return state;
    for (int digit = 0; digit <= 9; ++digit) {
      const int low = at_low ? digit_of(low_, position) : 0, high = at_high ? digit_of(high_, position) : 9;
      if (digit < low || digit > high) continue;
      const int32_t next = fraction(position + 1, at_low && digit == low, at_high && digit == high);
      grammar_.add_edge(state, static_cast<char>('0' + digit), next);
    }
    return state;
  }

  DecimalBound low_, high_;
  int most_;
  std::map<std::tuple<int, bool, bool>, int32_t> fractions_;
};

}  // namespace

int32_t add_any_number(ByteGrammar& grammar) {
  constexpr int kMostFractionDigits = 20;
  const int32_t start = grammar.add_state(), unsigned_start = grammar.add_state();
  grammar.add_jump(start, unsigned_start);
  grammar.add_edge(start, '-', unsigned_start);
  // The exponent.
  const int32_t exponent = grammar.add_state(), sign = grammar.add_state(), positive = grammar.add_state(),
                negative = grammar.add_state();
  for (const char letter : {'e', 'E'}) grammar.add_edge(exponent, letter, sign);
  grammar.add_jump(sign, positive);
  grammar.add_edge(sign, '+', positive);
  grammar.add_edge(sign, '-', negative);
  const auto set_final = [&](int32_t state) { grammar.set_final(state); };
  add_digits(grammar, positive, 2, set_final);
  add_digits(grammar, negative, 2, set_final);
  const int32_t hundreds = grammar.add_state();  // -100 to -308, as far as they are normal numbers
  grammar.add_edge(negative, '1', '2', hundreds);
  const int32_t three = grammar.add_state(), thirty = grammar.add_state(), last = grammar.add_state();
  grammar.add_edge(negative, '3', three);
  grammar.add_edge(three, '0', thirty);
  grammar.add_edge(thirty, '0', '7', last);
  grammar.set_final(last);
  const int32_t tens = grammar.add_state();
  grammar.add_edge(hundreds, '0', '9', tens);
  grammar.add_edge(tens, '0', '9', last);
  // The point and what is behind it.
  const int32_t point = grammar.add_state();
  add_digits(grammar, point, kMostFractionDigits, [&](int32_t state) {
    grammar.set_final(state);
    grammar.add_jump(state, exponent);
  });
  const auto end_whole = [&](int32_t state) {
    grammar.set_final(state);
    grammar.add_edge(state, '.', point);
    grammar.add_jump(state, exponent);
  };
  const int32_t zero = grammar.add_state(), first = grammar.add_state();
  grammar.add_edge(unsigned_start, '0', zero);
  end_whole(zero);
  grammar.add_edge(unsigned_start, '1', '9', first);
  end_whole(first);
  add_digits(grammar, first, kMostIntegerDigits - 1, end_whole);
  return start;
}

int32_t add_integer(ByteGrammar& grammar, int64_t low, int64_t high, int64_t multiple) {
  const int32_t start = grammar.add_state();
  if (high >= 0)
    grammar.add_jump(start, WholeNumbers(grammar, std::max<int64_t>(low, 0), high, multiple).write());
  if (low < 0) {
    const int64_t nearest = std::max<int64_t>(-high, 1);
    grammar.add_edge(start, '-', WholeNumbers(grammar, nearest, -low, multiple).write());
  }
  return start;
}

int32_t add_decimal(ByteGrammar& grammar, const DecimalBound& low, const DecimalBound& high) {
  return Decimals(grammar, low, high).write();
}

}  // namespace rafter::text
