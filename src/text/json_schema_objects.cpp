// Objects that a schema takes. Members come in the order of `properties`, those that are not required may be
// left out, and what is additional comes behind them.
#include <algorithm>

#include "text/json_schema_compiler.h"

namespace rafter::text::schema {
namespace {

using base::ErrorCode;

struct Property {
  std::string name;
  const Json* schema;
  std::string pointer;
  bool is_required;
};

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

bool is_word(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// `additional` stands for what `required` names and `properties` does not; null: there is no such member.
std::vector<Property> properties_of(const Json& schema, const Json* additional, const std::string& pointer,
                                    bool& is_impossible) {
  std::vector<Property> result;
  if (const Json* properties = find(schema, "properties")) {
    if (!properties->is_object())
      fail(ErrorCode::invalid_argument, pointer, "properties", "must be an object");
    const std::string inside = pointer_to(pointer, "properties");
    for (const auto& [name, value] : properties->items()) {
      result.push_back({name, &value, pointer_to(inside, name), false});
    }
  }
  const Json* required = find(schema, "required");
  if (required == nullptr) return result;
  if (!required->is_array())
    fail(ErrorCode::invalid_argument, pointer, "required", "must be a list of names");
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < result.size(); ++i) known[result[i].name] = i;
  std::vector<std::string> others;
  for (const Json& name : *required) {
    if (!name.is_string()) fail(ErrorCode::invalid_argument, pointer, "required", "must be a list of names");
    const auto& text = name.get_ref<const std::string&>();
    if (const auto found = known.find(text); found != known.end()) {
      result[found->second].is_required = true;
    } else if (std::find(others.begin(), others.end(), text) == others.end()) {
      others.push_back(text);
    }
  }
  is_impossible = !others.empty() && additional == nullptr;
  for (const std::string& name : others) {
    if (additional != nullptr)
      result.push_back({name, additional, pointer_to(pointer, "additionalProperties"), true});
  }
  return result;
}

}  // namespace

int32_t Compiler::add_name(int32_t from, const std::string& name) {
  if (bare_keys_ && is_word(name)) return grammar.add_text(from, name);
  const StringNotation& notation = characters_.notation();
  if (!notation.is_raw && possible_ == nullptr && is_plain(name))
    return grammar.add_text(from, "\"" + name + "\"");
  const int32_t named = grammar.add_state();
  grammar.add_call(from, one_of({name}, "#"), named);
  return named;
}

// A colon and the value behind it, from a state to another.
void Compiler::add_member_value(int32_t from, const Json& schema, const std::string& pointer, int32_t to) {
  const int32_t colon = grammar.add_state(), value = grammar.add_state();
  grammar.add_edge(from, ':', colon);
  grammar.add_call(colon, white_space(), value);
  grammar.add_call(value, later(schema, pointer), to);
}

// A member of any name but these, from a state to another.
void Compiler::add_other_member(int32_t from, const std::vector<std::string>& names, const Json& schema,
                                const std::string& pointer, int32_t to) {
  const int32_t name = grammar.add_state(), behind = grammar.add_state();
  open_string(name, names.empty() ? free_body(0, ByteGrammar::kUnlimited, pointer)
                                  : string_body(CharacterAutomaton::from_strings(names, true), pointer));
  grammar.add_call(from, name, behind);
  add_member_value(behind, schema, pointer, to);
}

void Compiler::add_object(const Json& schema, const std::string& pointer, int32_t start) {
  const Json& any = document_.keep(Json::object());
  const Json* additional = find(schema, "additionalProperties");
  // Who names properties and does not say that there may be others does not want others.
  const bool is_open = additional == nullptr ? !schema.contains("properties") : *additional != Json(false);
  const Json* wanted = additional == nullptr || *additional == Json(true) ? &any : additional;
  bool is_impossible = false;
  const std::vector<Property> properties = properties_of(
      schema, additional != nullptr && *additional == Json(false) ? nullptr : wanted, pointer, is_impossible);
  if (is_impossible) return;
  const size_t count = properties.size();
  std::vector<int32_t> key(count + 1), behind(count + 1);  // [i]: what comes before property i is decided
  for (size_t i = 0; i <= count; ++i) key[i] = grammar.add_state(), behind[i] = grammar.add_state();
  bool may_close = true;  // none of the properties from i on is required
  for (size_t i = count + 1; i-- > 0;) {
    if (i < count) may_close = may_close && !properties[i].is_required;
    const int32_t comma = grammar.add_state();
    grammar.add_edge(behind[i], ',', comma);
    grammar.add_call(comma, white_space(), key[i]);
    if (may_close) grammar.add_jump(behind[i], closing('}'));
    if (i == count) continue;
    const Property& property = properties[i];
    const int32_t named = add_name(key[i], property.name);
    add_member_value(named, *property.schema, property.pointer, behind[i + 1]);
    if (!property.is_required) grammar.add_jump(key[i], key[i + 1]);
    check_size(pointer);
  }
  if (is_open) {
    std::vector<std::string> names;
    for (const Property& property : properties) names.push_back(property.name);
    add_other_member(key[count], names, *wanted, pointer_to(pointer, "additionalProperties"), behind[count]);
  }
  const int32_t open = grammar.add_state();
  grammar.add_edge(start, '{', open);
  grammar.add_call(open, white_space(), key[0]);
  if (may_close) grammar.add_jump(open, closing('}'));
}

}  // namespace rafter::text::schema
