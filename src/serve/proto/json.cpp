#include "serve/proto/json.h"

#include <unordered_map>
#include <vector>

namespace rafter::serve {
namespace {

constexpr size_t kMostValues = 4'000'000;
constexpr int kMostNesting = 128;  // what walks a value recursively, a schema or a template, can rely on it

bool is_nested_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostNesting) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Receives nlohmann's events. Its own builder looks for every new key among the object's keys one by one: an
// object of a few megabytes would hold the event loop for minutes.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  bool is_too_large() const { return values_ > kMostValues; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& text) override { return add(std::move(text)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  // An array or object whose end has not come.
  struct Open {
    Json value;
    std::string key;                                   // an object's, whose value comes next
    std::unordered_map<std::string, size_t> places{};  // of an object's keys
  };

  bool add(Json value) {
    if (++values_ > kMostValues) return false;
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
      return true;
    }
    auto& members = parent.value.get_ref<Json::object_t&>();
    const auto [place, is_new] = parent.places.emplace(parent.key, members.size());
    if (is_new) {
      members.push_back({std::move(parent.key), std::move(value)});
    } else {
      (members.begin() + static_cast<std::ptrdiff_t>(place->second))->second =
          std::move(value);  // the last one counts
    }
    return true;
  }

  bool open(Json value) {
    open_.push_back({std::move(value), "", {}});
    return true;
  }

  bool close() {
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  Json root_;
  std::vector<Open> open_;
  size_t values_ = 0;
};

}  // namespace

base::Result<Json> parse_json(std::string_view text) {
  if (is_nested_too_deep(text))
    return base::Error{base::ErrorCode::invalid_argument, "JSON is nested too deep", "",
                       "at most 128 levels"};
  Builder builder;
  const bool is_json = Json::sax_parse(text.begin(), text.end(), &builder);
  if (builder.is_too_large()) {
    return base::Error{base::ErrorCode::invalid_argument, "JSON has too many values", "",
                       fmt::format("at most {}", kMostValues)};
  }
  if (!is_json) return base::Error{base::ErrorCode::invalid_argument, "invalid JSON", "", ""};
  return builder.take();
}

base::Result<Json> parse_body(std::string_view text) {
  auto json = parse_json(text);
  if (!json.ok() && json.error().what == "invalid JSON")
    return base::Error{base::ErrorCode::invalid_argument, "invalid JSON body", "", ""};
  if (!json.ok()) return json.error();
  if (!json->is_object())
    return base::Error{base::ErrorCode::invalid_argument, "invalid JSON body: it must be an object", "", ""};
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace rafter::serve
