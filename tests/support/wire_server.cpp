#include "tests/support/wire_server.h"

#include <future>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "format/checkpoint.h"
#include "tests/support/synth_model.h"

namespace rafter::testing {

WireServer::WireServer(WireOptions options) : loop_(options.helpers) {
  const std::string path = write_synth_model(options.shape, "mlx4", folder_.path());
  if (!options.chat_template.empty()) folder_.write("chat_template.jinja", options.chat_template);
  const auto checkpoint = format::Checkpoint::open(path).value();
  auto text = decode::ModelText::from_checkpoint(checkpoint).value();
  service_ = std::make_unique<FakeService>(loop_, text.tokenizer());
  if (options.front.model_id.empty()) options.front.model_id = "fake-model";
  serve::HttpOptions http{.host = "127.0.0.1", .port = 0, .limits = options.limits};
  server_ =
      serve::FrontServer::start(loop_, *service_, std::move(text), {http, options.access, options.front})
          .value();
  thread_ = std::thread([this] { loop_.run_blocking(); });
}

WireServer::~WireServer() {
  on_loop([&](FakeService&) { server_->http().close_all(); });
  loop_.stop();
  thread_.join();
}

void WireServer::on_loop(const std::function<void(FakeService&)>& work) {
  std::promise<void> done;
  loop_.post([&] {
    work(*service_);
    done.set_value();
  });
  done.get_future().wait();
}

void WireServer::answer(FakeAnswer answer) {
  answer_with([answer](const serve::CompletionRequest&) { return answer; });
}

void WireServer::answer_with(std::function<FakeAnswer(const serve::CompletionRequest&)> script) {
  on_loop([&](FakeService& service) { service.script = script; });
}

std::vector<serve::CompletionRequest> WireServer::requests() {
  std::vector<serve::CompletionRequest> all;
  on_loop([&](FakeService& service) { all = service.requests; });
  return all;
}

int64_t WireServer::live() {
  int64_t count = 0;
  on_loop([&](FakeService& service) { count = service.live(); });
  return count;
}

size_t WireServer::connections() {
  size_t count = 0;
  on_loop([&](FakeService&) { count = server_->http().connections(); });
  return count;
}

void WireServer::drain(std::function<void()> done, std::chrono::milliseconds patience) {
  on_loop([&](FakeService&) { server_->shut_down(patience, std::move(done)); });
}

bool WireServer::idle() {
  for (int i = 0; i < 500; ++i) {
    if (live() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

WireClient::WireClient(uint16_t port, std::chrono::milliseconds patience)
    : patience_(static_cast<int>(patience.count())) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  RAFTER_CHECK(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
}

WireClient::~WireClient() { close(); }

void WireClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void WireClient::finish_sending() { ::shutdown(socket_, SHUT_WR); }

void WireClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

bool WireClient::read_more() {
  pollfd state{socket_, POLLIN, 0};
  if (::poll(&state, 1, patience_) <= 0) return false;
  char bytes[65536];
  const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string WireClient::read_until(const std::string& text) {
  while (buffer_.find(text) == std::string::npos && read_more()) {
  }
  return buffer_;
}

bool WireClient::closed_by_server() {
  pollfd state{socket_, POLLIN, 0};
  if (::poll(&state, 1, patience_) <= 0) return false;
  char byte;
  return ::recv(socket_, &byte, 1, MSG_PEEK) <= 0;
}

bool WireClient::has_more() const {
  pollfd state{socket_, POLLIN, 0};
  return !buffer_.empty() || ::poll(&state, 1, 0) > 0;
}

WireReply WireClient::read_reply(bool head) {
  WireReply reply;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return reply;
  }
  const std::string text = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  reply.status = std::stoi(text.substr(9, 3));
  for (size_t at = text.find("\r\n") + 2; at < text.size();) {
    const size_t line_end = text.find("\r\n", at), colon = text.find(": ", at);
    std::string name = text.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(::tolower(c));
    reply.headers[name] = text.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  if (reply.status == 100) return read_reply(head);
  if (head) {
    reply.complete = true;
  } else if (reply.headers.contains("content-length")) {
    const size_t length = std::stoul(reply.headers["content-length"]);
    while (buffer_.size() < length && read_more()) {
    }
    reply.complete = buffer_.size() >= length;
    reply.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else if (reply.headers.contains("transfer-encoding")) {
    for (;;) {
      size_t line = 0;
      while ((line = buffer_.find("\r\n")) == std::string::npos) {
        if (!read_more()) return reply;
      }
      const size_t length = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + length + 2) {
        if (!read_more()) return reply;
      }
      reply.body += buffer_.substr(line + 2, length);
      buffer_.erase(0, line + 2 + length + 2);
      if (length == 0) break;
    }
    reply.complete = true;
  } else {
    while (read_more()) {
    }
    reply.body = std::exchange(buffer_, {});
    reply.complete = true;
  }
  return reply;
}

std::string request_text(const std::string& method, const std::string& target, const std::string& body,
                         const WireHeaders& headers, bool keep_alive) {
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  bool has_host = false;
  for (const auto& [name, value] : headers) {
    text += name + ": " + value + "\r\n";
    has_host = has_host || name == "Host";
  }
  if (!has_host) text += "Host: localhost\r\n";
  if (!keep_alive) text += "Connection: close\r\n";
  if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

WireReply request(uint16_t port, const std::string& method, const std::string& target,
                  const std::string& body, const WireHeaders& headers) {
  WireClient client(port);
  client.send(request_text(method, target, body, headers, false));
  return client.read_reply(method == "HEAD");
}

std::vector<std::pair<std::string, std::string>> sse_events(const std::string& body) {
  std::vector<std::pair<std::string, std::string>> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    std::string name, data;
    for (size_t line = at; line < end;) {
      const size_t line_end = std::min(body.find('\n', line), end);
      const std::string text = body.substr(line, line_end - line);
      if (text.starts_with("event: ")) name = text.substr(7);
      if (text.starts_with("data: ")) data += text.substr(6);
      line = line_end + 1;
    }
    if (!data.empty()) events.emplace_back(name, data);
    at = end + 2;
  }
  return events;
}

}  // namespace rafter::testing
