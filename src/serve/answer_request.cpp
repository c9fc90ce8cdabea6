#include "serve/answer_request.h"

#include <algorithm>

#include "text/call_grammar.h"

namespace rafter::serve {
namespace {

using decode::AnswerForm;

// Tokens of reasoning that an effort stands for, where the template makes nothing of the word itself.
struct EffortBudget {
  const char* effort;
  int64_t tokens;
};
constexpr EffortBudget kEffortBudgets[] = {{"minimal", 512}, {"low", 2048}, {"medium", 8192}};

std::optional<int64_t> reasoning_budget(const Front& front, const Conversation& conversation,
                                        const BuiltPrompt& prompt) {
  // What a template begins although it was told not to is ended at once.
  if (prompt.thinking_off) return 0;
  if (conversation.reasoning_budget) return conversation.reasoning_budget;
  if (front.text().template_source().find("reasoning_effort") == std::string_view::npos) {
    for (const EffortBudget& known : kEffortBudgets) {
      if (conversation.reasoning_effort == known.effort) return known.tokens;
    }
  }
  return front.options().reasoning_budget;
}

base::Status add_calls(const Front& front, const Ask& ask, const Conversation& conversation,
                       AnswerForm& form) {
  const ToolChoice& choice = conversation.tool_choice;
  const Json& functions = conversation.functions;
  const bool are_required =
      choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  if (functions.empty() || choice.kind == ToolChoice::Kind::none) {
    if (!are_required) return {};
    return field_error("tool_choice", "asks for a call, but there are no tools");
  }
  const bool are_strict =
      std::any_of(functions.begin(), functions.end(), [](const Json& f) { return f["strict"] == true; });
  if (!are_required && !are_strict && !ask.json_schema) return {};
  Json callable = functions;
  if (choice.kind == ToolChoice::Kind::named) {
    callable = Json::array();
    for (const Json& function : functions) {
      if (function["name"] == choice.name) callable.push_back(function);
    }
    if (callable.empty()) return field_error("tool_choice", "names a function that is not among the tools");
  }
  if (form.family == "none") {
    if (!are_required) return {};
    return base::Error{base::ErrorCode::unsupported, "this model's calls cannot be forced", "tool_choice",
                       "use auto or none"};
  }
  form.calls = {.tools_json = to_text(callable),
                .are_required = are_required,
                .several = ask.parallel_calls,
                .older = text::uses_older_calls(front.format(), front.text().template_source())};
  return {};
}

}  // namespace

base::Result<std::optional<AnswerForm>> answer_form(const Front& front, const Ask& ask,
                                                    const BuiltPrompt& prompt) {
  AnswerForm form;
  form.json_schema = ask.json_schema;
  const auto* const conversation = std::get_if<Conversation>(&ask.prompt);
  if (conversation == nullptr) {
    if (!form.json_schema) return std::optional<AnswerForm>();
    return std::optional(std::move(form));
  }
  const text::OutputFormat& format = front.format();
  form.family = format.family_name();
  form.reasoning = format.reasoning_name();
  form.begins_in_reasoning = prompt.start != text::OutputStart::content;
  form.may_reason = !prompt.thinking_off;
  RAFTER_TRY(add_calls(front, ask, *conversation, form));
  // A forced call is the whole answer: a format for its text has nothing to hold.
  if (form.calls && form.calls->are_required) form.json_schema.reset();
  if (format.reasoning != nullptr) {
    form.reasoning_budget = reasoning_budget(front, *conversation, prompt);
    RAFTER_ASSIGN(form.reasoning_end, front.text().tokenizer().encode(text::reasoning_ending(format),
                                                                      /*add_special=*/false));
  }
  const bool has_budget = form.reasoning_budget && (form.begins_in_reasoning || form.may_reason);
  if (!form.json_schema && !form.calls && !has_budget) return std::optional<AnswerForm>();
  return std::optional(std::move(form));
}

}  // namespace rafter::serve
