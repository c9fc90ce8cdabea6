#include "serve/prepared_request.h"

#include <algorithm>

#include "serve/answer_request.h"

namespace rafter::serve {
namespace {

template <typename Out, typename In>
void override_with(Out& out, const std::optional<In>& server, const std::optional<In>& request) {
  if (server) out = static_cast<Out>(*server);
  if (request) out = static_cast<Out>(*request);
}

base::Error gone() { return {base::ErrorCode::interrupted, "the client has left", "", ""}; }

base::Status check_length(int64_t tokens, int64_t context) {
  if (context == 0 || tokens <= context) return {};
  return base::Error{base::ErrorCode::out_of_memory,
                     fmt::format("{} prompt tokens, the context limit is {}", tokens, context), "context",
                     "shorten the prompt or raise the context limit"};
}

base::Result<AnswerPlan> plan_of(const Front& front, const Ask& ask, const BuiltPrompt& prompt) {
  AnswerPlan plan;
  plan.stop = ask.stop;
  plan.parallel_calls = ask.parallel_calls;
  const auto* conversation = std::get_if<Conversation>(&ask.prompt);
  if (conversation == nullptr) return plan;
  plan.format = front.format();
  plan.parser.start = prompt.start;
  RAFTER_ASSIGN(plan.parser.tools, text::ToolSchemas::from_json(to_text(conversation->functions)));
  plan.parser.parse_calls =
      !plan.parser.tools.empty() && conversation->tool_choice.kind != ToolChoice::Kind::none;
  plan.parser.delivery = ask.stream ? text::CallDelivery::as_they_come : text::CallDelivery::whole;
  plan.parser.id_seed = std::stoull(random_hex(16), nullptr, 16);
  return plan;
}

// What the model is asked; sets up the collector for what comes back.
base::Status complete(const Front& front, const Ask& ask, BuiltPrompt prompt, PreparedRequest& out) {
  CompletionRequest& request = out.request;
  request.sampling =
      sampling_params(ask.sampling, front.options().sampling, front.text(), prompt.thinking_off);
  request.max_tokens = ask.max_tokens ? ask.max_tokens : front.options().max_tokens;
  request.ignore_end = ask.ignore_end;
  RAFTER_ASSIGN(request.form, answer_form(front, ask, prompt));
  RAFTER_ASSIGN(AnswerPlan plan, plan_of(front, ask, prompt));
  request.boundaries = std::move(prompt.boundaries);
  request.prompt = std::move(prompt.tokens);
  // Where nothing but content can come, the model's side finds stop strings itself, a step earlier.
  if (!plan.format || (plan.format->reasoning == nullptr && !plan.parser.parse_calls))
    request.stop = std::exchange(plan.stop, {});
  if (plan.format) request.kept_markers = text::kept_markers(*plan.format);
  RAFTER_ASSIGN(AnswerCollector collector,
                AnswerCollector::create(std::move(plan), front.text().tokenizer()));
  out.collector.emplace(std::move(collector));
  out.stream = ask.stream;
  return {};
}

// What is done with the answer, and what it thought kept for clients that drop it.
std::function<void(const Answer&)> with_reasoning_kept(const Front& front, Asked& asked) {
  const auto* conversation = std::get_if<Conversation>(&asked.ask.prompt);
  if (conversation == nullptr || !front.shows_reasoning()) return std::move(asked.on_answer);
  return [&front, place = ReasoningStore::place_of(asked.ask.client, conversation->messages),
          then = std::move(asked.on_answer)](const Answer& answer) {
    front.reasoning().put(place, answer);
    if (then) then(answer);
  };
}

}  // namespace

decode::SamplingParams sampling_params(const SamplingFields& request, const SamplingFields& server,
                                       const decode::ModelText& text, bool thinking_off) {
  constexpr float kCoolest =
      0.7f;  // an answer without reasoning in front of it is drawn no hotter by default
  decode::SamplingParams params = text.default_sampling();
  if (thinking_off) params.temperature = std::min(params.temperature, kCoolest);
  override_with(params.temperature, server.temperature, request.temperature);
  override_with(params.top_p, server.top_p, request.top_p);
  override_with(params.min_p, server.min_p, request.min_p);
  override_with(params.top_k, server.top_k, request.top_k);
  override_with(params.xtc_probability, server.xtc_probability, request.xtc_probability);
  override_with(params.xtc_threshold, server.xtc_threshold, request.xtc_threshold);
  override_with(params.repetition.strength, server.repetition_penalty, request.repetition_penalty);
  override_with(params.presence.strength, server.presence_penalty, request.presence_penalty);
  override_with(params.frequency.strength, server.frequency_penalty, request.frequency_penalty);
  override_with(params.repetition.window, server.repetition_window, request.repetition_window);
  override_with(params.presence.window, server.presence_window, request.presence_window);
  override_with(params.frequency.window, server.frequency_window, request.frequency_window);
  if (params.xtc_probability > 0) {
    params.xtc_exempt = text.end_tokens();
    if (const auto newline = text.tokenizer().encode("\n", /*add_special=*/false); newline.ok())
      params.xtc_exempt.insert(params.xtc_exempt.end(), newline->begin(), newline->end());
  }
  params.logit_bias = request.logit_bias;
  params.seed = request.seed;
  params.top_logprobs = request.top_logprobs;
  return params;
}

base::Result<BuiltPrompt> build_prompt(const Front& front, Ask& ask) {
  if (auto* conversation = std::get_if<Conversation>(&ask.prompt)) {
    if (front.shows_reasoning()) front.reasoning().restore(ask.client, conversation->messages);
    return front.prompts().build(*conversation);
  }
  return front.prompts().build(std::get<RawPrompt>(ask.prompt));
}

base::Result<PreparedRequest> prepare_request(const Front& front, const AskReader& reader, std::string body,
                                              int64_t context, const std::function<bool()>& is_gone) {
  if (is_gone()) return gone();
  PreparedRequest prepared;
  Asked asked;
  {
    RAFTER_ASSIGN(const Json json, parse_body(body));
    std::string().swap(body);
    RAFTER_ASSIGN(asked, reader.read(json));
    asked.ask.client = reader.client;
  }
  prepared.at_once = std::move(asked.at_once);
  if (prepared.at_once) return prepared;
  RAFTER_TRY(front.check_model(asked.ask.model));
  if (is_gone()) return gone();
  RAFTER_ASSIGN(BuiltPrompt prompt, build_prompt(front, asked.ask));
  RAFTER_TRY(check_length(static_cast<int64_t>(prompt.tokens.size()), context));
  RAFTER_TRY(complete(front, asked.ask, std::move(prompt), prepared));
  prepared.reply = std::move(asked.reply);
  prepared.on_answer = with_reasoning_kept(front, asked);
  return prepared;
}

}  // namespace rafter::serve
