// The listener and the router on the wire: framing, limits, who may ask, clients that go away.
#include <gtest/gtest.h>

#include "serve/proto/json.h"
#include "tests/support/wire_server.h"

namespace rafter::serve {
namespace {

using std::chrono::milliseconds;
using testing::FakeAnswer;
using testing::request;
using testing::request_text;
using testing::WireClient;
using testing::WireOptions;
using testing::WireReply;
using testing::WireServer;

constexpr const char* kChat = R"({"messages":[{"role":"user","content":"Hi"}]})";
constexpr const char* kStream = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

TEST(Http, HealthIsExactAndAlwaysThere) {
  WireServer server;
  const WireReply reply = request(server.port(), "GET", "/health");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"status": "ok", "state": "ready"})");
  EXPECT_EQ(request(server.port(), "GET", "/ready").status, 200);
  server.on_loop([](auto& service) {
    service.now = ServiceState::failed;
    service.down_reason = "it died three times";
  });
  EXPECT_EQ(request(server.port(), "GET", "/health").body, R"({"status": "ok", "state": "failed"})");
  const WireReply ready = request(server.port(), "GET", "/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_TRUE(ready.headers.contains("retry-after"));
  EXPECT_NE(ready.body.find("it died three times"), std::string::npos);
}

TEST(Http, UnknownPathsAndMethodsSaySo) {
  WireServer server;
  EXPECT_EQ(request(server.port(), "GET", "/nothing").status, 404);
  const WireReply wrong = request(server.port(), "GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(
      request(server.port(), "POST", "/v1/chat/completions", kChat, {{"Content-Type", "multipart/form-data"}})
          .status,
      415);
  EXPECT_EQ(
      request(server.port(), "POST", "/v1/chat/completions", kChat, {{"Content-Encoding", "gzip"}}).status,
      415);
  EXPECT_EQ(
      request(server.port(), "GET", "/health", "", {{"Connection", "Upgrade"}, {"Upgrade", "websocket"}})
          .status,
      426);
  const WireReply head = request(server.port(), "HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
}

TEST(Http, OneConnectionTakesManyRequestsAlsoAtOnce) {
  WireServer server;
  WireClient client(server.port());
  client.send(request_text("GET", "/health"));
  EXPECT_EQ(client.read_reply().status, 200);
  client.send(request_text("POST", "/v1/chat/completions", kChat) +
              request_text("POST", "/v1/chat/completions", kStream) + request_text("GET", "/nothing"));
  EXPECT_EQ(client.read_reply().status, 200);
  const WireReply stream = client.read_reply();
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream");
  EXPECT_TRUE(stream.complete);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(client.read_reply().status, 404);
}

TEST(Http, ChunkedBodiesAndExpectAreRead) {
  WireServer server;
  WireClient client(server.port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string body = kChat;
  for (const char byte : body) client.send("1\r\n" + std::string(1, byte) + "\r\n");
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 200);
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_NE(client.read_until("100 Continue\r\n\r\n").find("100 Continue"), std::string::npos);
  client.send(body);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST(Http, LimitsAreAnswered) {
  WireOptions options;
  options.limits.body_bytes = 10'000;
  options.limits.header_bytes = 4096;
  WireServer server(options);
  const std::string large = R"({"messages":")" + std::string(20'000, 'x') + "\"}";
  EXPECT_EQ(request(server.port(), "POST", "/v1/chat/completions", large).status, 413);
  EXPECT_EQ(request(server.port(), "GET", "/health", "", {{"X-Large", std::string(9000, 'x')}}).status, 431);
  WireClient chunked(server.port());
  chunked.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("400\r\n" + std::string(1024, 'x') + "\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413);
  WireClient garbage(server.port());
  garbage.send("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_EQ(garbage.read_reply().status, 400);
  EXPECT_EQ(request(server.port(), "GET", "/%zz").status, 400);
}

TEST(Http, MalformedChunksAreAnswered) {
  WireOptions options;
  options.limits.header_bytes = 4096;
  WireServer server(options);
  for (const std::string& body : {std::string("-1\r\nx"), std::string("zz\r\nx"), std::string("1\r\nxyz\r\n"),
                                  "1;" + std::string(400'000, 'a'), "0\r\nA: " + std::string(400'000, 'a')}) {
    WireClient client(server.port());
    client.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(body);
    EXPECT_EQ(client.read_reply().status, 400) << body.substr(0, 20);
  }
}

TEST(Http, SlowClientsAreClosed) {
  WireOptions options;
  options.limits.header_time = milliseconds(100);
  options.limits.body_stall = milliseconds(100);
  options.limits.idle_time = milliseconds(100);
  WireServer server(options);
  WireClient idle(server.port()), header(server.port()), body(server.port());
  header.send("GET /health HTTP/1.1\r\nHost: loc");
  body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_TRUE(header.closed_by_server());
  EXPECT_TRUE(body.closed_by_server());
}

TEST(Http, ClientsThatGoAwayFreeTheirRow) {
  WireServer server;
  server.answer({.text = "word ", .between = milliseconds(1), .endless = true});
  for (const char* body : {kStream, kChat}) {
    std::vector<std::unique_ptr<WireClient>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<WireClient>(server.port()));
      clients.back()->send(request_text("POST", "/v1/chat/completions", body));
    }
    while (server.live() < 20) std::this_thread::sleep_for(milliseconds(1));
    clients.clear();
    EXPECT_TRUE(server.idle());
  }
}

TEST(Http, ASlowReaderIsGivenUpInBoundedMemory) {
  WireOptions options;
  options.limits.unsent_bytes = 100'000;
  WireServer server(options);
  server.answer({.text = std::string(1000, 'x'), .endless = true});
  WireClient client(server.port());
  client.send(request_text("POST", "/v1/chat/completions", kStream));
  client.read_until("\"x\"");
  EXPECT_TRUE(server.idle());  // the rest is never read
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Http, KeysAreAskedFor) {
  WireOptions options;
  options.access.keys = {"first", "second"};
  WireServer server(options);
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  const WireReply none = request(server.port(), "GET", "/v1/models");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(Json::parse(none.body)["error"]["code"], "invalid_api_key");
  EXPECT_EQ(request(server.port(), "GET", "/v1/models", "", {{"Authorization", "Bearer second"}}).status,
            200);
  EXPECT_EQ(request(server.port(), "GET", "/v1/models", "", {{"x-api-key", "first"}}).status, 200);
  EXPECT_EQ(request(server.port(), "GET", "/v1/models", "", {{"Authorization", "Bearer secon"}}).status, 401);
  EXPECT_EQ(request(server.port(), "GET", "/v1/models", "", {{"Authorization", "Bearer "}}).status, 401);
}

TEST(Http, PagesOfOthersAreKeptOut) {
  WireOptions options;
  options.access.allowed_origins = {"https://friend.example"};
  WireServer server(options);
  const auto with = [&](const char* name, const char* value) {
    return request(server.port(), "GET", "/v1/models", "", {{name, value}});
  };
  EXPECT_EQ(with("Host", "evil.example").status, 403);
  EXPECT_EQ(with("Host", "127.0.0.1:8080").status, 200);
  EXPECT_EQ(with("Host", "[::1]:8080").status, 200);
  for (const char* host :
       {"evil.example, a.localhost", "[::1].evil.example", "[::1", "evil.example:1@localhost",
        "localhost:80@evil.example", "127.0.0.1.evil.example", "localhost:8x", ":80"}) {
    EXPECT_EQ(with("Host", host).status, 403) << host;
    EXPECT_EQ(with("Origin", ("http://" + std::string(host)).c_str()).status, 403) << host;
  }
  EXPECT_EQ(with("Origin", "https://evil.example").status, 403);
  EXPECT_EQ(with("Origin", "null").status, 403);
  EXPECT_EQ(with("Origin", "http://localhost.evil.example").status, 403);
  EXPECT_EQ(with("Origin", "http://localhost:3000").headers.at("access-control-allow-origin"),
            "http://localhost:3000");
  EXPECT_EQ(with("Origin", "https://friend.example").status, 200);
  const WireReply preflight =
      request(server.port(), "OPTIONS", "/v1/chat/completions", "",
              {{"Origin", "http://localhost:3000"}, {"Access-Control-Request-Headers", "x-a, content-type"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "x-a, content-type");
}

TEST(Http, ExposureNeedsAKeyOrAWord) {
  EXPECT_TRUE(check_exposure({}).ok());
  AccessOptions open;
  open.host = "0.0.0.0";
  EXPECT_FALSE(check_exposure(open).ok());
  open.no_auth = true;
  EXPECT_TRUE(check_exposure(open).ok());
  open.no_auth = false;
  open.keys = {"k"};
  EXPECT_TRUE(check_exposure(open).ok());
  open.keys = {""};
  EXPECT_FALSE(check_exposure(open).ok());
}

TEST(Http, ATakenPortSaysByWhom) {
  WireServer server;
  EventLoop loop;
  const auto second =
      HttpServer::listen(loop, {.host = "127.0.0.1", .port = server.port(), .limits = {}}, nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find("the port is taken by http_test"), std::string::npos)
      << second.error().message();
}

TEST(Http, DrainingEndsAnswersAndClosesTheRest) {
  WireServer server;
  server.answer({.text = "one two three", .between = milliseconds(20)});
  WireClient idle(server.port()), busy(server.port());
  idle.send(request_text("GET", "/health"));
  idle.read_reply();
  busy.send(request_text("POST", "/v1/chat/completions", kStream));
  busy.read_until("data: ");
  std::atomic<bool> drained = false;
  server.drain([&] { drained = true; });
  EXPECT_TRUE(idle.closed_by_server());
  const WireReply reply = busy.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n")) << reply.body;
  for (int i = 0; i < 500 && !drained; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(drained);
}

TEST(Http, AnAnswerThatOutlastsTheDrainEndsWithAnError) {
  WireServer server;
  server.answer({.text = "one two three", .between = milliseconds(20), .endless = true});
  WireClient stream(server.port()), whole(server.port());
  stream.send(request_text("POST", "/v1/chat/completions", kStream));
  stream.read_until("data: ");
  whole.send(request_text("POST", "/v1/chat/completions", kChat));
  while (server.live() < 2) std::this_thread::sleep_for(milliseconds(1));
  std::atomic<bool> drained = false;
  server.drain([&] { drained = true; }, milliseconds(200));
  const WireReply reply = stream.read_reply();
  EXPECT_TRUE(reply.complete);
  EXPECT_NE(reply.body.find("the server is stopping"), std::string::npos) << reply.body;
  EXPECT_EQ(whole.read_reply().status, 503);
  for (int i = 0; i < 500 && !drained; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(drained);
  EXPECT_TRUE(server.idle());
}

TEST(Http, ManyIdleConnectionsDoNotMatter) {
  WireServer server;
  std::vector<std::unique_ptr<WireClient>> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(std::make_unique<WireClient>(server.port()));
  while (server.connections() < 400) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(request(server.port(), "POST", "/v1/chat/completions", kChat).status, 200);
  idle.clear();
}

}  // namespace
}  // namespace rafter::serve
