// ChatTemplate: a model's chat template (Jinja2 text), compiled once and rendered per request. The render is
// byte for byte what Hugging Face transformers makes of the same template and variables: an immutable
// sandboxed Jinja environment with trim_blocks, lstrip_blocks, loop controls and the `generation` tag.
//
//   RAFTER_ASSIGN(auto chat, ChatTemplate::parse(source, "tokenizer_config.json"));
//   RAFTER_ASSIGN(auto prompt, chat.render_json(R"({"messages": [...], "add_generation_prompt": true})"));
//
// Templates are untrusted: steps, recursion (under 1 MiB of stack), memory and output are bounded; files and
// the process are out of reach. Not supported, as no known chat template uses them: autoescape, the filters
// urlize, wordwrap, pprint and random, scoped and required blocks; there is nothing to include, import or
// extend from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_runtime.h"
#include "text/jinja_value.h"

namespace rafter::text {

using jinja::Origin;
using jinja::Value;

// Parses a request's JSON into a Value: key order kept, integers and floats distinct, nesting bounded.
base::Result<Value> parse_json_value(std::string_view json, Origin origin = Origin::input);

struct RenderOptions {
  jinja::Limits limits;
  jinja::Clock clock = jinja::local_now;  // for strftime_now
  // list.append, dict.update and the like, which the reference forbids and a few templates use all the same.
  bool allow_mutation = false;
};

struct Rendered {
  std::string text;
  // The bytes that came from inputs: control tokens inside them are text and not to be recognised.
  std::vector<ByteRange> input;
  // The bodies of {% generation %} blocks: what the assistant said.
  std::vector<ByteRange> generations;
};

class ChatTemplate {
 public:
  // `where` names the template's origin in errors. invalid_data if it is malformed, or larger than 1 MiB.
  static base::Result<ChatTemplate> parse(std::string_view source, std::string where);

  // `variables` is a dict of all the template's variables (messages, tools, add_generation_prompt, bos_token,
  // …); what is left out is undefined. Errors name the template and its line: invalid_argument when the
  // template itself refuses the input (raise_exception, whose message is `what`), invalid_data for all else.
  base::Result<Rendered> render(const Value& variables, const RenderOptions& options = {}) const;

  // The same, from a JSON object. Strings are input, except top-level ones named *_token.
  base::Result<std::string> render_json(std::string_view variables, const RenderOptions& options = {}) const;
  base::Result<Rendered> render_json_marked(std::string_view variables,
                                            const RenderOptions& options = {}) const;

 private:
  struct Compiled;
  explicit ChatTemplate(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rafter::text
