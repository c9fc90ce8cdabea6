#include "text/call_grammar.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/call_arguments.h"
#include "text/output_family.h"
#include "text/quote.h"

namespace rafter::text {
namespace {

using base::ErrorCode;
using output::Family;
using schema::Json;

struct Function {
  std::string name;
  Json parameters;
  bool is_strict;
};

bool is_plain_name(std::string_view name) {
  constexpr size_t kLongest = 256;
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::vector<Function> functions_of(const std::string& tools_json) {
  const Json tools = schema::read_schema(tools_json);
  if (!tools.is_array() || tools.empty())
    schema::fail(ErrorCode::invalid_argument, "tools", "", "must be a list of functions");
  std::vector<Function> functions;
  for (const Json& tool : tools) {
    const Json& inner = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!inner.is_object() || !inner.contains("name") || !inner["name"].is_string()) continue;
    Function function{inner["name"], Json::object(), inner.value("strict", Json(false)) == Json(true)};
    for (const char* key : {"parameters", "input_schema"}) {
      if (inner.contains(key) && !inner[key].is_null()) function.parameters = inner[key];
    }
    if (!is_plain_name(function.name))
      schema::refuse("tools", "", "a call of " + quote(function.name) + " cannot be forced");
    functions.push_back(std::move(function));
  }
  return functions;
}

// The strings in which no ampersand begins an entity: behind one and letters comes no semicolon.
CharacterAutomaton without_entities() {
  auto result = CharacterAutomaton::from_pattern(
      "^(?:[^&]|&+[^&;#0-9A-Za-z]|&+;|(?:&+[#0-9A-Za-z]+)+[^&;#0-9A-Za-z])*"
      "(?:&|[#0-9A-Za-z])*$");
  RAFTER_CHECK(result.ok(), "{}", result.error().what);
  return std::move(*result);
}

std::shared_ptr<const CharacterAutomaton> shared(CharacterAutomaton automaton) {
  return std::make_shared<const CharacterAutomaton>(std::move(automaton));
}

class Writer {
 public:
  Writer(const OutputFormat& format, const CallLanguage& language, const TokenIndex& index)
      : family_(*format.family),
        language_(language),
        index_(index),
        functions_(functions_of(language.tools_json)) {}

  // Groups of calls with their openers, or the rest of one.
  int32_t run() {
    const int32_t start = grammar.add_state(), end = grammar.add_state();
    grammar.set_final(end);
    if (&family_ == &output::kLlama3) {
      add_list(space(start), end, "; ",
               [&](auto& f, int32_t from, int32_t to) { add_object(f, "parameters", from, to); });
      return start;
    }
    if (family_.openers.empty()) schema::refuse("tools", "", "this model has no markup for calls");
    if (language_.behind_opener) {
      add_group(start, end);
      return start;
    }
    const int32_t behind = grammar.add_state();
    const int32_t open = space(start);
    add_group(text(open, family_.openers.front().text), behind);
    grammar.add_jump(behind, end);
    const bool is_listed =
        &family_ == &output::kDeepSeek || (&family_ == &output::kMistral && language_.older);
    if (language_.several && !is_listed) grammar.add_jump(line(behind), open);
    return start;
  }

  ByteGrammar grammar;

 private:
  int32_t text(int32_t from, std::string_view bytes) { return grammar.add_text(from, index_.marked(bytes)); }
  void text(int32_t from, std::string_view bytes, int32_t to) { grammar.add_jump(text(from, bytes), to); }

  // A line break, or none.
  int32_t line(int32_t from) {
    const int32_t behind = grammar.add_state();
    grammar.add_edge(from, '\n', behind);
    grammar.add_jump(from, behind);
    return behind;
  }
  // In front of an answer: what parts it from reasoning.
  int32_t space(int32_t from) { return line(line(from)); }

  // One call, or several with `separator` between them.
  template <typename AddCall>
  void add_list(int32_t from, int32_t to, std::string_view separator, const AddCall& add_call) {
    const int32_t call = grammar.add_state(), behind = grammar.add_state();
    grammar.add_jump(from, call);
    for (const Function& function : functions_) add_call(function, call, behind);
    grammar.add_jump(behind, to);
    if (language_.several) text(behind, separator, call);
  }

  // From behind the opener to the group's end.
  void add_group(int32_t from, int32_t to) {
    if (&family_ == &output::kQwen35) {
      for (const Function& f : functions_) add_qwen(f, line(from), to);
    } else if (&family_ == &output::kMiniCpm5) {
      for (const Function& f : functions_) add_minicpm(f, from, to);
    } else if (&family_ == &output::kGemma4) {
      for (const Function& f : functions_) add_gemma(f, from, to);
    } else if (&family_ == &output::kMistral) {
      add_mistral(from, to);
    } else if (&family_ == &output::kDeepSeek) {
      const int32_t behind = grammar.add_state();
      add_list(from, behind, "", [&](auto& f, int32_t begin, int32_t end) { add_deepseek(f, begin, end); });
      text(behind, "<｜tool▁calls▁end｜>", to);
    } else {
      const int32_t behind = grammar.add_state();
      for (const Function& f : functions_) add_object(f, "arguments", line(from), behind);
      text(line(behind), "</tool_call>", to);
    }
  }

  // {"name": "NAME", "KEY": {…}}
  void add_object(const Function& function, std::string_view key, int32_t from, int32_t to) {
    const int32_t open = text(from, fmt::format("{{\"name\": \"{}\", \"{}\": ", function.name, key));
    text(add_json(function, open), "}", to);
  }

  void add_mistral(int32_t from, int32_t to) {
    if (language_.older) {
      const int32_t behind = grammar.add_state();
      add_list(text(from, "["), behind, ", ",
               [&](auto& f, int32_t begin, int32_t end) { add_object(f, "arguments", begin, end); });
      return text(behind, "]", to);
    }
    for (const Function& f : functions_) grammar.add_jump(add_json(f, text(from, f.name + "[ARGS]")), to);
  }

  void add_deepseek(const Function& function, int32_t from, int32_t to) {
    const int32_t open = text(from, "<｜tool▁call▁begin｜>");
    if (!language_.older)
      return text(add_json(function, text(open, function.name + "<｜tool▁sep｜>")), "<｜tool▁call▁end｜>",
                  to);
    const int32_t named = text(open, "function<｜tool▁sep｜>" + function.name + "\n```json\n");
    text(add_json(function, named), "\n```<｜tool▁call▁end｜>", to);
  }

  void add_gemma(const Function& function, int32_t from, int32_t to) {
    const std::string mark = index_.marked("<|\"|>");
    const schema::Notation notation{.strings = {.open = mark, .close = mark, .is_raw = true},
                                    .bare_keys = true,
                                    .possible = shared(CharacterAutomaton::without("<|\"|>"))};
    text(add_values(function, notation, text(from, "call:" + function.name)), "<tool_call|>", to);
  }

  void add_qwen(const Function& function, int32_t from, int32_t to) {
    constexpr std::string_view kEnd = "</parameter>";
    const auto possible = shared(CharacterAutomaton::without(kEnd));
    const std::string close = index_.marked("\n</parameter>\n");
    const schema::MemberMarkup markup{
        .before_name = index_.marked("<parameter="),
        .behind_name = ">",
        .texts = {{.strings = {.open = "\n", .close = close, .is_raw = true}, .possible = possible}},
        .json = {.possible = possible},
        .json_open = "\n",
        .json_close = close,
        .no_names = "<>\n"};
    const int32_t named = text(from, fmt::format("<function={}>\n", function.name));
    text(add_members(function, markup, named), "</function>\n</tool_call>", to);
  }

  void add_minicpm(const Function& function, int32_t from, int32_t to) {
    // Ends are trimmed, and what looks like markup stands in a section.
    auto plain = CharacterAutomaton::from_pattern("^(?:[^<&\\s](?:[^<&]*[^<&\\s])?)?$");
    auto nested = CharacterAutomaton::without("</param>").intersect(without_entities());
    RAFTER_CHECK(plain.ok() && nested.ok());
    const std::string close = index_.marked("</param>");
    const schema::MemberMarkup markup{
        .before_name = index_.marked("<param name=\""),
        .behind_name = "\"",
        .texts = {{.strings = {.open = ">", .close = close, .is_raw = true},
                   .possible = shared(std::move(*plain))},
                  {.strings = {.open = "><![CDATA[", .close = "]]>" + close, .is_raw = true},
                   .possible = shared(CharacterAutomaton::without("]]>"))}},
        .json = {.possible = shared(std::move(*nested))},
        .json_open = ">",
        .json_close = close,
        .no_names = "\"<>\n"};
    text(add_members(function, markup, text(from, function.name + "\">")), "</function>", to);
  }

  // Arguments as JSON; returns the state behind them.
  int32_t add_json(const Function& function, int32_t from) { return add_values(function, {}, from); }

  int32_t add_values(const Function& function, const schema::Notation& notation, int32_t from) {
    const int32_t behind = grammar.add_state();
    held_or_any(function, [&](schema::Document& document) {
      schema::Compiler compiler(document, notation);
      const int32_t value = compiler.value_of(schema::object_schema(document), "#");
      check(compiler.grammar.trim(value));
      const int32_t offset = grammar.append(compiler.grammar);
      grammar.add_call(from, value + offset, behind);
    });
    return behind;
  }

  int32_t add_members(const Function& function, const schema::MemberMarkup& markup, int32_t from) {
    const int32_t behind = grammar.add_state();
    held_or_any(function, [&](schema::Document& document) {
      const Json tools = Json::array({Json{{"name", function.name}, {"parameters", document.root()}}});
      const auto declared = ToolSchemas::from_json(tools.dump());
      if (!declared.ok()) schema::fail(declared.error().code, "#", "", declared.error().what);
      ByteGrammar members;
      const int32_t begin = members.add_state(), end = members.add_state();
      members.set_final(end);
      schema::ArgumentWriter(members, document, *declared->find(function.name), markup).write(begin, end);
      check(members.trim(begin));
      const int32_t offset = grammar.append(members);
      grammar.add_call(from, begin + offset, behind);
    });
    return behind;
  }

  static void check(bool is_possible) {
    if (!is_possible) schema::fail(ErrorCode::invalid_argument, "#", "", "no value satisfies it");
  }

  // Writes what a function's schema takes; any object for one that cannot be held and need not be.
  template <typename Write>
  void held_or_any(const Function& function, const Write& write) {
    try {
      schema::Document document(function.parameters);
      return write(document);
    } catch (const schema::Failure& failure) {
      if (function.is_strict) {
        base::Error error = failure.error;
        error.where = "tools: " + function.name + ": " + error.where;
        throw schema::Failure{std::move(error)};
      }
    }
    schema::Document document(Json{{"type", "object"}});
    write(document);
  }

  const Family& family_;
  const CallLanguage& language_;
  const TokenIndex& index_;
  const std::vector<Function> functions_;
};

}  // namespace

base::Result<std::shared_ptr<const CompiledSchema>> compile_calls(const OutputFormat& format,
                                                                  const CallLanguage& language,
                                                                  const TokenIndex& index) {
  try {
    Writer writer(format, language, index);
    const int32_t start = writer.run();
    if (!writer.grammar.trim(start))
      return base::Error{ErrorCode::invalid_argument, "no call satisfies them", "tools", ""};
    return std::shared_ptr<const CompiledSchema>(
        std::make_shared<CompiledSchema>(std::move(writer.grammar), start, index));
  } catch (const schema::Failure& failure) {
    return failure.error;
  }
}

bool uses_older_calls(const OutputFormat& format, std::string_view template_source) {
  if (format.family == &output::kMistral) return !output::contains(template_source, "[ARGS]");
  return format.family == &output::kDeepSeek && output::contains(template_source, "```json");
}

std::vector<CallOpener> call_openers(const OutputFormat& format) {
  std::vector<CallOpener> openers;
  for (const output::Opener& opener : format.family->openers)
    openers.push_back({std::string(opener.text), false});
  if (format.family->read_bare != nullptr) openers.push_back({"{", true});
  return openers;
}

}  // namespace rafter::text
