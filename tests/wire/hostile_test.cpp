// Clients that mean no good, or know no better: what they get, and that nothing of them stays.
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
constexpr const char* kStream = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

// Waits until no connection is left.
bool is_left_alone(WireServer& server) {
  for (int i = 0; i < 3000; ++i) {
    if (server.connections() == 0 && server.live() == 0) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

std::string http10(const std::string& method, const std::string& path, const std::string& body) {
  return method + " " + path +
         " HTTP/1.0\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(Hostile, AByteAtATimeIsNoWayToStay) {
  WireOptions options;
  options.limits.header_time = milliseconds(300);
  options.limits.body_time = milliseconds(300);
  WireServer server(options);
  WireClient header(server.port()), body(server.port()), chunks(server.port());
  header.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
  body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  chunks.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  while (server.connections() < 3) std::this_thread::sleep_for(milliseconds(1));
  for (int i = 0; i < 1000 && server.connections() > 0; ++i) {
    header.send("x");
    body.send(" ");
    chunks.send("1\r\n \r\n");
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(server.connections(), 0u);
}

TEST(Hostile, AReaderThatStopsIsGivenUp) {
  WireOptions options;
  options.limits.write_stall = milliseconds(200);
  WireServer server(options);
  WireClient client(server.port());
  // Its answer is larger than what the system takes off a sender's hands.
  std::string text;
  while (text.size() < 2'000'000) text += "q z-";
  client.send(request_text("POST", "/tokenize", R"({"with_pieces":true,"content":")" + text + "\"}"));
  EXPECT_TRUE(is_left_alone(server));
}

TEST(Hostile, WhoClosesItsHalfHasLeft) {
  WireServer server;
  server.answer({.text = "word ", .between = milliseconds(1), .endless = true});
  WireClient client(server.port());
  client.send(request_text("POST", "/v1/chat/completions", kStream));
  client.read_until("data: ");
  client.finish_sending();
  EXPECT_TRUE(is_left_alone(server));
}

TEST(Hostile, OldHttpGetsItsAnswerWithoutChunks) {
  WireServer server;
  WireClient whole(server.port()), stream(server.port());
  whole.send(http10("POST", "/v1/chat/completions", kChat));
  const WireReply answer = whole.read_reply();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(Json::parse(answer.body).contains("choices")) << answer.body;
  EXPECT_TRUE(whole.closed_by_server());
  stream.send(http10("POST", "/v1/chat/completions", kStream));
  const WireReply events = stream.read_reply();
  EXPECT_EQ(events.status, 200);
  EXPECT_FALSE(events.headers.contains("transfer-encoding"));
  EXPECT_TRUE(events.body.ends_with("data: [DONE]\n\n")) << events.body;
}

// Two readings of where a body ends let one request hide in another.
TEST(Hostile, BodiesThatEndInTwoPlacesAreRefused) {
  WireServer server;
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& headers :
       {std::string("Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"),
        std::string("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        std::string("Content-Length: -5\r\n\r\n"), std::string("Content-Length: 5, 6\r\n\r\nabcdef"),
        std::string("Content-Length: 0x5\r\n\r\nabcde"),
        std::string("Content-Length: 99999999999999999999\r\n\r\n")}) {
    WireClient client(server.port());
    client.send(head + headers);
    const WireReply reply = client.read_reply();
    EXPECT_TRUE(reply.status == 400 || reply.status == 413) << reply.status << " " << headers;
    EXPECT_TRUE(client.closed_by_server()) << headers;
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST(Hostile, OddHeadersAreAnswered) {
  WireServer server;
  const auto status_of = [&](const std::string& text) {
    WireClient client(server.port());
    client.send(text);
    return client.read_reply().status;
  };
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), 403);
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n"), 403);
  EXPECT_EQ(status_of("GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(status_of("get /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
  EXPECT_EQ(status_of("GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET //health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
  EXPECT_EQ(status_of("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
  EXPECT_EQ(status_of("CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(status_of("TRACE /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
  std::string many = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5000; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), 200);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
  EXPECT_TRUE(is_left_alone(server));
}

// A thousand requests at once and nobody who reads: they are answered one after the other, as far as the
// system's buffers go.
TEST(Hostile, APipelineThatIsNeverReadHoldsNothingUp) {
  WireOptions options;
  options.limits.write_stall = milliseconds(300);
  WireServer server(options);
  WireClient client(server.port());
  std::string text;
  for (int i = 0; i < 1000; ++i) text += request_text("GET", "/openapi.json");
  client.send(text);
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_TRUE(is_left_alone(server));
}

TEST(Hostile, AFloodIsRefusedAndForgotten) {
  WireOptions options;
  options.limits.connections = 20;
  WireServer server(options);
  WireClient first(server.port());
  first.send(request_text("GET", "/health"));
  EXPECT_EQ(first.read_reply().status, 200);
  std::vector<std::unique_ptr<WireClient>> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(std::make_unique<WireClient>(server.port()));
  EXPECT_EQ(flood[25]->read_reply().status, 503);
  EXPECT_LE(server.connections(), 84u);
  first.send(request_text("GET", "/health"));
  EXPECT_EQ(first.read_reply().status, 200);
  flood.clear();
  first.close();
  EXPECT_TRUE(is_left_alone(server));
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Hostile, UpgradesAreDeclined) {
  WireServer server;
  for (const char* path : {"/health", "/v1/chat/completions", "/none"}) {
    const WireReply reply = request(server.port(), "GET", path, "",
                                    {{"Connection", "Upgrade"},
                                     {"Upgrade", "websocket"},
                                     {"Sec-WebSocket-Version", "13"},
                                     {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}});
    EXPECT_GE(reply.status, 400) << path;
  }
  EXPECT_EQ(
      request(server.port(), "GET", "/health", "", {{"Connection", "Upgrade"}, {"Upgrade", "h2c"}}).status,
      200);
}

}  // namespace
}  // namespace rafter::serve
