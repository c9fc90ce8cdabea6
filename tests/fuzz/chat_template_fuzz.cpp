// A chat template and the variables it is rendered with, both any text, a zero byte between them: an error or
// a text that is the same each time, valid UTF-8, with the input's bytes marked inside it.
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/fuzz/seeds.h"
#include "text/chat_template.h"
#include "text/output_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  const std::string_view source = input.substr(0, zero);
  const std::string_view variables = zero < size ? input.substr(zero + 1) : std::string_view("{}");
  const auto chat = text::ChatTemplate::parse(source, "fuzz");
  if (!chat.ok()) {
    RAFTER_CHECK(!chat.error().what.empty());
    return 0;
  }
  text::RenderOptions options;
  options.limits.steps = 30'000;
  options.limits.live_bytes = size_t{4} << 20;
  options.limits.output_bytes = size_t{1} << 20;
  options.clock = [] { return text::jinja::Now{}; };
  const auto rendered = chat->render_json_marked(variables, options);
  const auto again = chat->render_json_marked(variables, options);
  RAFTER_CHECK(rendered.ok() == again.ok());
  if (!rendered.ok()) {
    RAFTER_CHECK(rendered.error().message() == again.error().message());
    return 0;
  }
  RAFTER_CHECK(base::is_valid_utf8(rendered->text));
  size_t end = 0;
  for (const text::ByteRange& range : rendered->input) {
    RAFTER_CHECK(end <= range.begin && range.begin < range.end && range.end <= rendered->text.size());
    end = range.end;
  }
  const text::OutputFormat format = *text::choose_output_format(source);
  (void)text::output_start(format, rendered->text);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string chatml =
      "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
      "'<|im_end|>\\n' }}"
      "{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% "
      "endfor %}"
      "{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
  const std::string macros =
      "{% macro show(x, deep=true) %}{% if x is mapping %}{% for k, v in x | dictsort %}{{ k }}:{{ show(v) "
      "}}{% endfor %}"
      "{% else %}{{ x }}{% endif %}{% endmacro %}{% set ns = namespace(n=0) %}{% for m in messages[::-1] "
      "%}{% set ns.n = "
      "ns.n + loop.index0 %}{{ show(m) | trim }}{% endfor %}{{ ns.n }}{{ strftime_now('%d %b %Y') }}";
  const std::string conversation =
      R"({"messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name":
      "f", "arguments": {"a": [1, 2.5, null]}}}]}], "add_generation_prompt": true, "bos_token": "<s>"})";
  return {chatml + '\0' + conversation, macros + '\0' + conversation,
          "{{ raise_exception(x) }}" + std::string(1, '\0') + R"({"x": "no"})"};
}
