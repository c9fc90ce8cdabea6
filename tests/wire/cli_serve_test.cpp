// `rafter serve` as people run it: the program, its worker process, a real model.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using nlohmann::json;
using testing::WireClient;
using testing::WireReply;
using namespace std::chrono_literals;

const std::string kModel = std::string(RAFTER_SOURCE_DIR) + "/build/models/smollm2-135m-instruct.gguf";

// The program with `--port 0 --json`, until it is told to go.
class ServeProgram {
 public:
  explicit ServeProgram(const std::vector<std::string>& flags = {}) {
    int out[2];
    RAFTER_CHECK(::pipe(out) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]), ::close(out[1]);
      std::vector<std::string> arguments = {"serve", kModel, "--port", "0", "--json"};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      testing::execute_program(arguments);
    }
    ::close(out[1]);
    std::string line;
    for (char c; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    const json ready = json::parse(line, nullptr, false);
    RAFTER_CHECK(ready.is_object(), "serve said \"{}\"", line);
    const std::string url = ready.at("url");
    port_ = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  ~ServeProgram() {
    if (process_ > 0) end(SIGKILL);
  }

  uint16_t port() const { return port_; }
  // Sends the signal; what the program ended with.
  int end(int signal) {
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return testing::exit_code_of_status(status);
  }
  // The worker: the program's only child.
  pid_t worker() const {
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process_))) {
      std::ifstream children(task.path() / "children");
      if (pid_t child = 0; children >> child) return child;
    }
    return -1;
  }

 private:
  pid_t process_ = -1;
  uint16_t port_ = 0;
};

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
  ServeProgram server({"--batch", "16"});
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
  ServeProgram server;
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

TEST_F(CliServe, SaysWhatItCannotDo) {
  const auto missing = testing::run_program({"serve", "/none/such"});
  EXPECT_EQ(missing.exit_code, 1);
  const auto exposed = testing::run_program({"serve", kModel, "--host", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(exposed.exit_code, 2);
  EXPECT_NE(exposed.error.find("--api-key"), std::string::npos) << exposed.error;
  const auto origin = testing::run_program({"serve", kModel, "--allowed-origins", "a.example/path"});
  EXPECT_EQ(origin.exit_code, 2);
  const auto unopened = testing::run_program({"serve", kModel, "--port", "0", "--kv-quant", "config"});
  EXPECT_EQ(unopened.exit_code, 1);
  const size_t said = unopened.error.find("kv_config.json");
  ASSERT_NE(said, std::string::npos) << unopened.error;
  EXPECT_EQ(unopened.error.find("kv_config.json", said + 1), std::string::npos) << unopened.error;
  ServeProgram server;
  const auto taken = testing::run_program({"serve", kModel, "--port", std::to_string(server.port())});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_NE(taken.error.find(std::to_string(server.port())), std::string::npos) << taken.error;
}

}  // namespace
}  // namespace rafter::serve
