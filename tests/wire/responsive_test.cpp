// The loop stays free: what takes long to read is read aside, within bounds, and for nobody who has left.
#include <future>

#include <gtest/gtest.h>

#include "serve/proto/json.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using std::chrono::milliseconds;
using testing::request;
using testing::request_text;
using testing::WireClient;
using testing::WireOptions;
using testing::WireReply;
using testing::WireServer;

constexpr const char* kChat = R"({"messages":[{"role":"user","content":"Hi"}]})";
constexpr size_t kLarge = 1 << 20;

// Occupies one helper with work of so many bytes.
class Holder {
 public:
  Holder(WireServer& server, size_t bytes) {
    std::promise<void> entered;
    EXPECT_TRUE(server.run_aside(
        [&entered, released = release_.get_future().share()] {
          entered.set_value();
          released.wait();
        },
        bytes));
    entered.get_future().wait();
  }
  ~Holder() { release_.set_value(); }

 private:
  std::promise<void> release_;
};

// Bodies that take long to read, in different ways.
std::string many_values(size_t bytes) {
  std::string body = R"({"messages":[)";
  while (body.size() < bytes) body += R"({"role":"user","content":[[],{},1]},)";
  return body + "0]}";
}
std::string long_text(size_t bytes) {
  return R"({"messages":[{"role":"user","content":5},{"role":"user","content":")" + std::string(bytes, 'x') +
         "\"}]}";
}
std::string many_tools(size_t bytes) {
  std::string body = R"({"messages":[{"role":5,"content":"Hi"}],"tools":[)";
  for (int i = 0; body.size() < bytes; ++i)
    body += fmt::format(
        R"({{"type":"function","function":{{"name":"f{}","parameters":{{"type":"object"}}}}}},)", i);
  body.back() = ']';
  return body + "}";
}

TEST(Responsive, HealthAnswersWhileLargeBodiesAreRead) {
  constexpr size_t kBytes = 30 << 20;
  using Clock = std::chrono::steady_clock;
  WireServer server;
  // Other programs take their share of the machine's time, but not for long.
  Clock::duration silent{0}, total{0};
  for (const std::string& body : {many_values(kBytes), long_text(kBytes), many_tools(kBytes)}) {
    WireClient large(server.port(), std::chrono::seconds(120)), watcher(server.port());
    large.send(request_text("POST", "/v1/chat/completions", body));
    const auto begin = Clock::now();
    while (!large.has_more()) {
      const auto asked = Clock::now();
      watcher.send(request_text("GET", "/health"));
      ASSERT_EQ(watcher.read_reply().status, 200);
      if (const auto waited = Clock::now() - asked; waited > milliseconds(50)) silent += waited;
    }
    total += Clock::now() - begin;
    const WireReply reply = large.read_reply();
    EXPECT_TRUE(reply.complete);
    EXPECT_EQ(reply.status, 400) << reply.body.substr(0, 200);
  }
  EXPECT_LT(silent, total / 3) << "health was late for most of the time";
}

TEST(Responsive, AShortRequestPassesALongOne) {
  WireServer server;
  const Holder holder(server, kLarge);
  EXPECT_EQ(request(server.port(), "POST", "/v1/chat/completions", kChat).status, 200);
  EXPECT_EQ(request(server.port(), "POST", "/tokenize", R"({"content":"a"})").status, 200);
}

TEST(Responsive, MoreThanIsReadAtOnceIsToldSoInEachShape) {
  WireOptions options;
  options.helpers.jobs = 1;
  WireServer server(options);
  const Holder holder(server, kLarge);
  for (const char* path :
       {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
        "/v1/embeddings", "/api/chat", "/completion", "/tokenize"}) {
    const WireReply reply = request(server.port(), "POST", path, kChat);
    EXPECT_EQ(reply.status, 429) << path;
    EXPECT_TRUE(reply.headers.contains("retry-after")) << path;
    EXPECT_NE(reply.body.find("too many requests are being read"), std::string::npos) << path;
  }
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Responsive, WhoLeavesIsNotReadFor) {
  WireServer server;
  {
    const Holder first(server, kLarge), second(server, 0);
    std::vector<std::unique_ptr<WireClient>> clients;
    for (int i = 0; i < 10; ++i) {
      clients.push_back(std::make_unique<WireClient>(server.port()));
      clients.back()->send(request_text("POST", "/v1/chat/completions", kChat));
    }
    while (server.connections() < 10) std::this_thread::sleep_for(milliseconds(1));
    clients.clear();
    while (server.connections() > 0) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(request(server.port(), "POST", "/v1/chat/completions", kChat).status, 200);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Responsive, APromptBeyondTheContextIsNotSentToTheModel) {
  WireServer server;
  const std::string text(200'000, 'x');
  const WireReply reply = request(server.port(), "POST", "/v1/completions", R"({"prompt":")" + text + "\"}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(Json::parse(reply.body)["error"]["code"], "context_over_budget") << reply.body;
  EXPECT_NE(reply.body.find("4096"), std::string::npos) << reply.body;
  EXPECT_TRUE(server.requests().empty());
}

TEST(Responsive, AsManyValuesAsMemoryTakesAndNoMore) {
  WireServer server;
  std::string body = R"({"content":"a","rest":[0)";
  while (body.size() < 9'000'000) body += ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
  const WireReply reply = request(server.port(), "POST", "/tokenize", body + "]}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("too many values"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace rafter::serve
