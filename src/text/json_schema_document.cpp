#include "text/json_schema_document.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "text/quote.h"

namespace rafter::text::schema {
namespace {

using base::ErrorCode;

constexpr size_t kMostBytes = 1 << 20, kMostDepth = 128, kMostValues = 50'000, kMostMembers = 4'000;
constexpr size_t kMostAlternatives = 256, kMostKeptBytes = 4 << 20;
constexpr int kMostReferences = 64;  // one behind the other

// Counts before a document is built: members are looked up one by one there.
class LimitReader : public nlohmann::json_sax<Json> {
 public:
  std::string problem;

  bool null() override { return add(); }
  bool boolean(bool) override { return add(); }
  bool number_integer(number_integer_t) override { return add(); }
  bool number_unsigned(number_unsigned_t) override { return add(); }
  bool number_float(number_float_t, const string_t&) override { return add(); }
  bool string(string_t&) override { return add(); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool key(string_t&) override {
    return ++members_.back() <= kMostMembers || stop("has too many members in one object");
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("is not JSON at byte {}", at));
  }

 private:
  bool stop(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool add() { return ++values_ <= kMostValues || stop("has too many values"); }
  bool open() {
    members_.push_back(0);
    return members_.size() <= kMostDepth ? add() : stop("is nested too deep");
  }
  bool close() {
    members_.pop_back();
    return true;
  }

  size_t values_ = 0;
  std::vector<size_t> members_;
};

struct Keyword {
  std::string_view name;
  KeywordKind kind;
};
constexpr Keyword kKeywords[] = {
    {"$ref", KeywordKind::applicator},
    {"allOf", KeywordKind::applicator},
    {"anyOf", KeywordKind::applicator},
    {"oneOf", KeywordKind::applicator},
    {"type", KeywordKind::assertion},
    {"nullable", KeywordKind::assertion},
    {"enum", KeywordKind::assertion},
    {"const", KeywordKind::assertion},
    {"properties", KeywordKind::assertion},
    {"required", KeywordKind::assertion},
    {"additionalProperties", KeywordKind::assertion},
    {"items", KeywordKind::assertion},
    {"prefixItems", KeywordKind::assertion},
    {"minItems", KeywordKind::assertion},
    {"maxItems", KeywordKind::assertion},
    {"minLength", KeywordKind::assertion},
    {"maxLength", KeywordKind::assertion},
    {"pattern", KeywordKind::assertion},
    {"format", KeywordKind::assertion},
    {"minimum", KeywordKind::assertion},
    {"maximum", KeywordKind::assertion},
    {"exclusiveMinimum", KeywordKind::assertion},
    {"exclusiveMaximum", KeywordKind::assertion},
    {"multipleOf", KeywordKind::assertion},
    {"not", KeywordKind::refused},
    {"if", KeywordKind::refused},
    {"then", KeywordKind::refused},
    {"else", KeywordKind::refused},
    {"contains", KeywordKind::refused},
    {"minContains", KeywordKind::refused},
    {"maxContains", KeywordKind::refused},
    {"uniqueItems", KeywordKind::refused},
    {"additionalItems", KeywordKind::refused},
    {"unevaluatedItems", KeywordKind::refused},
    {"unevaluatedProperties", KeywordKind::refused},
    {"patternProperties", KeywordKind::refused},
    {"propertyNames", KeywordKind::refused},
    {"minProperties", KeywordKind::refused},
    {"maxProperties", KeywordKind::refused},
    {"dependencies", KeywordKind::refused},
    {"dependentRequired", KeywordKind::refused},
    {"dependentSchemas", KeywordKind::refused},
    {"$dynamicRef", KeywordKind::refused},
    {"$recursiveRef", KeywordKind::refused},
};

}  // namespace

void fail(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string what) {
  throw Failure{{code, std::move(what), keyword.empty() ? pointer : pointer_to(pointer, keyword), ""}};
}

std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string result = pointer + "/";
  for (char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

Json read_schema(std::string_view text) {
  const auto invalid = [](std::string what) {
    fail(ErrorCode::invalid_argument, "JSON schema", "", std::move(what));
  };
  if (text.size() > kMostBytes)
    invalid(fmt::format("is {} bytes long, {} are taken", text.size(), kMostBytes));
  LimitReader limits;
  if (!Json::sax_parse(text.begin(), text.end(), &limits)) invalid(limits.problem);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

KeywordKind keyword_kind(std::string_view keyword) {
  for (const Keyword& known : kKeywords) {
    if (known.name == keyword) return known.kind;
  }
  return KeywordKind::annotation;
}

void check_keyword(std::string_view keyword, const Json& value, const std::string& pointer) {
  if (keyword_kind(keyword) != KeywordKind::refused) return;
  if (keyword == "uniqueItems" && value == Json(false)) return;
  refuse(pointer, keyword, "is not supported");
}

const Json& Document::resolve(const Json& reference, const std::string& pointer) const {
  if (!reference.is_string()) fail(ErrorCode::invalid_argument, pointer, "$ref", "must be a string");
  std::string_view rest = reference.get_ref<const std::string&>();
  if (rest.empty() || rest[0] != '#' || (rest.size() > 1 && rest[1] != '/')) {
    refuse(pointer, "$ref", fmt::format("{} is not a place in this schema, \"#/$defs/…\"", quote(rest)));
  }
  const Json* at = &root_;
  rest.remove_prefix(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t length = std::min(rest.find('/'), rest.size());
    std::string key;
    for (size_t i = 0; i < length; ++i) {
      unsigned byte = 0;
      const char* digits = rest.data() + i + 1;
      const bool is_percent =
          rest[i] == '%' && i + 2 < length && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
      if (is_percent) {
        key += static_cast<char>(byte);
        i += 2;
      } else if (rest[i] == '~' && i + 1 < length && (rest[i + 1] == '0' || rest[i + 1] == '1')) {
        key += rest[++i] == '0' ? '~' : '/';
      } else {
        key += rest[i];
      }
    }
    rest.remove_prefix(length);
    const Json* next = nullptr;
    if (at->is_object() && at->contains(key)) next = &(*at)[key];
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (at->is_array() && error == std::errc() && end == key.data() + key.size() && index < at->size()) {
      next = &(*at)[index];
    }
    if (next == nullptr) {
      fail(ErrorCode::invalid_argument, pointer, "$ref",
           fmt::format("there is no {}", quote(reference.get_ref<const std::string&>())));
    }
    at = next;
  }
  return *at;
}

const Json& Document::keep(Json schema) {
  std::string content = schema.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto found = kept_by_content_.find(content);
  if (found != kept_by_content_.end()) return *found->second;
  kept_bytes_ += content.size();
  if (kept_bytes_ > kMostKeptBytes) refuse("#", "", "its combinations of schemas come to too much");
  kept_.push_back(std::move(schema));
  return *kept_by_content_.emplace(std::move(content), &kept_.back()).first->second;
}

std::vector<const Json*> Document::alternatives(const Json& schema, const std::string& pointer) {
  std::vector<const Json*> result;
  for (Json& alternative : expand(schema, pointer, 0)) result.push_back(&keep(std::move(alternative)));
  return result;
}

std::vector<Json> Document::expand(const Json& schema, const std::string& pointer, int depth) {
  if (depth > kMostReferences) refuse(pointer, "", "refers to itself, or to what does");
  if (schema.is_boolean())
    return schema.get<bool>() ? std::vector<Json>{Json::object()} : std::vector<Json>{};
  if (!schema.is_object()) fail(ErrorCode::invalid_argument, pointer, "", "must be an object or a boolean");
  Json own = Json::object();
  for (const auto& [key, value] : schema.items()) {
    check_keyword(key, value, pointer);
    if (keyword_kind(key) == KeywordKind::assertion) own[key] = value;
  }
  std::vector<Json> all = {std::move(own)};
  const auto cross = [&](const std::vector<Json>& others) {
    if (all.size() * others.size() > kMostAlternatives)
      refuse(pointer, "", "has too many combinations of schemas");
    std::vector<Json> merged;
    for (const Json& one : all) {
      for (const Json& other : others) {
        Json both = merge(one, other, pointer);
        if (!both.is_boolean()) merged.push_back(std::move(both));
      }
    }
    all = std::move(merged);
  };
  if (schema.contains("$ref")) cross(expand(resolve(schema["$ref"], pointer), pointer, depth + 1));
  const auto parts = [&](const char* key) -> const Json& {
    const Json& list = schema[key];
    if (!list.is_array() || list.empty())
      fail(ErrorCode::invalid_argument, pointer, key, "must be a list of schemas");
    return list;
  };
  if (schema.contains("allOf")) {
    for (const Json& part : parts("allOf")) cross(expand(part, pointer_to(pointer, "allOf"), depth + 1));
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    if (key[0] == 'o') check_one_of(parts(key), pointer);
    std::vector<Json> union_of;
    for (const Json& part : parts(key)) {
      std::vector<Json> some = expand(part, pointer_to(pointer, key), depth + 1);
      std::move(some.begin(), some.end(), std::back_inserter(union_of));
      if (union_of.size() > kMostAlternatives) refuse(pointer, key, "has too many combinations of schemas");
    }
    cross(union_of);
  }
  return all;
}

}  // namespace rafter::text::schema
