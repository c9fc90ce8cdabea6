// What every protocol asks for, once its JSON was read: a conversation or text to continue, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/proto/fields.h"
#include "serve/proto/json.h"

namespace rafter::serve {

// Sampling as the request has it; what is absent is the server's or the model's.
struct SamplingFields {
  std::optional<double> temperature, top_p, min_p, xtc_probability, xtc_threshold;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k;
  std::optional<int64_t> repetition_window, presence_window, frequency_window;  // tokens; 0: all
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<uint64_t> seed;
  int32_t top_logprobs = -1;  // -1: none
};

struct ToolChoice {
  enum class Kind {
    automatic,
    none,
    required,  // some function
    named,     // this one
  };
  Kind kind = Kind::automatic;
  std::string name = {};
};

struct Conversation {
  Json messages = Json::array();  // in OpenAI's form, normalised (proto/messages.h)
  Json tools = Json::array();     // {"type": "function", "function": {…}}, cleaned for templates
  Json functions =
      Json::array();  // the same as {"name", "parameters", "strict"}, as the client declared them
  ToolChoice tool_choice;
  Json template_variables = Json::object();  // chat_template_kwargs
  std::optional<bool> enable_thinking;
  std::string reasoning_effort;             // empty: not given
  std::optional<int64_t> reasoning_budget;  // tokens
};

// Text or tokens to continue as they are.
struct RawPrompt {
  std::variant<std::string, std::vector<int32_t>> text;
  std::string suffix = {};  // with it: fill in between (infill)
  bool is_infill = false;
};

struct Ask {
  std::variant<Conversation, RawPrompt> prompt;
  SamplingFields sampling;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_end = false;
  bool stream = false;
  bool parallel_calls = true;              // false: the answer ends with its first call
  std::optional<std::string> json_schema;  // the answer is JSON that obeys it
  std::string model;                       // as the client named it; may be empty
  std::string client;                      // whose request it is: the API key it brought; may be empty
};

// The fields that chat, completions, messages and responses share. Errors: invalid_argument.
base::Status read_sampling(const Fields& fields, SamplingFields& out);
// OpenAI's: `stop`, a string or an array of strings; empty ones are dropped.
base::Status read_stop(const Fields& fields, const char* name, std::vector<std::string>& out);
// OpenAI's `response_format`, or the `format` inside responses' `text`: text, json_object, json_schema.
base::Status read_response_format(const Json* format, std::optional<std::string>& out);
// OpenAI's `tools` (also responses' flat form): function definitions only.
base::Status read_tools(const Fields& fields, Conversation& out);
// {"name", "description"?, "parameters"?, "strict"?} as one more tool.
base::Status add_tool(const Json& function, Conversation& out);
base::Status read_tool_choice(const Fields& fields, ToolChoice& out);
// `chat_template_kwargs`, `reasoning_effort`, `enable_thinking`, and budgets by the names that clients use.
base::Status read_template_options(const Fields& fields, Conversation& out);
// "none" … "high" and what else clients send; sets enable_thinking unless it is set.
base::Status apply_effort(const std::string& effort, Conversation& out);

}  // namespace rafter::serve
