#include "serve/proto/llama_cpp.h"

namespace rafter::serve {
namespace {

constexpr int64_t kMostTokens = 1 << 30;

// Sampling under llama.cpp's names.
base::Status read_options(const Json& body, Ask& ask) {
  Json options = body;
  for (const auto& [theirs, ours] : {std::pair("repeat_penalty", "repetition_penalty"),
                                     std::pair("repeat_last_n", "repetition_context_size")}) {
    if (options.contains(theirs)) options[ours] = options[theirs];
  }
  if (const auto window = options.find("repetition_context_size"); window != options.end() && *window == -1)
    *window = 0;  // all
  for (const char* unused : {"logprobs", "top_logprobs"}) options.erase(unused);
  // [[id, bias]…] as well as {"id": bias}
  if (const auto bias = options.find("logit_bias"); bias != options.end() && bias->is_array()) {
    Json object = Json::object();
    for (const Json& pair : *bias) {
      if (!pair.is_array() || pair.size() != 2 || !integer_of(pair[0]) || !pair[1].is_number())
        return field_error("logit_bias", "must be pairs of a token id and a number");
      object[std::to_string(*integer_of(pair[0]))] = pair[1];
    }
    *bias = std::move(object);
  }
  const Fields fields(options);
  RAFTER_TRY(read_sampling(fields, ask.sampling));
  std::optional<int64_t> best, limit;
  RAFTER_TRY(fields.read("n_probs", best, 0, 20));
  if (best.value_or(0) > 0) ask.sampling.top_logprobs = static_cast<int32_t>(*best);
  RAFTER_TRY(fields.read("n_predict", limit, -2, kMostTokens));
  if (!limit) RAFTER_TRY(fields.read("max_tokens", limit, -1, kMostTokens));
  if (limit && *limit > 0) ask.max_tokens = limit;
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  RAFTER_TRY(fields.read("ignore_eos", ask.ignore_end));
  RAFTER_TRY(read_stop(fields, "stop", ask.stop));
  std::string grammar;
  RAFTER_TRY(fields.read("grammar", grammar));
  if (!grammar.empty())
    return base::Error{base::ErrorCode::unsupported, "grammars are not supported", "grammar",
                       "use json_schema"};
  if (const Json* schema = fields.find("json_schema"); schema != nullptr) {
    if (!schema->is_object()) return field_error("json_schema", "must be of type object");
    ask.json_schema = to_text(*schema);
  }
  return {};
}

class LlamaReply : public Reply {
 public:
  std::string begin() override { return ": begun\n\n"; }

  std::string piece(const Piece& piece) override {
    std::string text;
    for (const text::OutputEvent& event : piece.events) text += event.text;
    if (text.empty() && piece.tokens.empty()) return "";
    Json json = {{"index", 0}, {"content", text}, {"stop", false}, {"id_slot", 0}, {"model", facts().model}};
    if (!piece.tokens.empty()) json["completion_probabilities"] = logprobs_json(piece.tokens)["content"];
    return sse_data(json);
  }

  std::string end(const Answer& answer) override { return sse_data(last(answer, "")); }
  std::string failure(const ApiError& error) override { return sse_data(refusal(error)); }

  Json whole(const Answer& answer) override {
    Json json = last(answer, answer.content);
    json["tokens"] = answer.ids;
    if (!answer.tokens.empty()) json["completion_probabilities"] = logprobs_json(answer.tokens)["content"];
    return json;
  }

 private:
  Json last(const Answer& answer, const std::string& content) const {
    const bool is_word = answer.ending == Ending::stop && answer.stop_string.has_value();
    return {{"index", 0},
            {"content", content},
            {"id_slot", 0},
            {"stop", true},
            {"model", facts().model},
            {"tokens_predicted", answer.usage.completion},
            {"tokens_evaluated", answer.usage.prompt},
            {"tokens_cached", answer.usage.cached},
            {"truncated", false},
            {"stop_type", answer.ending == Ending::length ? "limit"
                          : is_word                       ? "word"
                                                          : "eos"},
            {"stopping_word", is_word ? *answer.stop_string : ""},
            {"generation_settings", {{"seed", answer.seed}}},
            {"timings", timings_json(answer.usage, answer.timings)}};
  }
};

}  // namespace

base::Result<Ask> parse_llama_completion(const Json& body) {
  const Fields fields(body);
  Ask ask;
  RAFTER_TRY(read_options(body, ask));
  const Json* prompt = fields.find("prompt");
  const base::Error malformed = field_error("prompt", "must be a non-empty string or an array of token ids");
  if (prompt == nullptr || prompt->empty()) return malformed;
  if (prompt->is_string()) {
    if (*prompt == "") return malformed;
    ask.prompt = RawPrompt{prompt->get<std::string>()};
    return ask;
  }
  if (!prompt->is_array()) return malformed;
  std::vector<int32_t> tokens;
  for (const Json& token : *prompt) {
    const auto id = integer_of(token);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) return malformed;
    tokens.push_back(static_cast<int32_t>(*id));
  }
  ask.prompt = RawPrompt{std::move(tokens)};
  return ask;
}

base::Result<Ask> parse_llama_infill(const Json& body) {
  const Fields fields(body);
  Ask ask;
  RAFTER_TRY(read_options(body, ask));
  std::string before, behind, typed, context;
  RAFTER_TRY(fields.read("input_prefix", before));
  RAFTER_TRY(fields.read("input_suffix", behind));
  RAFTER_TRY(fields.read("prompt", typed));
  const Json* extra = nullptr;
  RAFTER_TRY(fields.read_array("input_extra", extra));
  if (extra != nullptr) {
    for (const Json& file : *extra) {
      if (!file.is_object()) return field_error("input_extra", "must be an array of objects with a text");
      std::string text;
      RAFTER_TRY(Fields(file).read("text", text));
      context += text + "\n";
    }
  }
  RawPrompt prompt{context + before + typed, behind, true};
  ask.prompt = std::move(prompt);
  return ask;
}

std::unique_ptr<Reply> llama_reply() { return std::make_unique<LlamaReply>(); }

}  // namespace rafter::serve
