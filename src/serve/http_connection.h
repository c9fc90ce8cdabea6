// One client's connection: reads a request, has it answered, reads the next. For serve/http_*.cpp only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "serve/http_server_state.h"

namespace rafter::serve {

// An answer on its way: written by the handler's exchange, taken by the connection.
struct Outgoing {
  enum class Stage { waiting, whole, streaming, ended, aborted };
  Stage stage = Stage::waiting;
  bool client_gone = false;
  HttpResponse response;  // whole; or the head of a stream
  std::string pending;    // of a stream: not taken yet
  size_t unsent = 0;      // pending, and what is being written
  size_t most_unsent = 0;
  std::function<void()> on_closed;
  std::function<void()> wake;  // the connection; empty once it is gone

  void notify() {
    if (wake) wake();
  }
  // The client went away, or is given up.
  void lose_client();
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpServer::State> server, boost::asio::ip::tcp::socket socket);
  ~HttpConnection();

  boost::asio::awaitable<void> run();
  void finish();
  void close();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Milliseconds = std::chrono::milliseconds;

  // Each returns false if the connection is to be closed.
  boost::asio::awaitable<bool> wait_for_request();
  boost::asio::awaitable<bool> read_request(Parser& parser);
  boost::asio::awaitable<bool> read_body(Parser& parser);
  boost::asio::awaitable<bool> answer(Parser& parser);
  boost::asio::awaitable<bool> send_stream(Outgoing& out, bool chunked);
  boost::asio::awaitable<bool> send(std::string_view text);
  // An answer to what could not be read, and the end.
  boost::asio::awaitable<void> refuse(int status, const std::string& message);
  boost::asio::awaitable<void> wait_for_wake();

  void watch_client();
  bool client_hung_up();

  std::shared_ptr<HttpServer::State> server_;
  boost::beast::tcp_stream stream_;
  // Also bounds what is neither header nor body: a chunk's extensions, trailers.
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer wake_, poll_;
  std::shared_ptr<Outgoing> out_;  // of the request that is being answered
  uint64_t held_bytes_ = 0;        // counted in the server's body_bytes
  bool is_watched_ = false, is_idle_ = false, finishes_ = false;
};

}  // namespace rafter::serve
