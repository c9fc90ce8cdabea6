#include "text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Runtime& runtime)
      : style_(style), runtime_(runtime), out_(runtime.meter) {}

  Text run(const Value& value) {
    write(value);
    return out_.take();
  }

 private:
  void write(const Value& value) {
    runtime_.meter.step();
    switch (value.kind()) {
      case Kind::none:
        return out_.append("null");
      case Kind::boolean:
        return out_.append(value.as_boolean() ? "true" : "false");
      case Kind::integer:
        return out_.append(std::to_string(value.as_integer()));
      case Kind::real:
        return out_.append(real(value.as_real()));
      case Kind::string:
        return write_string(value.as_string().text);
      case Kind::list:
      case Kind::tuple:
        return write_sequence(value.as_sequence().items);
      case Kind::dict:
        return write_dict(value.as_dict());
      default:
        break;
    }
    if (auto* number = value.object_if<BigInteger>()) return out_.append(number->digits());
    fail(FailureKind::type, "Object of type {} is not JSON serializable", value.type_name());
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_repr(value);
  }

  void write_string(const Text& text) {
    out_.append("\"");
    size_t plain = 0;
    char32_t c;
    for (CodePoints points(text.view()); points.next(c);) {
      const std::string escaped = escape(c);
      if (escaped.empty()) continue;
      out_.append(text, plain, points.begin());
      out_.append_as(escaped, text, points.begin());
      plain = points.end();
    }
    out_.append(text, plain, text.size());
    out_.append("\"");
  }

  std::string escape(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    if (c >= 0x20 && (c < 0x7F || !style_.ensure_ascii)) return {};
    if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  }

  void line_break() {
    if (!style_.indent) return;
    out_.append("\n");
    for (int i = 0; i < depth_; ++i) out_.append(*style_.indent);
  }

  void enter() {
    if (++depth_ > 2 * kMaxNesting) fail(FailureKind::value, "circular reference detected");
  }

  void write_sequence(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    enter();
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_.append(style_.item_separator);
      line_break();
      write(items[i]);
    }
    --depth_;
    line_break();
    out_.append("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) return out_.append("{}");
    enter();
    out_.append("{");
    const std::vector<size_t> order = key_order(dict);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i != 0) out_.append(style_.item_separator);
      line_break();
      write_key(dict.entries()[order[i]].key);
      out_.append(style_.key_separator);
      write(dict.entries()[order[i]].value);
    }
    --depth_;
    line_break();
    out_.append("}");
  }

  std::vector<size_t> key_order(const Dict& dict) {
    std::vector<Value> keys, positions;
    for (const Dict::Entry& entry : dict.entries()) {
      positions.push_back(Value::integer(static_cast<int64_t>(positions.size())));
      keys.push_back(entry.key);
    }
    if (style_.sort_keys) positions = sorted(std::move(positions), keys, false, runtime_.meter);
    std::vector<size_t> order;
    for (const Value& position : positions) order.push_back(static_cast<size_t>(position.as_integer()));
    return order;
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.as_string().text);
    const bool plain =
        key.is_none() || key.is_int() || key.is(Kind::real) || key.object_if<BigInteger>() != nullptr;
    if (!plain) {
      fail(FailureKind::type, "keys must be str, int, float, bool or None, not {}", key.type_name());
    }
    out_.append("\"");
    write(key);
    out_.append("\"");
  }

  const JsonStyle& style_;
  Runtime& runtime_;
  Builder out_;
  int depth_ = 0;
};

// Receives nlohmann's events and builds Values; nothing recurses, whatever the nesting.
class ValueBuilder : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit ValueBuilder(Origin origin) : origin_(origin) {}

  const std::string& problem() const { return problem_; }
  Value take() { return std::move(result_); }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX))
      return add(Value::integer(static_cast<int64_t>(value)));
    return add_big(std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    // nlohmann passes integers outside 64 bits as floats.
    if (digits.find_first_of(".eE") == std::string::npos) return add_big(digits);
    return add(Value::real(value));
  }
  bool string(string_t& text) override { return add(Value::string(text, origin_)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(false); }
  bool key(string_t& name) override {
    open_.back().key = name;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(true); }
  bool end_array() override { return close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = error.id == 406 ? fmt::format("a number out of range before byte {}", at)
                               : fmt::format("malformed JSON at byte {}", at);
    return false;
  }

 private:
  struct Container {
    bool is_list;
    std::vector<Value> items;
    std::vector<std::pair<std::string, Value>> entries;
    std::string key;
  };

  bool add_big(const std::string& digits) {
    return add(Value::from(std::shared_ptr<Object>(std::make_shared<BigInteger>(digits))));
  }

  bool add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_list) {
      open_.back().items.push_back(std::move(value));
    } else {
      open_.back().entries.emplace_back(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  bool open(bool is_list) {
    if (open_.size() + 2 >= static_cast<size_t>(kMaxNesting)) {
      problem_ = fmt::format("JSON nested more than {} deep", kMaxNesting - 2);
      return false;
    }
    open_.push_back({is_list, {}, {}, {}});
    return true;
  }

  bool close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    return add(done.is_list ? Value::list(std::move(done.items)) : Value::dict(done.entries));
  }

  Origin origin_;
  std::vector<Container> open_;
  Value result_;
  std::string problem_;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style, Runtime& runtime) {
  return JsonWriter(style, runtime).run(value);
}

base::Result<Value> parse_json(std::string_view text, Origin origin) {
  ValueBuilder builder(origin);
  if (!nlohmann::ordered_json::sax_parse(text.begin(), text.end(), &builder)) {
    std::string problem = builder.problem().empty() ? "malformed JSON" : builder.problem();
    return base::Error{base::ErrorCode::invalid_data, std::move(problem), "", ""};
  }
  return builder.take();
}

}  // namespace rafter::text::jinja
