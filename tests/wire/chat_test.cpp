// POST /v1/chat/completions on the wire, field by field, over a scripted model.
#include <gtest/gtest.h>

#include "serve/proto/json.h"
#include "tests/support/stream_grammar.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using std::chrono::milliseconds;
using testing::FakeAnswer;
using testing::read_file;
using testing::request;
using testing::sse_events;
using testing::WireOptions;
using testing::WireReply;
using testing::WireServer;

constexpr const char* kPath = "/v1/chat/completions";

// ChatML with reasoning and Hermes' calls, as Qwen 3 has them.
constexpr const char* kTemplate =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n"
    "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{%- for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n"
    "{%- endfor %}"
    "{%- if tools %}{{ tools | tojson }}{% endif %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% "
    "endif %}";

WireOptions thinker() {
  WireOptions options;
  options.chat_template = kTemplate;
  return options;
}

Json body(const Json& more = Json::object()) {
  Json json = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  for (const auto& [key, value] : more.items()) json[key] = value;
  return json;
}

Json weather_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "description": "d",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])");
}

std::vector<Json> chunks(const WireReply& reply) {
  // One that failed ends with its error.
  const bool has_failed = reply.body.find("\"error\"") != std::string::npos;
  EXPECT_EQ(has_failed ? "" : testing::stream_fault(reply.body), "") << reply.body;
  std::vector<Json> all;
  for (const auto& [name, data] : sse_events(reply.body)) {
    EXPECT_EQ(name, "");
    if (data != "[DONE]") all.push_back(Json::parse(data));
  }
  return all;
}

std::string joined(const std::vector<Json>& all, const char* key) {
  std::string text;
  for (const Json& chunk : all) {
    if (chunk["choices"].empty()) continue;
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains(key) && delta[key].is_string()) text += delta[key].get<std::string>();
  }
  return text;
}

TEST(ChatWire, AWholeAnswerHasEveryField) {
  WireServer server;
  server.answer({.text = "Hello there.", .cached = 3});
  const WireReply reply =
      request(server.port(), "POST", kPath, body({{"model", "whatever"}, {"seed", 7}}).dump());
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  const Json json = Json::parse(reply.body);
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "fake-model");  // an unknown name is served, the real one is told
  EXPECT_GT(json["created"], 1'700'000'000);
  EXPECT_EQ(json["choices"].size(), 1u);
  EXPECT_EQ(json["choices"][0]["message"],
            Json::parse(R"({"role": "assistant", "content": "Hello there."})"));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(json["usage"]["prompt_tokens"], server.requests()[0].prompt.size());
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(json["usage"]["total_tokens"].get<int>(),
            json["usage"]["prompt_tokens"].get<int>() + json["usage"]["completion_tokens"].get<int>());
  EXPECT_EQ(json["seed"], 7);
}

TEST(ChatWire, AStreamFollowsTheGrammar) {
  WireServer server;
  server.answer({.text = "Hello there.", .queued_before = 2});
  const WireReply reply =
      request(server.port(), "POST", kPath,
              body({{"stream", true}, {"stream_options", {{"include_usage", true}}}}).dump());
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(reply.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(reply.headers.at("x-accel-buffering"), "no");
  EXPECT_TRUE(reply.body.ends_with("\n\ndata: [DONE]\n\n"));
  const std::vector<Json> all = chunks(reply);
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all[0]["choices"][0]["delta"], Json::parse(R"({"role": "assistant", "content": ""})"));
  for (const Json& chunk : all) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], all[0]["id"]);
    EXPECT_EQ(chunk["created"], all[0]["created"]);
  }
  EXPECT_EQ(joined(all, "content"), "Hello there.");
  const Json& final = all[all.size() - 2];
  EXPECT_EQ(final["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(final["choices"][0]["delta"], Json::object());
  EXPECT_TRUE(final.contains("usage"));
  EXPECT_EQ(all.back()["choices"], Json::array());
  EXPECT_EQ(all.back()["usage"], final["usage"]);
}

TEST(ChatWire, TheStreamBeginsBeforeThePromptIsComputed) {
  WireServer server;
  server.answer({.text = "late", .before_first = milliseconds(3000)});
  testing::WireClient client(server.port());
  client.send(testing::request_text("POST", kPath, body({{"stream", true}}).dump()));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(client.read_until("\"role\"").find("\"role\""), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2500));
}

TEST(ChatWire, ReasoningIsAFieldOfItsOwn) {
  WireServer server(thinker());
  server.answer({.text = "<think>\nLet me see.\n</think>\n\nFour."});
  const Json whole = Json::parse(request(server.port(), "POST", kPath, body().dump()).body);
  const Json& message = whole["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Four.");
  EXPECT_EQ(message["reasoning"], message["reasoning_content"]);
  EXPECT_EQ(message["reasoning"].get<std::string>().substr(0, 11), "Let me see.");
  EXPECT_GT(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  const auto all = chunks(request(server.port(), "POST", kPath, body({{"stream", true}}).dump()));
  EXPECT_EQ(joined(all, "content"), "Four.");
  EXPECT_EQ(joined(all, "reasoning"), message["reasoning"].get<std::string>());
  EXPECT_EQ(joined(all, "reasoning_content"), message["reasoning"].get<std::string>());
}

TEST(ChatWire, CallsAreDeltasAndTheReasonSaysSo) {
  WireServer server(thinker());
  server.answer(
      {.text =
           "Let me look.<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
           "\"Oslo\"}}\n</tool_call>"
           "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"});
  const Json whole =
      Json::parse(request(server.port(), "POST", kPath, body({{"tools", weather_tools()}}).dump()).body);
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me look.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"],
            Json::parse(R"({"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"})"));
  const auto all = chunks(
      request(server.port(), "POST", kPath, body({{"tools", weather_tools()}, {"stream", true}}).dump()));
  std::string arguments[2], names[2];
  for (const Json& chunk : all) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    const size_t index = call["index"];
    ASSERT_LT(index, 2u);
    if (call["function"].contains("name")) names[index] = call["function"]["name"];
    arguments[index] += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(names[1], "get_weather");
  EXPECT_EQ(arguments[0], R"({"city":"Oslo"})");
  EXPECT_EQ(arguments[1], R"({"city":"Rome"})");
  EXPECT_EQ(all.back()["choices"][0]["finish_reason"], "tool_calls");

  const Json one =
      Json::parse(request(server.port(), "POST", kPath,
                          body({{"tools", weather_tools()}, {"parallel_tool_calls", false}}).dump())
                      .body);
  EXPECT_EQ(one["choices"][0]["message"]["tool_calls"].size(), 1u);
  const Json none = Json::parse(request(server.port(), "POST", kPath,
                                        body({{"tools", weather_tools()}, {"tool_choice", "none"}}).dump())
                                    .body);
  EXPECT_FALSE(none["choices"][0]["message"].contains("tool_calls"));
}

TEST(ChatWire, BrokenCallsStayText) {
  WireServer server(thinker());
  const std::string text =
      "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": oops</tool_call> done";
  server.answer({.text = text});
  const Json whole =
      Json::parse(request(server.port(), "POST", kPath, body({{"tools", weather_tools()}}).dump()).body);
  EXPECT_EQ(whole["choices"][0]["message"]["content"], text);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
}

TEST(ChatWire, ForcedCallsAreHeldToTheirMarkup) {
  WireServer server(thinker());
  server.answer(
      {.text =
           "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"});
  const Json choice = {{"type", "function"}, {"function", {{"name", "get_weather"}}}};
  for (const Json& wanted : {choice, Json("required")}) {
    const Json whole = Json::parse(request(server.port(), "POST", kPath,
                                           body({{"tools", weather_tools()}, {"tool_choice", wanted}}).dump())
                                       .body);
    ASSERT_TRUE(whole.contains("choices")) << whole;
    EXPECT_EQ(whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], R"({"city":"Oslo"})");
    const auto form = server.requests().back().form;
    ASSERT_TRUE(form && form->calls);
    EXPECT_TRUE(form->calls->are_required && form->may_reason);
    EXPECT_EQ(form->family, "hermes");
    EXPECT_EQ(Json::parse(form->calls->tools_json)[0]["name"], "get_weather");
  }
  const Json other = {{"type", "function"}, {"function", {{"name", "other"}}}};
  EXPECT_EQ(
      request(server.port(), "POST", kPath, body({{"tools", weather_tools()}, {"tool_choice", other}}).dump())
          .status,
      400);
  EXPECT_EQ(request(server.port(), "POST", kPath, body({{"tool_choice", "required"}}).dump()).status, 400);
}

TEST(ChatWire, OnlyStrictToolsAreHeldWhereTheModelChooses) {
  WireServer server(thinker());
  request(server.port(), "POST", kPath, body({{"tools", weather_tools()}}).dump());
  EXPECT_FALSE(server.requests().back().form);
  Json tools = weather_tools();
  tools[0]["function"]["strict"] = true;
  request(server.port(), "POST", kPath, body({{"tools", tools}, {"parallel_tool_calls", false}}).dump());
  const auto form = server.requests().back().form;
  ASSERT_TRUE(form && form->calls);
  EXPECT_FALSE(form->calls->are_required || form->calls->several);
  // As the client wrote it: what templates are given besides restricts.
  EXPECT_EQ(Json::parse(form->calls->tools_json)[0]["parameters"], tools[0]["function"]["parameters"]);
  request(server.port(), "POST", kPath, body({{"tools", tools}, {"tool_choice", "none"}}).dump());
  EXPECT_FALSE(server.requests().back().form);
}

TEST(ChatWire, BudgetsOfReasoningByAllTheirNames) {
  WireServer server(thinker());
  const auto budget = [&](const Json& more) {
    const WireReply reply = request(server.port(), "POST", kPath, body(more).dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto form = server.requests().back().form;
    return form && form->reasoning_budget ? *form->reasoning_budget : -1;
  };
  EXPECT_EQ(budget(Json::object()), -1);
  EXPECT_EQ(budget({{"reasoning_budget", 300}}), 300);
  EXPECT_EQ(budget({{"reasoning_budget", -1}}), -1);
  EXPECT_EQ(budget({{"thinking_budget_tokens", 20}}), 20);
  EXPECT_EQ(budget({{"reasoning_effort", "low"}}), 2048);
  EXPECT_EQ(budget({{"reasoning_effort", "high"}}), -1);
  EXPECT_EQ(budget({{"reasoning_effort", "low"}, {"reasoning_budget", 9}}), 9);
  EXPECT_EQ(request(server.port(), "POST", kPath, body({{"reasoning_budget", "many"}}).dump()).status, 400);
  const auto form = server.requests().back().form;
  ASSERT_TRUE(form);
  EXPECT_EQ(server.text().tokenizer().decode(form->reasoning_end, false), "\n</think>\n\n");
}

TEST(ChatWire, DroppedReasoningComesBackIntoThePrompt) {
  WireServer server(thinker());
  server.answer({.text = "<think>\nLet me see.\n</think>\n\nFour."});
  const auto prompt_of = [&](const Json& messages, const testing::WireHeaders& headers) {
    EXPECT_EQ(request(server.port(), "POST", kPath, Json{{"messages", messages}}.dump(), headers).status,
              200);
    std::string text;
    server.on_loop([&](testing::FakeService& service) { text = service.text_of(service.requests.back()); });
    return text;
  };
  const testing::WireHeaders mine = {{"Authorization", "Bearer mine"}};
  Json messages = Json::array({{{"role", "user"}, {"content", "2+2?"}}});
  prompt_of(messages, mine);
  messages.push_back({{"role", "assistant"}, {"content", "Four."}});
  messages.push_back({{"role", "user"}, {"content", "Sure?"}});
  EXPECT_NE(prompt_of(messages, mine).find("Let me see."), std::string::npos);
  // Not for others, and not for what was not said.
  EXPECT_EQ(prompt_of(messages, {{"Authorization", "Bearer theirs"}}).find("Let me see."), std::string::npos);
  messages[1]["content"] = "Five.";
  EXPECT_EQ(prompt_of(messages, mine).find("Let me see."), std::string::npos);
}

TEST(ChatWire, StopStringsEndTheContentOnly) {
  WireServer server(thinker());
  server.answer({.text = "<think>\nEND is near\n</think>\n\nfirst END second"});
  const Json whole = Json::parse(request(server.port(), "POST", kPath, body({{"stop", "END"}}).dump()).body);
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "first ");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  WireServer plain;
  plain.answer({.text = "first END second"});
  const auto all =
      chunks(request(plain.port(), "POST", kPath, body({{"stop", {"END", "zzz"}}, {"stream", true}}).dump()));
  EXPECT_EQ(joined(all, "content"), "first ");
}

TEST(ChatWire, LogprobsComeForEveryTokenAlsoInStreams) {
  WireServer server;
  server.answer({.text = "Hello"});
  const Json asked = body({{"logprobs", true}, {"top_logprobs", 2}});
  const Json whole = Json::parse(request(server.port(), "POST", kPath, asked.dump()).body);
  const Json& content = whole["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), whole["usage"]["completion_tokens"].get<size_t>());
  std::string text;
  for (const Json& token : content) {
    text += token["token"].get<std::string>();
    EXPECT_EQ(token["logprob"], -0.5);
    EXPECT_EQ(token["top_logprobs"].size(), 2u);
    EXPECT_EQ(token["bytes"].size(), token["token"].get<std::string>().size());
  }
  EXPECT_EQ(text, "Hello");
  Json streamed = asked;
  streamed["stream"] = true;
  Json all = Json::array();
  for (const Json& chunk : chunks(request(server.port(), "POST", kPath, streamed.dump()))) {
    const Json& logprobs = chunk["choices"][0]["logprobs"];
    if (!logprobs.is_null())
      for (const Json& token : logprobs["content"]) all.push_back(token);
  }
  EXPECT_EQ(all, content);
}

TEST(ChatWire, RefusalsHaveTheirStatusAlsoForStreams) {
  using base::ErrorCode;
  WireServer server;
  const struct {
    base::Error error;
    int status;
    const char* code;
  } cases[] = {
      {{ErrorCode::busy, "16 requests wait already", "", ""}, 429, "queue_full"},
      {{ErrorCode::unavailable, "the model is loading", "", ""}, 503, "model_unavailable"},
      {{ErrorCode::out_of_memory, "the prompt has 9000 tokens, 4096 fit", "", ""},
       400,
       "context_over_budget"},
      {{ErrorCode::unsupported, "\"pattern\" is not supported", "response_format", ""}, 400, "unsupported"},
      {{ErrorCode::internal, "a bug", "", ""}, 500, ""}};
  for (const auto& refused : cases) {
    server.answer({.refused = refused.error});
    for (const bool stream : {false, true}) {
      const WireReply reply = request(server.port(), "POST", kPath, body({{"stream", stream}}).dump());
      EXPECT_EQ(reply.status, refused.status);
      const Json error = Json::parse(reply.body)["error"];
      EXPECT_NE(error["message"].get<std::string>().find(refused.error.what), std::string::npos);
      EXPECT_EQ(error["code"], *refused.code != 0 ? Json(refused.code) : Json(nullptr));
      EXPECT_EQ(reply.headers.contains("retry-after"), refused.status == 429 || refused.status == 503);
    }
  }
}

TEST(ChatWire, AFailureInTheMiddleIsAnEventWithoutDone) {
  WireServer server;
  server.answer(
      {.text = "Hel", .fails_at_end = base::Error{base::ErrorCode::unavailable, "the worker died", "", ""}});
  const WireReply reply = request(server.port(), "POST", kPath, body({{"stream", true}}).dump());
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(chunks(reply).back()["error"]["message"], "the worker died");
  EXPECT_EQ(request(server.port(), "POST", kPath, body().dump()).status, 503);
}

TEST(ChatWire, FieldsAreCheckedByTypeAndRange) {
  WireServer server;
  const struct {
    Json more;
    const char* message;
  } cases[] = {{{{"temperature", "hot"}}, "temperature must be of type float"},
               {{{"temperature", -1}}, "temperature must be at least 0"},
               {{{"top_p", 2}}, "top_p must be at most 1"},
               {{{"top_k", 1.5}}, "top_k must be of type int"},
               {{{"stream", "yes"}}, "stream must be of type bool"},
               {{{"logprobs", 1}}, "logprobs must be of type bool"},
               {{{"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs must be at most 20"},
               {{{"max_tokens", 0}}, "max_tokens must be at least 1"},
               {{{"n", 2}}, "n must be 1"},
               {{{"stop", 5}}, "stop must be a string or an array of strings"},
               {{{"logit_bias", {{"x", 1}}}}, "logit_bias must be a dict of int to float"},
               {{{"logit_bias", {{"99999999", 1}}}}, "outside the vocabulary"},
               {{{"tools", 5}}, "tools must be of type array"},
               {{{"response_format", {{"type", "xml"}}}}, "response_format must be of type"},
               {{{"messages", Json::array()}}, "messages required"},
               {{{"messages", Json::array({5})}}, "messages[0]: must be an object"}};
  for (const auto& bad : cases) {
    const WireReply reply = request(server.port(), "POST", kPath, body(bad.more).dump());
    EXPECT_EQ(reply.status, 400) << bad.more;
    const Json error = Json::parse(reply.body)["error"];
    EXPECT_NE(error["message"].get<std::string>().find(bad.message), std::string::npos) << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  for (const std::string text : {"", "[]", "{", "{\"messages\": [\"\xff\"]}", "null"}) {
    const WireReply reply = request(server.port(), "POST", kPath, text);
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find("invalid JSON body"), std::string::npos);
  }
  EXPECT_EQ(request(server.port(), "POST", kPath, std::string(100'000, '[')).status, 400);
}

TEST(ChatWire, OptionsReachTheModel) {
  WireServer server;
  server.answer({.text = "ok"});
  const Json asked = body(
      {{"temperature", 0},
       {"top_p", 0.5},
       {"top_k", 7.0},
       {"min_p", 0.1},
       {"seed", 11},
       {"presence_penalty", -1.5},
       {"frequency_penalty", 0.5},
       {"repetition_penalty", 1.1},
       {"logit_bias", {{"5", -100}}},
       {"max_completion_tokens", 9},
       {"max_tokens", 3},
       {"stop", {"a", ""}},
       {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "object"}}}}}}}});
  ASSERT_EQ(request(server.port(), "POST", kPath, asked.dump()).status, 200);
  const CompletionRequest got = server.requests()[0];
  EXPECT_EQ(got.sampling.temperature, 0);
  EXPECT_EQ(got.sampling.top_p, 0.5f);
  EXPECT_EQ(got.sampling.top_k, 7);
  EXPECT_EQ(got.sampling.seed, 11u);
  EXPECT_EQ(got.sampling.presence.strength, -1.5f);
  EXPECT_EQ(got.sampling.repetition.strength, 1.1f);
  EXPECT_EQ(got.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -100.f}}));
  EXPECT_EQ(got.max_tokens, 9);
  EXPECT_EQ(got.stop, std::vector<std::string>{"a"});
  ASSERT_TRUE(got.form);
  EXPECT_EQ(got.form->json_schema, R"({"type":"object"})");
}

TEST(ChatWire, BoundariesAreWhereConversationsBranch) {
  WireServer server(thinker());
  server.answer({.text = "ok"});
  const auto ask = [&](const Json& messages) {
    EXPECT_EQ(request(server.port(), "POST", kPath, Json{{"messages", messages}}.dump()).status, 200);
    return server.requests().back();
  };
  const Json system = {{"role", "system"},
                       {"content", "x-anthropic-billing-header: cch=1;\nYou are a poet."}};
  const Json system2 = {{"role", "system"},
                        {"content", "x-anthropic-billing-header: cch=2;\nYou are a poet."}};
  const Json user = {{"role", "user"}, {"content", "Sing."}};
  const CompletionRequest first = ask(Json::array({system, user}));
  ASSERT_EQ(first.boundaries.size(), 2u);
  EXPECT_EQ(first.boundaries[1], static_cast<int64_t>(first.prompt.size()));
  const CompletionRequest other =
      ask(Json::array({system2, {{"role", "user"}, {"content", "Quite another thing"}}}));
  EXPECT_EQ(common_prefix(first.prompt, other.prompt), first.boundaries[0]);
  const CompletionRequest next = ask(Json::array(
      {system, user, {{"role", "assistant"}, {"content", "La."}}, {{"role", "user"}, {"content", "More"}}}));
  EXPECT_GE(common_prefix(first.prompt, next.prompt), first.boundaries[1]);
  for (const CompletionRequest& got : {first, other, next}) {
    EXPECT_TRUE(std::is_sorted(got.boundaries.begin(), got.boundaries.end()));
    EXPECT_LE(got.boundaries.back(), static_cast<int64_t>(got.prompt.size()));
  }
}

TEST(ChatWire, AnotherRegisteredModelIsNotServed) {
  WireOptions options;
  options.front.other_models = {"org/other"};
  options.front.aliases = {"nick"};
  WireServer server(options);
  EXPECT_EQ(request(server.port(), "POST", kPath, body({{"model", "org/other"}}).dump()).status, 404);
  EXPECT_EQ(request(server.port(), "POST", kPath, body({{"model", "nick"}}).dump()).status, 200);
  const Json list = Json::parse(request(server.port(), "GET", "/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "fake-model");
  for (const char* name : {"context_window", "context_length", "max_model_len"})
    EXPECT_EQ(list["data"][0][name], 4096);
  EXPECT_EQ(list["data"][1]["id"], "org/other");
  EXPECT_EQ(Json::parse(request(server.port(), "GET", "/v1/models/fake-model").body), list["data"][0]);
  EXPECT_EQ(Json::parse(request(server.port(), "GET", "/v1/models/org/other").body)["id"], "org/other");
  EXPECT_EQ(Json::parse(request(server.port(), "GET", "/v1/models/org%2Fother").body)["id"], "org/other");
  EXPECT_EQ(request(server.port(), "GET", "/v1/models/none").status, 404);
}

}  // namespace
}  // namespace rafter::serve
