#include "text/call_arguments.h"

#include <algorithm>

namespace rafter::text::schema {
namespace {

// Texts that are no JSON but, perhaps, a string: of a union that takes strings and other values, such a text
// is a string for certain.
constexpr const char* kNoJson = "^(?:[^-0-9{\\[tfn\"\\s][\\s\\S]*)?$";

bool takes_strings(const Json& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return true;
  return type->is_array() ? std::find(type->begin(), type->end(), "string") != type->end()
                          : *type == Json("string");
}

// The values of a plain schema (without applicators) that are strings, or those that are none; null: there
// are none such.
Json part_of(const Json& schema, bool strings) {
  Json part = schema;
  for (const char* keyword : {"enum", "const"}) {
    const auto values = schema.find(keyword);
    if (values == schema.end()) continue;
    Json some = Json::array();
    for (const Json& value : values->is_array() && *keyword == 'e' ? *values : Json::array({*values})) {
      if (value.is_string() == strings) some.push_back(value);
    }
    if (some.empty()) return nullptr;
    part.erase(keyword);
    part["enum"] = std::move(some);
  }
  if (strings) {
    if (!takes_strings(schema)) return nullptr;
    part["type"] = "string";
    part.erase("nullable");
    return part;
  }
  Json types = Json::array();
  const auto type = schema.find("type");
  if (type == schema.end()) {
    types = {"object", "array", "number", "boolean", "null"};
  } else {
    for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
      if (name != "string") types.push_back(name);
    }
  }
  if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == Json(true))
    types.push_back("null");
  if (types.empty()) return nullptr;
  part["type"] = std::move(types);
  part.erase("nullable");
  return part;
}

}  // namespace

const Json& object_schema(Document& document) {
  const Json& root = document.root();
  if (root.is_object() && root.contains("type") && root["type"] == Json("object")) return root;
  if (!root.is_object() || root.empty()) return document.keep({{"type", "object"}});
  return document.keep({{"allOf", Json::array({root, Json{{"type", "object"}}})}});
}

void ArgumentWriter::write(int32_t from, int32_t to) {
  const Json& root = object_schema(document_);
  for (const Json* alternative : document_.alternatives(root, "#")) {
    const int32_t start = grammar_.add_state();
    grammar_.add_jump(from, start);
    write_object(*alternative, "#", start, to);
  }
  for (auto& [name, part] : parts_) {
    const int32_t offset = grammar_.append(part.compiler->grammar);
    for (const Part::Use& use : part.uses) grammar_.add_call(use.from, use.start + offset, use.to);
  }
}

// As the compiler writes objects: members in the order of `properties`, additional ones behind them.
void ArgumentWriter::write_object(const Json& schema, const std::string& pointer, int32_t from, int32_t to) {
  for (const auto& [key, value] : schema.items()) check_keyword(key, value, pointer);
  std::vector<std::string> names;
  const Json none = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : none;
  if (!properties.is_object())
    fail(base::ErrorCode::invalid_argument, pointer, "properties", "must be an object");
  const Json wanted = schema.value("required", Json::array());
  if (!wanted.is_array()) fail(base::ErrorCode::invalid_argument, pointer, "required", "must be a list");
  for (const Json& name : wanted) {
    if (name.is_string() && !properties.contains(name.get_ref<const std::string&>()))
      refuse(pointer, "required", "of what properties does not name is not supported here");
  }
  int32_t at = from;
  for (const auto& [name, property] : properties.items()) {
    const int32_t next = grammar_.add_state();
    write_member(name, property, pointer_to(pointer_to(pointer, "properties"), name), at, next);
    if (std::find(wanted.begin(), wanted.end(), Json(name)) == wanted.end()) grammar_.add_jump(at, next);
    names.push_back(name);
    at = next;
  }
  const auto additional = schema.find("additionalProperties");
  const bool is_open =
      additional == schema.end() ? !schema.contains("properties") : *additional != Json(false);
  if (is_open) {
    const int32_t others = grammar_.add_state();  // a loop of its own
    grammar_.add_jump(at, others);
    write_others(additional == schema.end() ? document_.keep(Json(true)) : *additional, names, pointer,
                 others);
    at = others;
  }
  grammar_.add_jump(at, to);
}

void ArgumentWriter::write_member(const std::string& name, const Json& schema, const std::string& pointer,
                                  int32_t from, int32_t to) {
  constexpr size_t kLongestName = 256;
  if (name.empty() || name.size() > kLongestName || name.find_first_of(markup_.no_names) != name.npos)
    refuse(pointer, "", "this model's calls cannot write such a name");
  const int32_t named = grammar_.add_text(
      grammar_.add_text(grammar_.add_text(from, markup_.before_name), name), markup_.behind_name);
  write_value(schema, declared_.property(name).types, pointer, named, to);
}

void ArgumentWriter::write_others(const Json& schema, const std::vector<std::string>& names,
                                  const std::string& pointer, int32_t at) {
  auto words = CharacterAutomaton::from_pattern("^[A-Za-z0-9_]{1,64}$");
  auto others = words.ok() && !names.empty()
                    ? words->intersect(CharacterAutomaton::from_strings(names, /*is_complement=*/true))
                    : std::move(words);
  if (!others.ok()) refuse(pointer, "additionalProperties", others.error().what);
  JsonCharacters characters(grammar_,
                            {.open = markup_.before_name, .close = markup_.behind_name, .is_raw = true});
  const int32_t name = grammar_.add_text(at, markup_.before_name);
  const int32_t named = grammar_.add_state();
  grammar_.add_call(name, others->write(grammar_, characters), named);
  const std::string inside = pointer_to(pointer, "additionalProperties");
  if (schema == Json(true)) {
    // Whatever it says is JSON or a string.
    write_text(document_.keep({{"type", "string"}}), kStringType, inside, named, at);
  } else {
    write_json(schema, inside, named, at);
  }
}

void ArgumentWriter::write_value(const Json& schema, JsonTypes declared, const std::string& pointer,
                                 int32_t from, int32_t to) {
  if ((declared & kStringType) == 0 || !schema.is_object()) return write_json(schema, pointer, from, to);
  for (const Json* alternative : document_.alternatives(schema, pointer)) {
    for (const auto& [key, value] : alternative->items()) check_keyword(key, value, pointer);
    if (Json strings = part_of(*alternative, /*strings=*/true); !strings.is_null())
      write_text(document_.keep(std::move(strings)), declared, pointer, from, to);
    if (Json others = part_of(*alternative, /*strings=*/false); !others.is_null())
      write_json(document_.keep(std::move(others)), pointer, from, to);
  }
}

void ArgumentWriter::write_text(const Json& schema, JsonTypes declared, const std::string& pointer,
                                int32_t from, int32_t to) {
  const bool is_certain = (declared & ~kNullType) == kStringType;
  for (size_t i = 0; i < markup_.texts.size(); ++i) {
    Notation notation = markup_.texts[i];
    if (!is_certain) {
      const auto no_json = CharacterAutomaton::from_pattern(kNoJson);
      auto both = no_json.ok() ? notation.possible->intersect(*no_json) : no_json;
      if (!both.ok()) refuse(pointer, "", both.error().what);
      notation.possible = std::make_shared<const CharacterAutomaton>(std::move(*both));
    }
    use((is_certain ? "text " : "no json ") + std::to_string(i), notation, schema, pointer, from, to);
  }
}

void ArgumentWriter::write_json(const Json& schema, const std::string& pointer, int32_t from, int32_t to) {
  const int32_t behind = grammar_.add_state();
  use("json", markup_.json, schema, pointer, grammar_.add_text(from, markup_.json_open), behind);
  grammar_.add_jump(grammar_.add_text(behind, markup_.json_close), to);
}

void ArgumentWriter::use(const std::string& name, const Notation& notation, const Json& schema,
                         const std::string& pointer, int32_t from, int32_t to) {
  Part& part = parts_[name];
  if (part.compiler == nullptr) part.compiler = std::make_unique<Compiler>(document_, notation);
  part.uses.push_back({from, part.compiler->value_of(schema, pointer), to});
}

}  // namespace rafter::text::schema
