#include "text/json_schema_compiler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/quote.h"

namespace rafter::text::schema {
namespace {

using base::ErrorCode;

constexpr size_t kMostStates = 400'000;
constexpr int kMostIndentation = 40, kMostLinesInFront = 2;

bool has_type(const std::set<std::string>& types, const char* name) { return types.contains(name); }

// What is meant where no type is given: keywords speak for the type that they restrict.
struct ImpliedType {
  const char* keyword;
  const char* type;
};
constexpr ImpliedType kImpliedTypes[] = {
    {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
    {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
    {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
    {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
    {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"},
    {"multipleOf", "number"},
};
constexpr const char* kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

std::set<std::string> types_of(const Json& schema, const std::string& pointer) {
  std::set<std::string> types;
  if (const auto type = schema.find("type"); type != schema.end()) {
    for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
      const bool is_known =
          name.is_string() && std::find(std::begin(kTypes), std::end(kTypes),
                                        name.get_ref<const std::string&>()) != std::end(kTypes);
      if (!is_known) {
        fail(ErrorCode::invalid_argument, pointer, "type",
             fmt::format("{} is no type", quote(name.dump(-1, ' ', false, Json::error_handler_t::replace))));
      }
      types.insert(name.get<std::string>());
    }
  } else {
    for (const ImpliedType& implied : kImpliedTypes) {
      if (schema.contains(implied.keyword)) types.insert(implied.type);
    }
    if (types.empty()) types.insert(std::begin(kTypes), std::end(kTypes));
  }
  if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == Json(true)) {
    types.insert("null");
  }
  return types;
}

const char* type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::string:
      return "string";
    case Json::value_t::array:
      return "array";
    case Json::value_t::object:
      return "object";
    case Json::value_t::number_float:
      return "number";
    default:
      return "integer";
  }
}

}  // namespace

int32_t count_of(const Json& schema, const char* keyword, int32_t otherwise, int32_t largest,
                 const std::string& pointer) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return otherwise;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0) || value != static_cast<double>(static_cast<uint64_t>(std::min(value, 1e15)))) {
    fail(ErrorCode::invalid_argument, pointer, keyword, "must be a whole number that is not negative");
  }
  if (value > largest) refuse(pointer, keyword, fmt::format("over {} is not supported", largest));
  return static_cast<int32_t>(value);
}

int32_t Compiler::run(const Json& root) {
  const int32_t value = value_of(root, "#");
  int32_t start = -1;
  // Reasoning is parted from what follows it by an empty line.
  for (int lines = 0; lines <= kMostLinesInFront; ++lines) {
    const int32_t line = grammar.add_state();
    grammar.add_call(line, white_space(), value);
    if (start >= 0) grammar.add_edge(line, '\n', start);
    start = line;
  }
  return start;
}

int32_t Compiler::value_of(const Json& schema, const std::string& pointer) {
  const int32_t value = now(schema, pointer);
  while (!tasks_.empty()) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    now(*task.schema, task.pointer);
  }
  return value;
}

void Compiler::check_size(const std::string& pointer) const {
  if (grammar.size() > kMostStates) refuse(pointer, "", "the schema takes too many states");
}

int32_t Compiler::later(const Json& schema, const std::string& pointer) {
  const auto [found, is_new] = places_.try_emplace(&schema, Place{-1});
  if (is_new) {
    found->second.start = grammar.add_state();
    tasks_.push_back({&schema, pointer});
  }
  return found->second.start;
}

int32_t Compiler::now(const Json& schema, const std::string& pointer) {
  const auto [found, is_new] = places_.try_emplace(&schema, Place{-1});
  Place& place = found->second;
  if (is_new) place.start = grammar.add_state();
  if (place.is_under_way) refuse(pointer, "", "refers to itself without a value in between");
  if (place.is_filled) return place.start;
  check_size(pointer);
  place.is_under_way = true;
  fill(schema, pointer, place.start);
  place.is_under_way = false;
  place.is_filled = true;
  return place.start;
}

void Compiler::fill(const Json& schema, const std::string& pointer, int32_t start) {
  if (schema.is_boolean()) {
    if (schema.get<bool>()) grammar.add_jump(start, now(document_.keep(Json::object()), pointer));
    return;
  }
  if (!schema.is_object()) fail(ErrorCode::invalid_argument, pointer, "", "must be an object or a boolean");
  fill_object(schema, pointer, start);
}

// Nothing but references and choices is followed as it stands, so that what is shared and what recurs stays
// so; everything else is written out.
void Compiler::fill_object(const Json& schema, const std::string& pointer, int32_t start) {
  size_t assertions = 0;
  std::vector<std::string> applicators;
  for (const auto& [key, value] : schema.items()) {
    const KeywordKind kind = keyword_kind(key);
    check_keyword(key, value, pointer);
    assertions += kind == KeywordKind::assertion ? 1 : 0;
    if (kind == KeywordKind::applicator) applicators.push_back(key);
  }
  if (applicators.empty()) return fill_plain(schema, pointer, start);
  const std::string& keyword = applicators.front();
  const Json& operand = schema[keyword];
  const bool is_alone = applicators.size() == 1 && assertions == 0;
  if (is_alone && keyword == "$ref") {
    grammar.add_jump(start, now(document_.resolve(operand, pointer), pointer));
  } else if (is_alone && operand.is_array() && !operand.empty() &&
             (keyword != "allOf" || operand.size() == 1)) {
    if (keyword == "oneOf") document_.check_one_of(operand, pointer);
    for (size_t i = 0; i < operand.size(); ++i) {
      grammar.add_jump(start, now(operand[i], pointer_to(pointer_to(pointer, keyword), std::to_string(i))));
    }
  } else {
    for (const Json* alternative : document_.alternatives(schema, pointer)) {
      grammar.add_jump(start, now(*alternative, pointer));
    }
  }
}

void Compiler::fill_plain(const Json& schema, const std::string& pointer, int32_t start) {
  const std::set<std::string> types = types_of(schema, pointer);
  for (const char* keyword : {"enum", "const"}) {
    const auto values = schema.find(keyword);
    if (values == schema.end()) continue;
    for (const auto& [key, value] : schema.items()) {
      const bool is_fine = key == keyword || key == "type" || key == "nullable" ||
                           keyword_kind(key) == KeywordKind::annotation;
      if (!is_fine) refuse(pointer, key, fmt::format("beside {} is not supported", keyword));
    }
    const bool is_list = std::string_view(keyword) == "enum";
    if (is_list && !values->is_array()) fail(ErrorCode::invalid_argument, pointer, keyword, "must be a list");
    return fill_values(is_list ? *values : Json::array({*values}), types, pointer_to(pointer, keyword),
                       start);
  }
  if (has_type(types, "object")) add_object(schema, pointer, start);
  if (has_type(types, "array")) add_array(schema, pointer, start);
  if (has_type(types, "string")) add_string(schema, pointer, start);
  if (has_type(types, "number")) {
    add_numbers(schema, pointer, start);
  } else if (has_type(types, "integer")) {
    add_integers(schema, pointer, start);
  }
  if (has_type(types, "boolean")) add_words(start, {"true", "false"});
  if (has_type(types, "null")) add_words(start, {"null"});
}

void Compiler::fill_values(const Json& values, const std::set<std::string>& types, const std::string& pointer,
                           int32_t start) {
  std::vector<std::string> texts;
  for (const Json& value : values) {
    const std::string type = type_name(value);
    const bool is_whole = value.is_number_float() && value.get<double>() == std::floor(value.get<double>());
    if (!types.contains(type) && !(type == "integer" && types.contains("number")) &&
        !(is_whole && types.contains("integer"))) {
      continue;
    }
    if (value.is_string()) {
      texts.push_back(value.get<std::string>());
    } else {
      add_literal(value, pointer, start);
    }
  }
  if (!texts.empty()) grammar.add_jump(start, one_of(texts, pointer));
}

// Lists and objects as schemas that only they satisfy.
void Compiler::add_literal(const Json& value, const std::string& pointer, int32_t start) {
  if (!value.is_structured()) {
    grammar.set_final(grammar.add_text(start, value.dump()));
    return;
  }
  Json schema = Json::object();
  if (value.is_array()) {
    Json items = Json::array();
    for (const Json& item : value) items.push_back(Json::object({{"const", item}}));
    schema = {
        {"type", "array"}, {"prefixItems", std::move(items)}, {"minItems", value.size()}, {"items", false}};
  } else {
    Json properties = Json::object(), required = Json::array();
    for (const auto& [name, item] : value.items()) {
      properties[name] = Json::object({{"const", item}});
      required.push_back(name);
    }
    schema["type"] = "object";
    schema["properties"] = std::move(properties);
    schema["required"] = std::move(required);
    schema["additionalProperties"] = false;
  }
  grammar.add_jump(start, now(document_.keep(std::move(schema)), pointer));
}

void Compiler::add_words(int32_t start, std::initializer_list<const char*> words) {
  for (const char* word : words) grammar.set_final(grammar.add_text(start, word));
}

// Nothing, one space, or a new line with its indentation: enough for every usual layout, and nothing that a
// model could repeat for ever.
int32_t Compiler::white_space() {
  if (white_space_ >= 0) return white_space_;
  white_space_ = grammar.add_state();
  const int32_t line = grammar.add_state(), end = grammar.add_state();
  for (const int32_t state : {white_space_, line, end}) grammar.set_final(state);
  grammar.add_edge(white_space_, ' ', end);
  grammar.add_edge(white_space_, '\n', line);
  for (const char indentation : {' ', '\t'}) {
    int32_t at = line;
    for (int i = 0; i < kMostIndentation; ++i) {
      const int32_t next = grammar.add_state();
      grammar.add_edge(at, indentation, next);
      grammar.set_final(next);
      at = next;
    }
  }
  return white_space_;
}

int32_t Compiler::closing(char bracket) {
  const auto [found, is_new] = closings_.try_emplace(bracket, -1);
  if (is_new) {
    const int32_t start = grammar.add_state(), behind_space = grammar.add_state();
    grammar.add_call(start, white_space(), behind_space);
    const int32_t end = grammar.add_state();
    grammar.add_edge(behind_space, bracket, end);
    grammar.set_final(end);
    found->second = start;
  }
  return found->second;
}

}  // namespace rafter::text::schema
