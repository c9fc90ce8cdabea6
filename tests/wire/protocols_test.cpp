// Anthropic's, OpenAI's other, Ollama's and llama.cpp's protocols on the wire, field by field.
#include <gtest/gtest.h>

#include "serve/proto/json.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using testing::request;
using testing::sse_events;
using testing::WireOptions;
using testing::WireReply;
using testing::WireServer;

// Reasoning and Hermes' calls; every message shows what it holds.
WireOptions thinker() {
  WireOptions options;
  options.chat_template =
      "{%- for m in messages %}<|im_start|>{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}{{ '\\n' }}"
      "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content "
      "}}"
      "{%- for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>{{ "
      "'\\n' }}"
      "{%- endfor %}{%- if tools %}{{ tools | tojson }}{% endif %}<|im_start|>assistant{{ '\\n' }}"
      "{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";
  return options;
}

constexpr const char* kThoughtAndCall =
    "<think>\nHm.\n</think>\n\nLooking.<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
    "\"Oslo\"}}\n</tool_call>";

WireReply post(WireServer& server, const char* path, const Json& body) {
  return request(server.port(), "POST", path, body.dump());
}

Json post_json(WireServer& server, const char* path, const Json& body, int status = 200) {
  const WireReply reply = post(server, path, body);
  EXPECT_EQ(reply.status, status) << reply.body;
  return Json::parse(reply.body);
}

// The prompt that the last request had, as text.
std::string last_prompt(WireServer& server) {
  const auto all = server.requests();
  return server.text().tokenizer().decode(all.back().prompt, false);
}

// ---- Anthropic

Json claude_body(const Json& more = Json::object()) {
  Json body = {{"model", "claude"},
               {"max_tokens", 1000},
               {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  for (const auto& [key, value] : more.items()) body[key] = value;
  return body;
}

Json claude_tools() {
  return Json::parse(
      R"([{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
                         {"type": "web_search_20250305", "name": "web_search"}])");
}

TEST(Anthropic, AWholeAnswer) {
  WireServer server(thinker());
  server.answer({.text = kThoughtAndCall, .cached = 4});
  const Json message = post_json(server, "/v1/messages", claude_body({{"tools", claude_tools()}}));
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], "fake-model");
  ASSERT_EQ(message["content"].size(), 3u);
  EXPECT_EQ(message["content"][0]["type"], "thinking");
  EXPECT_EQ(message["content"][1], Json::parse(R"({"type": "text", "text": "Looking."})"));
  EXPECT_EQ(message["content"][2]["type"], "tool_use");
  EXPECT_EQ(message["content"][2]["name"], "get_weather");
  EXPECT_EQ(message["content"][2]["input"], Json::parse(R"({"city": "Oslo"})"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["stop_sequence"], nullptr);
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(message["usage"]["input_tokens"].get<size_t>() + 4, server.requests()[0].prompt.size());
}

TEST(Anthropic, AStreamIsBlocksInOrder) {
  WireServer server(thinker());
  server.answer({.text = kThoughtAndCall});
  const WireReply reply =
      post(server, "/v1/messages", claude_body({{"tools", claude_tools()}, {"stream", true}}));
  std::vector<std::string> shape;
  std::string thinking, text, arguments;
  int open = -1, next = 0;
  for (const auto& [name, data] : sse_events(reply.body)) {
    const Json json = Json::parse(data);
    EXPECT_EQ(json["type"], name);
    if (name == "ping") continue;
    if (name == "content_block_start") {
      EXPECT_EQ(open, -1);
      open = json["index"];
      EXPECT_EQ(open, next++);
      shape.push_back(json["content_block"]["type"]);
    } else if (name == "content_block_delta") {
      EXPECT_EQ(json["index"], open);
      const Json& delta = json["delta"];
      if (delta["type"] == "thinking_delta") thinking += delta["thinking"].get<std::string>();
      if (delta["type"] == "text_delta") text += delta["text"].get<std::string>();
      if (delta["type"] == "input_json_delta") arguments += delta["partial_json"].get<std::string>();
    } else if (name == "content_block_stop") {
      EXPECT_EQ(json["index"], open);
      open = -1;
    } else {
      shape.push_back(name);
    }
    if (name == "message_start") {
      EXPECT_EQ(json["message"]["usage"]["input_tokens"], server.requests()[0].prompt.size());
    }
    if (name == "message_delta") {
      EXPECT_EQ(json["delta"]["stop_reason"], "tool_use");
    }
  }
  EXPECT_EQ(shape, (std::vector<std::string>{"message_start", "thinking", "text", "tool_use", "message_delta",
                                             "message_stop"}));
  EXPECT_EQ(thinking.substr(0, 3), "Hm.");
  EXPECT_EQ(text, "Looking.");
  EXPECT_EQ(arguments, R"({"city":"Oslo"})");
}

TEST(Anthropic, StopSequencesAndLimitsAreTold) {
  WireServer server(thinker());
  server.answer({.text = "one STOP two"});
  const Json stopped = post_json(server, "/v1/messages", claude_body({{"stop_sequences", {"STOP"}}}));
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "STOP");
  EXPECT_EQ(stopped["content"][0]["text"], "one ");
  const Json cut = post_json(server, "/v1/messages", claude_body({{"max_tokens", 2}}));
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  server.answer({.text = ""});
  const WireReply empty = post(server, "/v1/messages", claude_body({{"stream", true}}));
  EXPECT_NE(empty.body.find(R"("content_block":{"type":"text","text":""})"), std::string::npos);
}

TEST(Anthropic, BlocksBecomeMessages) {
  WireServer server(thinker());
  server.answer({.text = "ok"});
  const Json body = Json::parse(R"({"max_tokens": 10,
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=abc;"}, {"type": "text", "text": "Be brief."}],
    "messages": [
      {"role": "user", "content": "Weather?"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look.", "signature": "s"}, {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]},
        {"type": "text", "text": "And now?"}]}]})");
  post_json(server, "/v1/messages", body);
  const std::string prompt = last_prompt(server);
  EXPECT_EQ(prompt.find("cch="), std::string::npos) << prompt;
  for (const char* part : {"system\nBe brief.", "<think>\nI look.\n</think>\n\nWell.<tool_call>",
                           "tool get_weather\nrain", "user\nAnd now?"})
    EXPECT_NE(prompt.find(part), std::string::npos) << part << "\n" << prompt;
  EXPECT_LT(prompt.find("rain"), prompt.find("And now?"));
}

TEST(Anthropic, ErrorsHaveTheirShapeAndTokensAreCounted) {
  WireServer server(thinker());
  const Json error = post_json(server, "/v1/messages", Json{{"messages", Json::array()}}, 400);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  EXPECT_EQ(post_json(server, "/v1/messages", Json{{"messages", claude_body()["messages"]}},
                      400)["error"]["message"],
            "max_tokens is required");
  server.answer({.refused = base::Error{base::ErrorCode::busy, "full", "", ""}});
  EXPECT_EQ(post_json(server, "/v1/messages", claude_body(), 429)["error"]["type"], "rate_limit_error");
  server.answer({.text = "a", .fails_at_end = base::Error{base::ErrorCode::unavailable, "died", "", ""}});
  const auto events = sse_events(post(server, "/v1/messages", claude_body({{"stream", true}})).body);
  EXPECT_EQ(events.back().first, "error");

  server.answer({.text = "ok"});
  const Json count = post_json(server, "/v1/messages/count_tokens",
                               Json{{"messages", claude_body()["messages"]}, {"tools", claude_tools()}});
  post_json(server, "/v1/messages", claude_body({{"tools", claude_tools()}}));
  EXPECT_EQ(count["input_tokens"], server.requests().back().prompt.size());
}

// ---- OpenAI completions

TEST(Completions, TextIsContinuedAsItIs) {
  WireServer server;
  server.answer({.text = " there"});
  const Json whole =
      post_json(server, "/v1/completions", {{"prompt", "Hello"}, {"echo", true}, {"logprobs", 1}});
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "Hello there");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(whole["choices"][0]["logprobs"]["tokens"].size(),
            whole["usage"]["completion_tokens"].get<size_t>());
  EXPECT_EQ(server.requests()[0].prompt, server.text().raw_prompt("Hello").value());
  EXPECT_EQ(server.requests()[0].max_tokens, 512);
  post_json(server, "/v1/completions", {{"prompt", {1, 2, 3}}, {"max_tokens", 5}});
  EXPECT_EQ(server.requests()[1].prompt, (std::vector<int32_t>{1, 2, 3}));
  const auto events =
      sse_events(post(server, "/v1/completions", {{"prompt", "Hello"}, {"stream", true}}).body);
  std::string text;
  for (const auto& [name, data] : events) {
    if (data != "[DONE]") text += Json::parse(data)["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, " there");
  EXPECT_EQ(events.back().second, "[DONE]");
  for (const Json& bad : {Json{{"prompt", ""}}, Json{{"prompt", Json::array()}}, Json{{"prompt", {"a", "b"}}},
                          Json{{"prompt", {-1}}}, Json{{"prompt", {99999999}}}, Json::object(),
                          Json{{"prompt", "a"}, {"n", 2}}, Json{{"prompt", "a"}, {"suffix", "b"}}})
    EXPECT_EQ(post(server, "/v1/completions", bad).status, 400) << bad;
}

// ---- OpenAI responses

TEST(Responses, AStreamNumbersItsEventsAndEndsWithTheWhole) {
  WireServer server(thinker());
  server.answer({.text = kThoughtAndCall});
  const Json tools =
      Json::parse(R"([{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}])");
  const auto events =
      sse_events(post(server, "/v1/responses", {{"input", "Hi"}, {"tools", tools}, {"stream", true}}).body);
  std::vector<std::string> types;
  int64_t number = 0;
  std::string text;
  for (const auto& [name, data] : events) {
    const Json json = Json::parse(data);
    EXPECT_EQ(json["type"], name);
    EXPECT_EQ(json["sequence_number"], number++);
    if (types.empty() || types.back() != name) types.push_back(name);
    if (name == "response.output_text.delta") text += json["delta"].get<std::string>();
  }
  const std::vector<std::string> expected = {"response.created",
                                             "response.in_progress",
                                             "response.output_item.added",
                                             "response.reasoning_summary_part.added",
                                             "response.reasoning_summary_text.delta",
                                             "response.reasoning_summary_text.done",
                                             "response.reasoning_summary_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.output_text.delta",
                                             "response.output_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.completed"};
  EXPECT_EQ(types, expected);
  EXPECT_EQ(text, "Looking.");
  const Json response = Json::parse(events.back().second)["response"];
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 3u);
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Looking.");
  EXPECT_EQ(response["output"][2]["arguments"], R"({"city":"Oslo"})");
  EXPECT_GT(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST(Responses, TheyAreStoredAndContinued) {
  WireServer server(thinker());
  server.answer({.text = "First."});
  const Json first = post_json(server, "/v1/responses",
                               {{"input", "One"}, {"instructions", "Be brief."}, {"metadata", {{"a", "b"}}}});
  EXPECT_EQ(first["object"], "response");
  EXPECT_EQ(first["instructions"], "Be brief.");
  EXPECT_EQ(first["metadata"]["a"], "b");
  EXPECT_EQ(first["output"][0]["content"][0]["text"], "First.");
  const std::string id = first["id"];
  EXPECT_EQ(Json::parse(request(server.port(), "GET", "/v1/responses/" + id).body), first);
  const Json second = post_json(server, "/v1/responses", {{"input", "Two"}, {"previous_response_id", id}});
  const std::string prompt = last_prompt(server);
  EXPECT_NE(prompt.find("system\nBe brief."), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("One<|im_end|>\n<|im_start|>assistant\nFirst.<|im_end|>\n<|im_start|>user\nTwo"),
            std::string::npos)
      << prompt;
  post_json(server, "/v1/responses", {{"input", "Three"}, {"previous_response_id", second["id"]}});
  EXPECT_NE(last_prompt(server).find("Two"), std::string::npos);
  EXPECT_EQ(post_json(server, "/v1/responses", {{"input", "x"}, {"previous_response_id", "resp_none"}},
                      404)["error"]["code"],
            "previous_response_not_found");
  EXPECT_EQ(Json::parse(request(server.port(), "DELETE", "/v1/responses/" + id).body)["deleted"], true);
  EXPECT_EQ(request(server.port(), "GET", "/v1/responses/" + id).status, 404);
  const Json unkept = post_json(server, "/v1/responses", {{"input", "x"}, {"store", false}});
  EXPECT_EQ(request(server.port(), "GET", "/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
}

TEST(Responses, ItemsBecomeMessagesAndCutsAreTold) {
  WireServer server(thinker());
  server.answer({.text = "a b c d"});
  const Json body = Json::parse(R"({"max_output_tokens": 2, "instructions": "I.", "input": [
    {"role": "developer", "content": "D."}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Q"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "R"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
    {"type": "function_call_output", "call_id": "c1", "output": "O"}]})");
  const Json cut = post_json(server, "/v1/responses", body);
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  const std::string prompt = last_prompt(server);
  for (const char* part : {"system\nI.\n\nD.", "user\nQ", "<think>\nR\n</think>",
                           R"(<tool_call>{"name": "f", "arguments": {"a": 1}})", "tool f\nO"})
    EXPECT_NE(prompt.find(part), std::string::npos) << part << "\n" << prompt;
  EXPECT_EQ(post(server, "/v1/responses", {{"input", 5}}).status, 400);
  EXPECT_EQ(post(server, "/v1/responses", Json::object()).status, 400);
}

// ---- Embeddings

TEST(Embeddings, FloatsAndBase64AreTheSame) {
  WireServer server;
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", "a"}}).status, 400);
  server.on_loop([](auto& service) { service.known_facts->is_embedder = true; });
  const Json floats = post_json(server, "/v1/embeddings", {{"input", {"a", "b c"}}});
  ASSERT_EQ(floats["data"].size(), 2u);
  EXPECT_EQ(floats["data"][1]["index"], 1);
  EXPECT_EQ(floats["data"][0]["embedding"].size(), 4u);
  EXPECT_EQ(floats["usage"]["prompt_tokens"], floats["usage"]["total_tokens"]);
  const Json text = post_json(server, "/v1/embeddings", {{"input", "a"}, {"encoding_format", "base64"}});
  EXPECT_EQ(text["data"][0]["embedding"].get<std::string>().size(), 24u);  // 16 bytes
  for (const Json& bad : {Json{{"input", ""}}, Json{{"input", Json::array()}},
                          Json{{"input", "a"}, {"encoding_format", "int8"}},
                          Json{{"input", "a"}, {"dimensions", 3}}, Json{{"input", {{99999999}}}}})
    EXPECT_EQ(post(server, "/v1/embeddings", bad).status, 400) << bad;
}

// ---- Ollama

std::vector<Json> lines(const std::string& body) {
  std::vector<Json> all;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    all.push_back(Json::parse(body.substr(at, end - at)));
    at = end + 1;
  }
  return all;
}

TEST(Ollama, ChatIsLinesOfJson) {
  WireServer server(thinker());
  server.answer({.text = kThoughtAndCall});
  const Json tools = Json::parse(
      R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}])");
  const Json body = {
      {"model", "m:latest"},
      {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})},
      {"tools", tools},
      {"options", {{"temperature", 0}, {"num_predict", 777}, {"repeat_penalty", 1.2}, {"stop", {"zzz"}}}}};
  const WireReply reply = post(server, "/api/chat", body);
  EXPECT_EQ(reply.headers.at("content-type"), "application/x-ndjson");
  std::string thinking, content;
  Json calls = Json::array();
  const std::vector<Json> all = lines(reply.body);
  for (const Json& line : all) {
    const Json& message = line["message"];
    content += message["content"].get<std::string>();
    if (message.contains("thinking")) thinking += message["thinking"].get<std::string>();
    if (message.contains("tool_calls")) calls.push_back(message["tool_calls"][0]);
  }
  EXPECT_EQ(content, "Looking.");
  EXPECT_EQ(thinking.substr(0, 3), "Hm.");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0], Json::parse(R"({"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}})"));
  EXPECT_EQ(all.back()["done"], true);
  EXPECT_EQ(all.back()["done_reason"], "stop");
  EXPECT_EQ(all.back()["prompt_eval_count"], server.requests()[0].prompt.size());
  EXPECT_EQ(server.requests()[0].max_tokens, 777);
  EXPECT_EQ(server.requests()[0].sampling.repetition.strength, 1.2f);
  EXPECT_EQ(server.requests()[0].sampling.temperature, 0);
}

TEST(Ollama, GenerateTagsAndShow) {
  WireServer server;
  server.answer({.text = "Blue."});
  const Json whole =
      post_json(server, "/api/generate", {{"model", "m"}, {"prompt", "Sky?"}, {"stream", false}});
  EXPECT_EQ(whole["response"], "Blue.");
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(post_json(server, "/api/generate", {{"model", "m"}})["done_reason"], "load");
  post_json(server, "/api/generate", {{"prompt", "Sky"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(server.requests().back().prompt, server.text().raw_prompt("Sky").value());
  EXPECT_EQ(Json::parse(request(server.port(), "GET", "/api/tags").body)["models"][0]["name"], "fake-model");
  const Json show = post_json(server, "/api/show", {{"model", "fake-model"}});
  EXPECT_EQ(show["capabilities"][0], "completion");
  EXPECT_EQ(show["model_info"]["model.context_length"], 4096);
  EXPECT_TRUE(post_json(server, "/api/chat", {{"messages", 1}}, 400)["error"].is_string());
}

// ---- llama.cpp, tokenizer, description

TEST(LlamaCpp, CompletionAndInfill) {
  WireServer server;
  server.answer({.text = "one STOP two"});
  const Json whole = post_json(server, "/completion",
                               {{"prompt", "x"},
                                {"n_predict", 50},
                                {"stop", {"STOP"}},
                                {"logit_bias", Json::array({Json::array({5, -1})})}});
  EXPECT_EQ(whole["content"], "one ");
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "word");
  EXPECT_EQ(whole["stopping_word"], "STOP");
  EXPECT_EQ(server.requests()[0].sampling.logit_bias.size(), 1u);
  EXPECT_EQ(post_json(server, "/completion", {{"prompt", "x"}, {"n_predict", 2}})["stop_type"], "limit");
  const auto events = sse_events(post(server, "/completion", {{"prompt", "x"}, {"stream", true}}).body);
  std::string text;
  for (const auto& [name, data] : events) text += Json::parse(data)["content"].get<std::string>();
  EXPECT_EQ(text, "one STOP two");
  EXPECT_EQ(Json::parse(events.back().second)["stop"], true);
  EXPECT_EQ(post(server, "/completion", {{"prompt", "x"}, {"grammar", "root ::= x"}}).status, 400);
  // This tokenizer has no marks for it.
  EXPECT_EQ(
      post_json(server, "/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}}, 400)["error"]["code"],
      "unsupported");
}

TEST(Utility, TokensThereAndBack) {
  WireServer server;
  const Json tokens = post_json(server, "/tokenize", {{"content", "Hello, Zürich"}});
  EXPECT_EQ(tokens["tokens"].get<std::vector<int32_t>>(),
            server.text().tokenizer().encode("Hello, Zürich", false).value());
  EXPECT_EQ(post_json(server, "/detokenize", tokens)["content"], "Hello, Zürich");
  EXPECT_TRUE(
      post_json(server, "/tokenize", {{"content", "Hi"}, {"with_pieces", true}})["tokens"][0].contains(
          "piece"));
  const Json chat =
      post_json(server, "/tokenize", {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}});
  EXPECT_NE(chat["prompt"].get<std::string>().find("Hi"), std::string::npos);
  EXPECT_EQ(post(server, "/tokenize", Json::object()).status, 400);
  EXPECT_EQ(post(server, "/detokenize", {{"tokens", {"a"}}}).status, 400);
}

TEST(Utility, TheDescriptionIsTheTable) {
  WireServer server;
  const Json description = Json::parse(request(server.port(), "GET", "/openapi.json").body);
  EXPECT_EQ(description["openapi"], "3.1.0");
  size_t operations = 0;
  for (const auto& [path, methods] : description["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, routes().size());
  // Every reference leads somewhere.
  const std::string text = description.dump();
  const std::string prefix = "#/components/schemas/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    const size_t begin = at + prefix.size();
    const std::string name = text.substr(begin, text.find('"', begin) - begin);
    EXPECT_TRUE(description["components"]["schemas"].contains(name)) << name;
  }
  for (const char* path : {"/props", "/stats", "/v1"})
    EXPECT_EQ(request(server.port(), "GET", path).status, 200);
  const std::string metrics = request(server.port(), "GET", "/metrics").body;
  EXPECT_NE(metrics.find("# TYPE rafter_requests_total counter\nrafter_requests_total "), std::string::npos)
      << metrics;
}

}  // namespace
}  // namespace rafter::serve
