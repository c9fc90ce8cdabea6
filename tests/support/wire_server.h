// The real front over a fake model, on a thread of its own, and a plain HTTP client that shows every byte.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/front_server.h"
#include "tests/support/fake_service.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {

struct WireOptions {
  std::string shape = "llama3-tiny";  // whose tokenizer and template
  std::string chat_template;          // another template's source; empty: the shape's
  serve::AccessOptions access;
  serve::HttpLimits limits;
  serve::HelperLimits helpers;
  serve::FrontOptions front;
};

class WireServer {
 public:
  explicit WireServer(WireOptions options = {});
  ~WireServer();

  uint16_t port() const { return server_->port(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }

  // Runs on the loop and waits for it: the only way to touch the service while it serves.
  void on_loop(const std::function<void(FakeService&)>& work);
  // Every request's answer from now on.
  void answer(FakeAnswer answer);
  void answer_with(std::function<FakeAnswer(const serve::CompletionRequest&)> script);
  std::vector<serve::CompletionRequest> requests();
  int64_t live();
  size_t connections();
  // Gives the helper threads work beside the server's own.
  bool run_aside(std::function<void()> work, size_t bytes) { return loop_.run_aside(std::move(work), bytes); }
  void drain(std::function<void()> done, std::chrono::milliseconds patience = std::chrono::seconds(5));
  // Waits until no request is live; false after five seconds.
  bool idle();

  const decode::ModelText& text() const { return server_->front().text(); }

 private:
  TempFolder folder_;
  serve::EventLoop loop_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<serve::FrontServer> server_;
  std::thread thread_;
};

struct WireReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // ended as it announced
};

// One connection.
class WireClient {
 public:
  // `patience`: how long it waits for bytes.
  explicit WireClient(uint16_t port, std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~WireClient();
  WireClient(const WireClient&) = delete;
  WireClient& operator=(const WireClient&) = delete;

  void send(std::string_view bytes);
  // The next answer on the connection; `head`: to a HEAD request.
  WireReply read_reply(bool head = false);
  // Bytes as they come, until `text` was seen or the connection ended or the patience did.
  std::string read_until(const std::string& text);
  bool closed_by_server();
  // Whether bytes are there that were not read.
  bool has_more() const;
  void close();
  void finish_sending();  // closes its half of the connection

 private:
  bool read_more();

  int socket_ = -1;
  int patience_;  // milliseconds
  std::string buffer_;
};

using WireHeaders = std::vector<std::pair<std::string, std::string>>;

std::string request_text(const std::string& method, const std::string& target, const std::string& body = "",
                         const WireHeaders& headers = {}, bool keep_alive = true);
WireReply request(uint16_t port, const std::string& method, const std::string& target,
                  const std::string& body = "", const WireHeaders& headers = {});

// The events of a stream: the name ("" without) and the data; comments are left out.
std::vector<std::pair<std::string, std::string>> sse_events(const std::string& body);

}  // namespace rafter::testing
