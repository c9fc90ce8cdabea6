#include "serve/proto/ask.h"

#include <charconv>
#include <cmath>

#include "serve/proto/messages.h"

namespace rafter::serve {
namespace {

constexpr double kAnyLarge = 1e9;
constexpr int64_t kLongestWindow = 1 << 24;
constexpr size_t kMostStops = 64, kLongestStop = 4096, kMostBiases = 65536, kMostVariables = 1024;

base::Status read_logit_bias(const Fields& fields, SamplingFields& out) {
  const base::Error malformed = field_error("logit_bias", "must be a dict of int to float: {\"198\": -5}");
  const Json* object = fields.find("logit_bias");
  if (object == nullptr || (object->is_array() && object->empty())) return {};
  if (!object->is_object() || object->size() > kMostBiases) return malformed;
  for (const auto& [key, value] : object->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) return malformed;
    if (!value.is_number() || !(std::abs(value.get<double>()) <= kAnyLarge)) return malformed;
    out.logit_bias.emplace_back(id, static_cast<float>(value.get<double>()));
  }
  return {};
}

base::Status read_logprobs(const Fields& fields, SamplingFields& out) {
  constexpr int64_t kMost = 20;
  bool wanted = false;
  RAFTER_TRY(fields.read("logprobs", wanted));
  std::optional<int64_t> best;
  RAFTER_TRY(fields.read("top_logprobs", best, 0, kMost));
  if (wanted) out.top_logprobs = static_cast<int32_t>(best.value_or(0));
  if (!wanted && best.value_or(0) > 0) return field_error("top_logprobs", "needs logprobs to be true");
  return {};
}

base::Status read_seed(const Fields& fields, SamplingFields& out) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return {};
  if (seed->is_number_unsigned()) {
    out.seed = seed->get<uint64_t>();
    return {};
  }
  const auto number = integer_of(*seed);
  if (!number) return field_error("seed", "must be of type int");
  if (*number == -1) return {};  // "a random one", as some clients have it
  out.seed = static_cast<uint64_t>(*number);
  return {};
}

}  // namespace

base::Status read_sampling(const Fields& fields, SamplingFields& out) {
  constexpr double kHottest = 1e6, kMostPenalty = 1e6, kMostXtcThreshold = 0.5;
  RAFTER_TRY(fields.read("temperature", out.temperature, 0, kHottest));
  RAFTER_TRY(fields.read("top_p", out.top_p, 0, 1));
  RAFTER_TRY(fields.read("min_p", out.min_p, 0, 1));
  RAFTER_TRY(fields.read("top_k", out.top_k, -1, std::numeric_limits<int32_t>::max()));
  if (out.top_k == -1) out.top_k = 0;  // "off", as some clients have it
  RAFTER_TRY(fields.read("xtc_probability", out.xtc_probability, 0, 1));
  RAFTER_TRY(fields.read("xtc_threshold", out.xtc_threshold, 0, kMostXtcThreshold));
  RAFTER_TRY(fields.read("repetition_penalty", out.repetition_penalty, 0, kMostPenalty));
  RAFTER_TRY(fields.read("presence_penalty", out.presence_penalty, -kMostPenalty, kMostPenalty));
  RAFTER_TRY(fields.read("frequency_penalty", out.frequency_penalty, -kMostPenalty, kMostPenalty));
  RAFTER_TRY(fields.read("repetition_context_size", out.repetition_window, 0, kLongestWindow));
  RAFTER_TRY(fields.read("presence_context_size", out.presence_window, 0, kLongestWindow));
  RAFTER_TRY(fields.read("frequency_context_size", out.frequency_window, 0, kLongestWindow));
  RAFTER_TRY(read_logit_bias(fields, out));
  RAFTER_TRY(read_seed(fields, out));
  return read_logprobs(fields, out);
}

base::Status read_stop(const Fields& fields, const char* name, std::vector<std::string>& out) {
  const Json* stop = fields.find(name);
  if (stop == nullptr) return {};
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array()) return field_error(name, "must be a string or an array of strings");
  if (list.size() > kMostStops) return field_error(name, "must have at most 64 elements");
  for (const Json& text : list) {
    if (!text.is_string()) return field_error(name, "must be a string or an array of strings");
    if (text.get_ref<const std::string&>().size() > kLongestStop)
      return field_error(name, "must hold strings of at most 4096 bytes");
    if (!text.get_ref<const std::string&>().empty()) out.push_back(text.get<std::string>());
  }
  return {};
}

base::Status read_response_format(const Json* format, std::optional<std::string>& out) {
  if (format == nullptr) return {};
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (!format->is_object() || type == format->end() || !type->is_string())
    return field_error("response_format", "must be an object with a type");
  if (*type == "text") return {};
  if (*type == "json_object") {
    out = "{\"type\":\"object\"}";
    return {};
  }
  if (*type != "json_schema")
    return field_error("response_format", "must be of type text, json_object or json_schema");
  // Chat nests it one deeper than responses does.
  const auto nested = format->find("json_schema");
  const Json& holder = nested != format->end() && nested->is_object() ? *nested : *format;
  const auto schema = holder.find("schema");
  if (schema == holder.end() || !(schema->is_object() || schema->is_boolean()))
    return field_error("response_format", "of type json_schema must have a schema");
  out = to_text(*schema);
  return {};
}

base::Status add_tool(const Json& function, Conversation& out) {
  RAFTER_ASSIGN(Json clean, clean_function(function));
  Json declared = {{"name", clean["name"]}, {"parameters", Json::object()}, {"strict", false}};
  for (const char* key : {"parameters", "strict"}) {
    const auto found = function.find(key);
    if (found != function.end() && !found->is_null()) declared[key] = *found;
  }
  out.functions.push_back(std::move(declared));
  out.tools.push_back({{"type", "function"}, {"function", std::move(clean)}});
  return {};
}

base::Status read_tools(const Fields& fields, Conversation& out) {
  const Json* tools = nullptr;
  RAFTER_TRY(fields.read_array("tools", tools));
  if (tools == nullptr) return {};
  for (const Json& tool : *tools) {
    if (!tool.is_object()) return field_error("tools", "must be an array of objects");
    const auto type = tool.find("type");
    if (type != tool.end() && *type != "function") continue;  // what other servers run themselves
    const auto nested = tool.find("function");
    const Json& function = nested != tool.end() ? *nested : tool;  // responses: flat
    RAFTER_TRY(add_tool(function, out));
  }
  return {};
}

base::Status read_tool_choice(const Fields& fields, ToolChoice& out) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return {};
  const base::Error malformed =
      field_error("tool_choice", "must be none, auto, required or the name of a function");
  if (choice->is_string()) {
    const auto& text = choice->get_ref<const std::string&>();
    if (text == "none") {
      out.kind = ToolChoice::Kind::none;
    } else if (text == "required" || text == "any") {
      out.kind = ToolChoice::Kind::required;
    } else if (text != "auto") {
      return malformed;
    }
    return {};
  }
  if (!choice->is_object()) return malformed;
  const auto nested = choice->find("function");
  const Json& holder = nested != choice->end() && nested->is_object() ? *nested : *choice;
  const auto name = holder.find("name");
  if (name == holder.end() || !name->is_string()) return malformed;
  out = {ToolChoice::Kind::named, name->get<std::string>()};
  return {};
}

base::Status apply_effort(const std::string& effort, Conversation& out) {
  if (effort.size() > 32)
    return field_error("reasoning_effort", "must be none, minimal, low, medium or high");
  out.reasoning_effort = effort;
  if (!effort.empty() && !out.enable_thinking) out.enable_thinking = effort != "none";
  return {};
}

base::Status read_template_options(const Fields& fields, Conversation& out) {
  const Json* variables = nullptr;
  RAFTER_TRY(fields.read_object("chat_template_kwargs", variables));
  if (variables != nullptr) {
    if (variables->size() > kMostVariables)
      return field_error("chat_template_kwargs", "must have at most 1024 members");
    out.template_variables = *variables;
    RAFTER_TRY(Fields(*variables).read("enable_thinking", out.enable_thinking));
  }
  std::optional<bool> thinking;
  RAFTER_TRY(fields.read("enable_thinking", thinking));
  if (!out.enable_thinking) out.enable_thinking = thinking;
  // llama.cpp has −1 for "without limit".
  constexpr int64_t kMostBudget = 1 << 30;
  for (const char* name : {"reasoning_budget", "thinking_budget_tokens", "thinking_budget"}) {
    std::optional<int64_t> budget;
    RAFTER_TRY(fields.read(name, budget, -1, kMostBudget));
    if (budget && *budget >= 0) out.reasoning_budget = budget;
  }
  std::string effort;
  RAFTER_TRY(fields.read("reasoning_effort", effort));
  return apply_effort(effort, out);
}

}  // namespace rafter::serve
