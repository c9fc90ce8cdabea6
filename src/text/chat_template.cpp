#include "text/chat_template.h"

#include <new>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"

namespace rafter::text {
namespace {

using jinja::Dict;
using jinja::Failure;
using jinja::FailureKind;
using jinja::Kind;
using jinja::Runtime;

base::Error to_error(const Failure& failure, const std::string& where) {
  const std::string place = failure.line > 0 ? fmt::format("{}:{}", where, failure.line) : where;
  if (failure.kind == FailureKind::raised) {
    return {base::ErrorCode::invalid_argument, failure.message, place,
            "the chat template refuses this conversation"};
  }
  std::string hint;
  if (failure.kind == FailureKind::limit)
    hint = "the template is broken or hostile, or the input is far too large";
  return {base::ErrorCode::invalid_data, failure.message, place, hint};
}

// A copy that shares no container, so that a template that changes its inputs changes only its own.
Value deep_copy(const Value& value, Runtime& runtime) {
  if (value.is_sequence()) {
    std::vector<Value> items;
    for (const Value& item : value.as_sequence().items) items.push_back(deep_copy(item, runtime));
    return value.is(Kind::list) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
  }
  if (!value.is(Kind::dict)) return value;
  auto copy = runtime.new_dict();
  for (const Dict::Entry& entry : value.as_dict().entries()) {
    copy->set(entry.key, deep_copy(entry.value, runtime), runtime.meter);
  }
  return runtime.dict(std::move(copy));
}

Value with_trusted_tokens(const Value& variables) {
  std::vector<std::pair<std::string, Value>> entries;
  for (const Dict::Entry& entry : variables.as_dict().entries()) {
    const bool trusted = entry.key.text().ends_with("_token") && entry.value.is_string();
    entries.emplace_back(entry.key.text(),
                         trusted ? Value::string(entry.value.text(), Origin::trusted) : entry.value);
  }
  return Value::dict(entries);
}

}  // namespace

struct ChatTemplate::Compiled {
  jinja::Tree tree;
  std::string where;
};

base::Result<Value> parse_json_value(std::string_view json, Origin origin) {
  return jinja::parse_json(json, origin);
}

base::Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string where) {
  if (!base::is_valid_utf8(source)) {
    return base::Error{base::ErrorCode::invalid_data, "the chat template is not valid UTF-8", where, ""};
  }
  try {
    auto compiled = std::make_shared<Compiled>();
    compiled->where = where;
    compiled->tree = jinja::parse_template(source);
    return ChatTemplate(std::move(compiled));
  } catch (const Failure& failure) {
    return to_error(failure, where);
  }
}

base::Result<Rendered> ChatTemplate::render(const Value& variables, const RenderOptions& options) const {
  const std::string& where = compiled_->where;
  if (!variables.is(Kind::dict)) {
    return base::Error{base::ErrorCode::invalid_argument, "a template's variables must be an object", where,
                       ""};
  }
  if (variables.nesting() > jinja::kMaxNesting) {
    return base::Error{base::ErrorCode::invalid_argument,
                       fmt::format("variables nested more than {} deep", jinja::kMaxNesting), where, ""};
  }
  try {
    Runtime runtime(options.limits, options.clock, options.allow_mutation);
    const Value own = options.allow_mutation ? deep_copy(variables, runtime) : variables;
    jinja::Interpreter interpreter(own.as_dict(), runtime);
    jinja::Text text = interpreter.run(compiled_->tree);
    Rendered rendered;
    rendered.generations = interpreter.generations();
    rendered.input = text.input();
    rendered.text = std::move(text).take_bytes();
    return rendered;
  } catch (const Failure& failure) {
    return to_error(failure, where);
  } catch (const std::bad_alloc&) {
    return base::Error{base::ErrorCode::out_of_memory, "no memory left while rendering", where, ""};
  }
}

base::Result<Rendered> ChatTemplate::render_json_marked(std::string_view variables,
                                                        const RenderOptions& options) const {
  RAFTER_ASSIGN(const Value parsed, jinja::parse_json(variables, Origin::input));
  if (!parsed.is(Kind::dict)) {
    return base::Error{base::ErrorCode::invalid_argument, "a template's variables must be a JSON object",
                       compiled_->where, ""};
  }
  return render(with_trusted_tokens(parsed), options);
}

base::Result<std::string> ChatTemplate::render_json(std::string_view variables,
                                                    const RenderOptions& options) const {
  RAFTER_ASSIGN(Rendered rendered, render_json_marked(variables, options));
  return std::move(rendered.text);
}

}  // namespace rafter::text
