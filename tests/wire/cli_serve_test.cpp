// `rafter serve` as people run it: the program, its worker process, a real model.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/support/run_program.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/serve_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using nlohmann::json;
using testing::ServeProgram;
using testing::WireClient;
using testing::WireReply;
using namespace std::chrono_literals;

const std::string kModel = std::string(RAFTER_SOURCE_DIR) + "/build/models/smollm2-135m-instruct.gguf";

json chat_body(const std::string& question, int max_tokens, bool stream) {
  return {{"messages", {{{"role", "user"}, {"content", question}}}},
          {"temperature", 0},
          {"max_tokens", max_tokens},
          {"stream", stream}};
}

std::string post(const std::string& path, const json& body) {
  const std::string text = body.dump();
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      path, text.size(), text);
}

// A sanitizer makes answers slow.
constexpr auto kPatience = 120s;

WireReply ask(uint16_t port, const json& body) {
  WireClient client(port, kPatience);
  client.send(post("/v1/chat/completions", body));
  return client.read_reply();
}

std::string content_of(const WireReply& reply) {
  const json answer = json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !answer.is_object()) return fmt::format("{}: {}", reply.status, reply.body);
  return answer.at("choices")[0].at("message").at("content");
}

json health(uint16_t port) {
  WireClient client(port);
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return json::parse(client.read_reply().body, nullptr, false);
}

class CliServe : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kModel)) GTEST_SKIP() << "make build/models/… fetches the model";
  }
};

TEST_F(CliServe, AnswersAsGenerateDoesAloneAndInCompany) {
  const std::string question = "Name three rivers of Europe.";
  constexpr int kTokens = 24, kOthers = 15;
  const auto generated = testing::run_program({"generate", kModel, question, "--temperature", "0",
                                               "--max-tokens", std::to_string(kTokens), "--json"});
  const std::string expected = json::parse(generated.out, nullptr, false).at("text");
  ServeProgram server(kModel, {"--batch", "16"});
  EXPECT_EQ(content_of(ask(server.port(), chat_body(question, kTokens, false))), expected);
  const WireReply fit = testing::request(server.port(), "GET", "/fit?ctx=512");
  EXPECT_EQ(fit.status, 200) << fit.body;
  EXPECT_EQ(json::parse(fit.body, nullptr, false).at("ctx"), 512);
  EXPECT_EQ(testing::request(server.port(), "GET", "/fit?ctx=many").status, 400);
  std::vector<std::thread> others;
  for (int i = 0; i < kOthers; ++i) {
    others.emplace_back([&, i] {
      const json body = chat_body(fmt::format("Count from {} to {}.", i, i + 20), kTokens + i, false);
      EXPECT_EQ(ask(server.port(), body).status, 200);
    });
  }
  EXPECT_EQ(content_of(ask(server.port(), chat_body(question, kTokens, false))), expected);
  for (std::thread& other : others) other.join();
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST_F(CliServe, AKilledWorkerEndsItsStreamsAndAnotherServes) {
  ServeProgram server(kModel);
  WireClient client(server.port(), kPatience);
  client.send(post("/v1/chat/completions", chat_body("Write a very long story about the sea.", 1500, true)));
  const std::string begin = client.read_until("\"content\":\"");
  ASSERT_NE(begin.find("text/event-stream"), std::string::npos) << begin;
  const pid_t worker = server.worker();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  const std::string rest = client.read_until("\"error\"");
  EXPECT_NE(rest.find("\"error\""), std::string::npos) << rest;
  EXPECT_EQ(health(server.port()).at("status"), "ok");
  int status = 0;
  for (int i = 0; i < 200 && status != 200; ++i) {
    status = ask(server.port(), chat_body("Hello", 4, false)).status;
    if (status != 200) std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(status, 200);
  EXPECT_NE(server.worker(), worker);
}

TEST_F(CliServe, AFloodOfConnectionsBeyondTheDescriptors) {
  constexpr int kFlood = 400;
  ServeProgram server(kModel, {}, /*descriptors=*/200);
  WireClient before(server.port());
  const auto asks_before = [&] {
    before.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return before.read_reply().status;
  };
  ASSERT_EQ(asks_before(), 200);
  std::vector<std::unique_ptr<WireClient>> flood;
  for (int i = 0; i < kFlood; ++i) flood.push_back(std::make_unique<WireClient>(server.port()));
  EXPECT_EQ(asks_before(), 200);
  // A worker can be replaced in the middle of it.
  const pid_t worker = server.worker();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  for (int i = 0; i < 300 && (server.worker() == worker || server.worker() < 0); ++i)
    std::this_thread::sleep_for(100ms);
  EXPECT_NE(server.worker(), worker);
  EXPECT_EQ(asks_before(), 200);
  flood.clear();
  int status = 0;
  for (int i = 0; i < 300 && status != 200; ++i) {
    status = ask(server.port(), chat_body("Hello", 4, false)).status;
    if (status != 200) std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(status, 200);
}

TEST_F(CliServe, AModelFileThatIsCutIsNotServedAnyMore) {
  const testing::TempFolder folder;
  const std::string model = folder / "model.gguf";
  std::filesystem::copy_file(kModel, model);
  ServeProgram server(model);
  EXPECT_EQ(testing::request(server.port(), "GET", "/ready").status, 200);
  std::filesystem::resize_file(model, 1 << 20);
  json ready;
  for (int i = 0; i < 300; ++i) {
    const WireReply reply = testing::request(server.port(), "GET", "/ready");
    ready = json::parse(reply.body, nullptr, false);
    if (reply.status == 503 && ready["state"] == "failed") break;
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(ready["state"], "failed");
  EXPECT_NE(ready["reason"].get<std::string>().find("model.gguf"), std::string::npos) << ready;
  EXPECT_EQ(ask(server.port(), chat_body("Hello", 4, false)).status, 503);
  EXPECT_EQ(health(server.port()).at("status"), "ok");
}

// Another program holds the registry: a model by its name cannot be found, and says why; one by its path is
// served all the same.
TEST_F(CliServe, ALockedRegistry) {
  const testing::TempFolder folder;
  const testing::ScopedVariable cache("XDG_CACHE_HOME", folder.path().c_str());
  ASSERT_EQ(testing::run_program({"scan", "--name", "mine", kModel}).exit_code, 0);
  const std::string registry = folder / "rafter/registry.sqlite";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(registry.c_str(), &database), SQLITE_OK);
  const char* const lock = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE held (a)";
  ASSERT_EQ(sqlite3_exec(database, lock, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  std::thread by_path([] {
    ServeProgram server(kModel);
    EXPECT_EQ(testing::request(server.port(), "GET", "/ready").status, 200);
  });
  const auto by_name = testing::run_program({"serve", "mine", "--port", "0"});
  by_path.join();
  sqlite3_close(database);
  EXPECT_EQ(by_name.exit_code, 1);
  EXPECT_NE(by_name.error.find("another program holds it"), std::string::npos) << by_name.error;
  EXPECT_NE(by_name.error.find(registry), std::string::npos) << by_name.error;
}

// ChatML whose answers begin with reasoning, and Hermes' calls.
constexpr const char* kThinkingTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

TEST_F(CliServe, HoldsAnswersToTheirFormBehindReasoning) {
  const testing::TempFolder folder;
  folder.write("thinking.jinja", kThinkingTemplate);
  ServeProgram server(kModel, {"--chat-template", folder / "thinking.jinja", "--reasoning-budget", "12"});
  json body = chat_body("How many legs has a spider?", 80, false);
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema",
                              {{"schema",
                                {{"type", "object"},
                                 {"properties", {{"legs", {{"type", "integer"}, {"maximum", 99}}}}},
                                 {"required", {"legs"}}}}}}};
  const json whole = json::parse(ask(server.port(), body).body, nullptr, false);
  const json& message = whole.at("choices")[0].at("message");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop") << whole;
  EXPECT_NE(message.value("reasoning", ""), "") << whole;
  EXPECT_TRUE(
      json::parse(message["content"].get<std::string>(), nullptr, false).at("legs").is_number_integer())
      << whole;
  EXPECT_LE(whole["usage"]["completion_tokens_details"]["reasoning_tokens"].get<int>(), 20) << whole;

  // The same by pieces.
  body["stream"] = true;
  WireClient client(server.port(), kPatience);
  client.send(post("/v1/chat/completions", body));
  std::string content;
  for (const auto& [event, data] : testing::sse_events(client.read_reply().body)) {
    const json chunk = json::parse(data, nullptr, false);
    if (chunk.is_object() && !chunk["choices"].empty())
      content += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(content, message["content"].get<std::string>());

  json forced = chat_body("What is the weather in Oslo?", 120, false);
  forced["tools"] = {
      {{"type", "function"},
       {"function",
        {{"name", "get_weather"},
         {"strict", true},
         {"parameters",
          {{"type", "object"},
           {"properties", {{"city", {{"type", "string"}, {"maxLength", 12}}}, {"days", {{"enum", {1, 7}}}}}},
           {"required", {"city", "days"}},
           {"additionalProperties", false}}}}}}};
  forced["tool_choice"] = "required";
  forced["parallel_tool_calls"] = false;
  const json called = json::parse(ask(server.port(), forced).body, nullptr, false);
  ASSERT_EQ(called.at("choices")[0].at("finish_reason"), "tool_calls") << called;
  const json& call = called["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "get_weather");
  const json arguments = json::parse(call["arguments"].get<std::string>(), nullptr, false);
  EXPECT_TRUE(arguments.at("city").is_string() && (arguments.at("days") == 1 || arguments.at("days") == 7))
      << call;

  forced["tools"][0]["function"]["parameters"]["properties"]["days"] = {{"not", json::object()}};
  const WireReply refused = ask(server.port(), forced);
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_NE(refused.body.find("get_weather"), std::string::npos) << refused.body;
}

TEST_F(CliServe, ReasoningThatAClientDroppedIsInTheCacheAgain) {
  const testing::TempFolder folder;
  folder.write("thinking.jinja", kThinkingTemplate);
  ServeProgram server(kModel, {"--chat-template", folder / "thinking.jinja", "--reasoning-budget", "60"});
  json body = chat_body("Name a river.", 90, false);
  const json first = json::parse(ask(server.port(), body).body, nullptr, false);
  const json& said = first.at("choices")[0].at("message");
  ASSERT_NE(said.value("reasoning", ""), "") << first;
  const auto cached_behind = [&](const std::string& content) {
    json next = body;
    next["messages"].push_back({{"role", "assistant"}, {"content", content}});
    next["messages"].push_back({{"role", "user"}, {"content", "Another."}});
    next["max_tokens"] = 2;
    const json answer = json::parse(ask(server.port(), next).body, nullptr, false);
    return answer.at("usage").at("prompt_tokens_details").at("cached_tokens").get<int>();
  };
  const int edited = cached_behind(said["content"].get<std::string>() + " (edited)");
  const int same = cached_behind(said["content"]);
  // All that the first answer computed, but for the token that was sampled last.
  const json& usage = first["usage"];
  EXPECT_GE(same, usage["prompt_tokens"].get<int>() +
                      usage["completion_tokens_details"]["reasoning_tokens"].get<int>() - 2)
      << first;
  EXPECT_LT(edited, usage["prompt_tokens"].get<int>()) << first;
}

TEST_F(CliServe, SaysWhatItCannotDo) {
  const auto missing = testing::run_program({"serve", "/none/such"});
  EXPECT_EQ(missing.exit_code, 1);
  const auto exposed = testing::run_program({"serve", kModel, "--host", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(exposed.exit_code, 2);
  EXPECT_NE(exposed.error.find("--api-key"), std::string::npos) << exposed.error;
  for (const char* host : {"1.2.3", "127.1", "", "my-machine"}) {
    const auto nowhere = testing::run_program({"serve", kModel, "--host", host, "--port", "0"});
    EXPECT_EQ(nowhere.exit_code, 2) << host;
    EXPECT_NE(nowhere.error.find("is no IP address"), std::string::npos) << nowhere.error;
  }
  const auto origin = testing::run_program({"serve", kModel, "--allowed-origins", "a.example/path"});
  EXPECT_EQ(origin.exit_code, 2);
  const auto unopened = testing::run_program({"serve", kModel, "--port", "0", "--kv-quant", "config"});
  EXPECT_EQ(unopened.exit_code, 1);
  const size_t said = unopened.error.find("kv_config.json");
  ASSERT_NE(said, std::string::npos) << unopened.error;
  EXPECT_EQ(unopened.error.find("kv_config.json", said + 1), std::string::npos) << unopened.error;
  ServeProgram server(kModel);
  const auto taken = testing::run_program({"serve", kModel, "--port", std::to_string(server.port())});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_NE(taken.error.find(std::to_string(server.port())), std::string::npos) << taken.error;
}

TEST_F(CliServe, AConversationOutlivesTheServer) {
  const testing::TempFolder cache;
  std::string question = "Name three rivers of Europe, and say of each through which countries it flows.";
  for (const char* river : {"Danube", "Rhine", "Elbe", "Loire", "Vistula", "Tagus", "Volga", "Po"})
    question += fmt::format(" I know the {} already, so leave it out.", river);  // worth a file
  json body = chat_body(question, 24, false);
  const auto cached_of = [](const WireReply& reply) {
    const json answer = json::parse(reply.body, nullptr, false);
    return answer.at("usage").at("prompt_tokens_details").at("cached_tokens").get<int>();
  };
  std::string said;
  {
    ServeProgram server(kModel, {"--prompt-cache-dir", cache.path()});
    const WireReply reply = ask(server.port(), body);
    said = content_of(reply);
    EXPECT_EQ(cached_of(reply), 0);
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
  ServeProgram server(kModel, {"--prompt-cache-dir", cache.path()});
  const WireReply again = ask(server.port(), body);
  EXPECT_EQ(content_of(again), said);
  EXPECT_GT(cached_of(again), 100);
  body["messages"].push_back({{"role", "assistant"}, {"content", said}});
  body["messages"].push_back({{"role", "user"}, {"content", "Which of them is the longest?"}});
  const WireReply next = ask(server.port(), body);
  EXPECT_EQ(next.status, 200) << next.body;
  EXPECT_GT(cached_of(next), cached_of(again));
  EXPECT_EQ(server.end(SIGTERM), 0);
}

}  // namespace
}  // namespace rafter::serve
