// Calls that tokens were held to, read by the parser of their family: what a checker of both takes is judged
// by, so that faults can be put there.
#pragma once

#include <functional>
#include <random>

#include "tests/support/output_events.h"
#include "tests/support/schema_cases.h"
#include "tests/support/schema_oracle.h"
#include "text/call_grammar.h"

namespace rafter::text::testing {

struct CallFamily {
  std::string name;
  bool older = false;
};
inline const std::vector<CallFamily>& call_families() {
  static const std::vector<CallFamily> families = {
      {"minicpm5"},      {"qwen3.5"},  {"gemma4"},         {"llama3"}, {"mistral"},
      {"mistral", true}, {"deepseek"}, {"deepseek", true}, {"hermes"}, {"smollm"}};
  return families;
}

// Bytes, some words, the family's markers as special tokens (or spelled out), and <end>.
inline TokenIndex call_index(const OutputFormat& format, bool has_markers) {
  const std::vector<std::string> markers = kept_markers(format);
  std::vector<std::string> words = {"{\"",         "\":",         "\",\"",
                                    "true",        "\"}",         "null",
                                    "[]",          "]}",          "</",
                                    "]]>",         "<![CDATA[",   "parameter>",
                                    "\n</",        "param",       ">\n",
                                    "ab",          "abc",         "日",
                                    "日本",        "12",          "&amp",
                                    "name",        "}}",          "<|",
                                    "\n\n",        "&lt;",        "\n</parameter>\n",
                                    "</param>",    "]]></param>", "<|\"|>",
                                    "</tool_call>"};
  std::erase_if(words, [&](const std::string& word) {
    return std::find(markers.begin(), markers.end(), word) != markers.end();
  });
  const Tokenizer tokenizer =
      decode::byte_tokenizer(words, has_markers ? markers : std::vector<std::string>());
  const int32_t end = tokenizer.vocab_size() - 1;
  return TokenIndex::from(tokenizer, std::span(&end, 1), markers).value();
}

// What a token that the grammar reads adds to the answer's text.
inline std::string text_of_token(const TokenIndex& index, const OutputFormat& format, int32_t id) {
  const std::string_view bytes = index.writes(id);
  if (!bytes.starts_with('\xFF')) return std::string(bytes);
  for (const std::string& marker : kept_markers(format)) {
    if (index.marked(marker) == bytes) return marker;
  }
  return "?";
}

// An answer by a model that knows nothing, with a liking for what ends things.
inline std::optional<std::string> random_calls(const CompiledSchema& schema, const OutputFormat& format,
                                               std::mt19937& random, int most) {
  SchemaState state = schema.start();
  std::string text;
  for (int i = 0; i < most; ++i) {
    const auto mask = schema.mask(state);
    if (!schema.can_continue(state)) return text;
    if (schema.is_complete(state) && random() % 2 == 0) return text;
    std::vector<int32_t> ids = mask->allowed_ids();
    std::erase_if(ids, [&](int32_t id) { return schema.index().is_end(id); });
    if (ids.empty()) return schema.is_complete(state) ? std::optional(text) : std::nullopt;
    int32_t choice = ids[random() % ids.size()];
    for (int tries = 0; tries < i && tries < 400; ++tries) {
      const int32_t id = ids[random() % ids.size()];
      const std::string_view bytes = schema.index().writes(id);
      const bool closes = bytes.find("</") != bytes.npos || bytes.find('>') != bytes.npos;
      if (!closes && std::string_view("\xFF}]\"").find(bytes.front()) == std::string_view::npos) continue;
      choice = id;
      break;
    }
    RAFTER_CHECK(mask->allows(choice) && schema.advance(state, choice));
    text += text_of_token(schema.index(), format, choice);
  }
  return std::nullopt;
}

using CompileCalls =
    std::function<base::Result<Compiled>(const OutputFormat&, const CallLanguage&, const TokenIndex&)>;

struct CallAnswers {
  std::vector<Answer> arguments;  // of every call, with the schema of its function
  std::vector<std::string> faults;
  size_t unfinished = 0;
  std::map<std::string, size_t> finished;  // by family
};

// Random answers of a family to tools, parsed. Faults: text beside the calls, no call, an unknown function.
inline void add_call_answers(const CompileCalls& compile, const CallFamily& family, bool has_markers,
                             const Json& tools, std::mt19937& random, int count, CallAnswers& out) {
  const OutputFormat format = *choose_output_format("", family.name, "none");
  const TokenIndex index = call_index(format, has_markers);
  const std::string tools_json = tools.dump();
  const auto compiled = compile(format, {.tools_json = tools_json, .older = family.older}, index);
  if (!compiled.ok()) {
    out.faults.push_back(family.name + " " + tools_json + ": " + compiled.error().message());
    return;
  }
  OutputParserOptions options;
  options.tools = *ToolSchemas::from_json(tools_json);
  options.delivery = CallDelivery::whole;
  for (int i = 0; i < count; ++i) {
    const auto text = random_calls(**compiled, format, random, 400);
    if (!text) {
      ++out.unfinished;
      continue;
    }
    ++out.finished[family.name];
    const auto events = rafter::testing::parse_cut(format, options, *text, [&] { return 1 + random() % 9; });
    std::string name, arguments;
    size_t calls = 0;
    bool is_good = true;
    for (const OutputEvent& event : events) {
      is_good &= event.kind != OutputEvent::Kind::content && event.kind != OutputEvent::Kind::call_void;
      if (event.kind == OutputEvent::Kind::call_start) name = event.name, arguments.clear();
      if (event.kind == OutputEvent::Kind::call_arguments) arguments += event.text;
      if (event.kind != OutputEvent::Kind::call_end) continue;
      ++calls;
      for (const Json& tool : tools) {
        if (tool["name"] == name) out.arguments.push_back({tool["parameters"].dump(), arguments});
      }
    }
    if (!is_good || calls == 0) out.faults.push_back(family.name + ": " + *text);
  }
}

}  // namespace rafter::text::testing
