// llama.cpp's routes, and the tokenizer's.
#include <charconv>

#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/openapi.h"
#include "serve/proto/llama_cpp.h"
#include "serve/proto/messages.h"

namespace rafter::serve::handlers {
namespace {

void ask_model(Front& front, RoutedRequest request, Exchange exchange,
               base::Result<Ask> (*parse)(const Json&)) {
  const auto read = [parse](const Json& body) -> base::Result<Asked> {
    RAFTER_ASSIGN(Ask ask, parse(body));
    return Asked{std::move(ask), llama_reply()};
  };
  start_generation(front, std::move(request.http.body), std::move(exchange), {read, openai_error});
}

struct TokenizeAsk {
  std::string content;
  std::optional<Conversation> conversation;  // instead: what a chat would begin with
  bool add_special = false, parse_special = true, with_pieces = false;
};

base::Result<TokenizeAsk> parse_tokenize(const std::string& text) {
  RAFTER_ASSIGN(const Json body, parse_body(text));
  const Fields fields(body);
  TokenizeAsk ask;
  RAFTER_TRY(fields.read("add_special", ask.add_special));
  RAFTER_TRY(fields.read("parse_special", ask.parse_special));
  RAFTER_TRY(fields.read("with_pieces", ask.with_pieces));
  if (fields.find("messages") != nullptr) {
    Conversation conversation;
    RAFTER_ASSIGN(conversation.messages, normalise_messages(fields.find("messages")));
    RAFTER_TRY(read_tools(fields, conversation));
    RAFTER_TRY(read_template_options(fields, conversation));
    ask.conversation = std::move(conversation);
    return ask;
  }
  std::optional<std::string> content;
  RAFTER_TRY(fields.read("content", content));
  if (!content) return field_error("content", "is required");
  ask.content = std::move(*content);
  return ask;
}

base::Result<Json> tokenize_json(const Front& front, const TokenizeAsk& ask) {
  const text::Tokenizer& tokenizer = front.text().tokenizer();
  std::vector<int32_t> ids;
  Json json = Json::object();
  if (ask.conversation) {
    RAFTER_ASSIGN(BuiltPrompt prompt, front.prompts().build(*ask.conversation));
    json["prompt"] = prompt.text;
    ids = std::move(prompt.tokens);
  } else {
    const auto special = ask.parse_special ? text::SpecialTokens::match : text::SpecialTokens::as_text;
    RAFTER_ASSIGN(ids, tokenizer.encode(ask.content, ask.add_special, special));
  }
  json["tokens"] = Json::array();
  for (const int32_t id : ids) {
    json["tokens"].push_back(ask.with_pieces ? Json{{"id", id}, {"piece", tokenizer.piece(id)}} : Json(id));
  }
  return json;
}

base::Result<Json> detokenize_json(const Front& front, const std::string& text) {
  constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
  RAFTER_ASSIGN(const Json body, parse_body(text));
  const Json* tokens = nullptr;
  RAFTER_TRY(Fields(body).read_array("tokens", tokens));
  if (tokens == nullptr) return field_error("tokens", "is required");
  std::vector<int32_t> ids;
  for (const Json& token : *tokens) {
    const auto id = integer_of(token);
    if (!id || *id < 0 || *id > kLargestId) return field_error("tokens", "must be an array of token ids");
    ids.push_back(static_cast<int32_t>(*id));
  }
  return Json{{"content", front.text().tokenizer().decode(ids, /*skip_special=*/false)}};
}

}  // namespace

void llama_completion(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, std::move(request), std::move(exchange), parse_llama_completion);
}

void llama_infill(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, std::move(request), std::move(exchange), parse_llama_infill);
}

void tokenize(Front& front, RoutedRequest request, Exchange exchange) {
  const size_t bytes = request.http.body.size();
  answer_aside(front, std::move(exchange), bytes,
               [&front, body = std::move(request.http.body)]() -> base::Result<Json> {
                 RAFTER_ASSIGN(const TokenizeAsk ask, parse_tokenize(body));
                 return tokenize_json(front, ask);
               });
}

void detokenize(Front& front, RoutedRequest request, Exchange exchange) {
  const size_t bytes = request.http.body.size();
  answer_aside(front, std::move(exchange), bytes,
               [&front, body = std::move(request.http.body)] { return detokenize_json(front, body); });
}

void props(Front& front, RoutedRequest, Exchange exchange) {
  const auto special = [&](const char* name) {
    const auto& tokens = front.text().special_tokens();
    const auto found = tokens.find(name);
    return found == tokens.end() ? std::string() : found->second;
  };
  const decode::SamplingParams sampling = front.text().default_sampling();
  respond_json(*exchange, {{"model", front.options().model_id},
                           {"model_path", front.options().model_id},
                           {"chat_template", front.text().template_source()},
                           {"bos_token", special("bos_token")},
                           {"eos_token", special("eos_token")},
                           {"n_ctx", front.context()},
                           {"modalities", {{"vision", false}, {"audio", false}}},
                           {"tool_format", front.format().family_name()},
                           {"reasoning_format", front.format().reasoning_name()},
                           {"total_slots", front.service().facts() ? front.service().facts()->batch : 1},
                           {"default_generation_settings",
                            {{"n_ctx", front.context()},
                             {"temperature", sampling.temperature},
                             {"top_p", sampling.top_p},
                             {"top_k", sampling.top_k},
                             {"min_p", sampling.min_p}}}});
}

void fit(Front& front, RoutedRequest request, Exchange exchange) {
  constexpr std::string_view kName = "ctx=";
  constexpr int64_t kMost = 16 << 20;
  int64_t context = 0;
  if (const std::string& query = request.http.query; !query.empty()) {
    const char* const end = query.data() + query.size();
    const bool is_named = query.starts_with(kName);
    const auto [stopped, error] = std::from_chars(query.data() + (is_named ? kName.size() : 0), end, context);
    if (!is_named || error != std::errc() || stopped != end || context < 1 || context > kMost)
      return respond_error(*exchange, api_error(field_error("ctx", "must be a number of positions")));
  }
  if (!front.options().fit) {
    return respond_error(
        *exchange, api_error(base::Error{base::ErrorCode::unsupported, "is not offered here", "/fit", ""}));
  }
  answer_aside(front, std::move(exchange), /*bytes=*/0, [&front, context]() -> base::Result<Json> {
    RAFTER_ASSIGN(const std::string text, front.options().fit(context));
    return parse_body(text);
  });
}

void openapi(Front&, RoutedRequest, Exchange exchange) { respond_json(*exchange, openapi_json(routes())); }

}  // namespace rafter::serve::handlers
