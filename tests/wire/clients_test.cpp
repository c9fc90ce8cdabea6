// Real client libraries against the server: those of oracle/requirements.txt and
// tests/wire/clients/package.json.
#include <array>
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using testing::FakeAnswer;
using testing::WireOptions;
using testing::WireServer;

constexpr const char* kPython = RAFTER_SOURCE_DIR "/build/oracle/venv/bin/python";

WireOptions tool_caller() {
  WireOptions options;
  options.chat_template =
      "{%- for m in messages %}<|im_start|>{{ m.role }}{{ '\\n' }}{{ m.content }}"
      "{%- for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>"
      "{%- endfor %}{%- if tools %}{{ tools | tojson }}{% endif %}<|im_start|>assistant{{ '\\n' }}";
  return options;
}

// What the model says depends on its prompt alone.
FakeAnswer answer_to(const std::string& prompt) {
  if (prompt.find("forever") != std::string::npos)
    return {.text = "word ", .between = std::chrono::milliseconds(5), .endless = true};
  const bool has_tools = prompt.find("get_weather") != std::string::npos,
             has_result = prompt.find("rain") != std::string::npos;
  if (has_tools && !has_result)
    return {
        .text =
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"};
  return {.text = "Hello there."};
}

struct Finished {
  int status = -1;
  std::string output;
};

Finished run_shell(const std::string& command) {
  Finished result;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> bytes;
  size_t count = 0;
  while ((count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0)
    result.output.append(bytes.data(), count);
  result.status = ::pclose(pipe);
  return result;
}

class Clients : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kPython)) GTEST_SKIP() << "no " << kPython << " (make oracle)";
    server.on_loop([](testing::FakeService& service) {
      service.script = [&service](const CompletionRequest& request) {
        return answer_to(service.text_of(request));
      };
    });
  }
  WireServer server{tool_caller()};
};

TEST_F(Clients, OpenAiAndAnthropicSdks) {
  const Finished done = run_shell(std::string(kPython) +
                                  " " RAFTER_SOURCE_DIR "/tests/wire/clients/sdk_client.py " + server.url());
  EXPECT_EQ(done.status, 0) << done.output;
}

TEST_F(Clients, NodeSdks) {
  const std::string modules = RAFTER_SOURCE_DIR "/build/wire";
  if (!std::filesystem::exists(modules + "/node_modules"))
    GTEST_SKIP() << "no node_modules in " << modules << " (make oracle)";
  const Finished done =
      run_shell("cd " + modules + " && timeout 120 node --input-type=module - " + server.url() +
                " < " RAFTER_SOURCE_DIR "/tests/wire/clients/sdk_client.mjs");
  EXPECT_EQ(done.status, 0) << done.output;
}

// Requests made from the server's own description: no 5xx and no hang.
TEST_F(Clients, SchemathesisFindsNoServerError) {
  const testing::TempFolder folder;  // it leaves a cache where it runs
  const Finished done =
      run_shell("cd " + folder.path() + " && timeout 300 " + std::string(kPython) +
                " -m schemathesis.cli run " + server.url() +
                "/openapi.json --checks not_a_server_error --max-examples 10 --seed 1 --request-timeout 10 "
                "--phases examples,fuzzing --no-color");
  EXPECT_EQ(done.status, 0) << done.output.substr(done.output.size() > 6000 ? done.output.size() - 6000 : 0);
}

}  // namespace
}  // namespace rafter::serve
