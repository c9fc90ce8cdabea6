#include "serve/http_connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <fmt/format.h>
#include <poll.h>

namespace rafter::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

constexpr size_t kMostRead = 64 << 10;  // what Beast reads at once

// The client sent what is no HTTP, and is still there to be told.
bool is_malformed(const error_code& error) {
  return error.category() == make_error_code(http::error::bad_target).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

// What the handler holds.
class Exchange : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<Outgoing> out) : out_(std::move(out)) {}
  ~Exchange() override { abort(); }

  void respond(HttpResponse response) override {
    if (out_->stage != Outgoing::Stage::waiting) return;
    out_->response = std::move(response);
    out_->stage = Outgoing::Stage::whole;
    out_->notify();
  }

  void begin(int status, const std::string& content_type, const HttpHeaders& headers) override {
    if (out_->stage != Outgoing::Stage::waiting) return;
    out_->response = {status, "", content_type, headers};
    out_->stage = Outgoing::Stage::streaming;
    out_->notify();
  }

  void write(std::string_view text) override {
    if (out_->stage != Outgoing::Stage::streaming || out_->client_gone) return;
    if (out_->unsent + text.size() > out_->most_unsent && out_->unsent > 0) return out_->lose_client();
    out_->pending += text;
    out_->unsent += text.size();
    out_->notify();
  }

  void end() override {
    if (out_->stage != Outgoing::Stage::streaming) return;
    out_->stage = Outgoing::Stage::ended;
    out_->notify();
  }

  void abort() override {
    if (out_->stage != Outgoing::Stage::waiting && out_->stage != Outgoing::Stage::streaming) return;
    out_->stage = Outgoing::Stage::aborted;
    out_->notify();
  }

  bool closed() const override { return out_->client_gone; }
  void on_closed(std::function<void()> work) override { out_->on_closed = std::move(work); }

 private:
  std::shared_ptr<Outgoing> out_;
};

std::string head_text(const HttpResponse& response, const std::string& framing, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, http_reason(response.status));
  if (!response.content_type.empty()) head += "Content-Type: " + response.content_type + "\r\n";
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  head += framing;
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string length_framing(size_t size) { return fmt::format("Content-Length: {}\r\n", size); }

std::string refusal_body(const std::string& message) {
  return fmt::format(
      R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":null}}}})", message);
}

template <typename Message>
std::optional<HttpRequest> request_of(Message& message) {
  auto target = split_target(std::string_view(message.target().data(), message.target().size()));
  if (!target) return std::nullopt;
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = std::move(target->first);
  request.query = std::move(target->second);
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    std::string& value = request.headers[name];
    if (!value.empty()) value += ", ";
    value += std::string(field.value());
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace

void Outgoing::lose_client() {
  if (client_gone) return;
  client_gone = true;
  pending.clear();
  notify();
  if (const auto work = std::exchange(on_closed, nullptr)) work();
}

HttpConnection::HttpConnection(std::shared_ptr<HttpServer::State> server, tcp::socket socket)
    : server_(std::move(server)),
      stream_(std::move(socket)),
      buffer_(2 * size_t{server_->options.limits.header_bytes} + kMostRead),
      wake_(server_->loop.context(), asio::steady_timer::time_point::max()),
      poll_(server_->loop.context()) {
  server_->joined(this);
}

HttpConnection::~HttpConnection() {
  if (out_) out_->wake = nullptr;
  server_->body_bytes -= held_bytes_;
  server_->left(this);
}

void start_connection(std::shared_ptr<HttpServer::State> server, tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  auto connection = std::make_shared<HttpConnection>(server, std::move(socket));
  asio::co_spawn(server->loop.context(), [connection]() { return connection->run(); }, asio::detached);
}

void finish_connection(HttpConnection& connection) { connection.finish(); }
void close_connection(HttpConnection& connection) { connection.close(); }

void HttpConnection::finish() {
  finishes_ = true;
  if (is_idle_) close();
}

void HttpConnection::close() {
  const auto self = weak_from_this().lock();  // whoever waits for this may be its last owner
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
  poll_.cancel();
  if (const auto out = out_) out->lose_client();
}

asio::awaitable<void> HttpConnection::run() {
  const auto self = shared_from_this();
  if (server_->connections.size() > server_->options.limits.connections) {
    co_await refuse(503, "too many connections");
    co_return;
  }
  while (!finishes_) {  // GCC 12 evaluates a co_await behind && in a loop's condition whatever is in front
    if (!co_await wait_for_request()) break;
    Parser parser;
    if (!co_await read_request(parser)) break;
    const bool keep = co_await answer(parser);
    if (out_) {
      out_->wake = nullptr;
      out_ = nullptr;
    }
    if (!keep) break;
  }
  close();
}

asio::awaitable<bool> HttpConnection::wait_for_request() {
  if (buffer_.size() > 0) co_return true;  // pipelined
  constexpr size_t kFirstRead = 4096;
  is_idle_ = true;
  stream_.expires_after(server_->options.limits.idle_time);
  error_code error;
  const size_t count = co_await stream_.async_read_some(buffer_.prepare(kFirstRead),
                                                        asio::redirect_error(asio::use_awaitable, error));
  is_idle_ = false;
  buffer_.commit(count);
  co_return !error && count > 0;
}

asio::awaitable<bool> HttpConnection::read_request(Parser& parser) {
  const HttpLimits& limits = server_->options.limits;
  parser.header_limit(limits.header_bytes);
  parser.body_limit(limits.body_bytes);
  stream_.expires_after(limits.header_time);
  error_code error;
  co_await http::async_read_header(stream_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error == http::error::header_limit) {
    co_await refuse(431, "the request's header is too large");
  } else if (error == http::error::body_limit) {
    co_await refuse(413, fmt::format("the request's body is larger than {} bytes", limits.body_bytes));
  } else if (is_malformed(error)) {
    co_await refuse(400, "malformed HTTP request");
  }
  if (error) co_return false;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue") &&
      !co_await send("HTTP/1.1 100 Continue\r\n\r\n"))
    co_return false;
  co_return co_await read_body(parser);
}

asio::awaitable<bool> HttpConnection::read_body(Parser& parser) {
  const HttpLimits& limits = server_->options.limits;
  parser.eager(true);
  error_code error;
  const auto end = std::chrono::steady_clock::now() + limits.body_time;
  while (!parser.is_done()) {
    stream_.expires_at(std::min(end, std::chrono::steady_clock::now() + limits.body_stall));
    co_await http::async_read_some(stream_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    const uint64_t held = parser.get().body().size();
    server_->body_bytes += held - held_bytes_;
    held_bytes_ = held;
    if (error == http::error::body_limit) {
      co_await refuse(413, fmt::format("the request's body is larger than {} bytes", limits.body_bytes));
      co_return false;
    }
    if (!error && server_->body_bytes > limits.all_bodies_bytes) {
      co_await refuse(503, "too many large requests at once");
      co_return false;
    }
    if (error && error != http::error::need_more) {
      if (is_malformed(error)) co_await refuse(400, "malformed HTTP request");
      co_return false;
    }
  }
  server_->body_bytes -= std::exchange(held_bytes_, 0);
  co_return true;
}

asio::awaitable<bool> HttpConnection::answer(Parser& parser) {
  const bool is_http11 = parser.get().version() >= 11;
  const bool is_head = parser.get().method() == http::verb::head;
  const bool keep_alive = parser.keep_alive();
  auto request = request_of(parser.get());
  if (!request) {
    co_await refuse(400, "malformed request target");
    co_return false;
  }
  out_ = std::make_shared<Outgoing>();
  const auto out = out_;
  out->most_unsent = server_->options.limits.unsent_bytes;
  out->wake = [this] { wake_.cancel(); };
  stream_.expires_never();
  watch_client();
  server_->handler(std::move(*request), std::make_shared<Exchange>(out));
  request.reset();
  while (out->stage == Outgoing::Stage::waiting && !out->client_gone) co_await wait_for_wake();
  if (out->client_gone || out->stage == Outgoing::Stage::aborted) co_return false;
  const bool keep = keep_alive && !finishes_;
  if (out->stage == Outgoing::Stage::whole) {
    const HttpResponse& response = out->response;
    std::string text = head_text(response, length_framing(response.body.size()), keep);
    if (!is_head) text += response.body;
    co_return co_await send(text) && keep;
  }
  const bool chunked = is_http11;
  const bool keep_stream = keep && chunked;
  const char* const framing = chunked ? "Transfer-Encoding: chunked\r\n" : "";
  if (!co_await send(head_text(out->response, framing, keep_stream))) co_return false;
  co_return co_await send_stream(*out, chunked) && keep_stream;
}

asio::awaitable<bool> HttpConnection::send_stream(Outgoing& out, bool chunked) {
  for (;;) {
    if (out.client_gone || out.stage == Outgoing::Stage::aborted) co_return false;
    if (out.pending.empty()) {
      if (out.stage == Outgoing::Stage::ended) break;
      co_await wait_for_wake();
      continue;
    }
    std::string text = std::exchange(out.pending, {});
    const size_t size = text.size();
    if (chunked) text = fmt::format("{:x}\r\n", size) + text + "\r\n";
    const bool sent = co_await send(text);
    out.unsent -= size;
    if (!sent) {
      out.lose_client();
      co_return false;
    }
  }
  if (!chunked) co_return true;
  co_return co_await send("0\r\n\r\n");
}

asio::awaitable<bool> HttpConnection::send(std::string_view text) {
  constexpr size_t kSlice = 256 << 10;  // the time limit is per slice
  while (!text.empty()) {
    const std::string_view slice = text.substr(0, kSlice);
    stream_.expires_after(server_->options.limits.write_stall);
    error_code error;
    co_await asio::async_write(stream_, asio::buffer(slice.data(), slice.size()),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    text.remove_prefix(slice.size());
  }
  stream_.expires_never();
  co_return true;
}

asio::awaitable<void> HttpConnection::refuse(int status, const std::string& message) {
  HttpResponse response{status, refusal_body(message)};
  if (status == 503) response.headers.emplace_back("Retry-After", "5");
  if (!co_await send(head_text(response, length_framing(response.body.size()), false) + response.body))
    co_return;
  // A close with unread data would take the answer away from a client that is still sending.
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  constexpr auto kLinger = std::chrono::seconds(3);
  constexpr size_t kRead = 64 << 10;
  std::string discarded(kRead, '\0');
  stream_.expires_after(kLinger);
  while (!error) {
    co_await stream_.async_read_some(asio::buffer(discarded),
                                     asio::redirect_error(asio::use_awaitable, error));
  }
}

asio::awaitable<void> HttpConnection::wait_for_wake() {
  error_code ignored;
  co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// The client hung up if its end of the connection is closed; data that wait (a pipelined request) say nothing
// about that, and would make the socket readable all the time.
void HttpConnection::watch_client() {
  if (is_watched_) return;  // still, from the request before
  static constexpr auto kPollInterval = std::chrono::milliseconds(200);
  is_watched_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->is_watched_ = false;
    if (error || !self->out_) return;
    if (self->client_hung_up()) return self->out_->lose_client();
    self->poll_.expires_after(kPollInterval);
    self->poll_.async_wait([self](const error_code& cancelled) {
      if (!cancelled && self->out_) self->watch_client();
    });
  });
}

bool HttpConnection::client_hung_up() {
  pollfd state{stream_.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0;
}

}  // namespace rafter::serve
