// What the listener and its connections share. For serve/http_*.cpp only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <set>

#include "serve/http_server.h"

namespace rafter::serve {

class HttpConnection;

struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(EventLoop& event_loop, const HttpOptions& given, HttpHandler what)
      : loop(event_loop), options(given), handler(std::move(what)), acceptor(event_loop.context()) {}

  EventLoop& loop;
  HttpOptions options;
  HttpHandler handler;
  boost::asio::ip::tcp::acceptor acceptor;
  std::set<HttpConnection*> connections;
  uint64_t body_bytes = 0;  // held by requests that are being read
  bool draining = false;
  std::function<void()> on_drained;

  void joined(HttpConnection* connection) { connections.insert(connection); }
  void left(HttpConnection* connection);
};

// Serves one connection until it ends.
void start_connection(std::shared_ptr<HttpServer::State> server, boost::asio::ip::tcp::socket socket);
// If it waits for a request: now. Else after its answer.
void finish_connection(HttpConnection& connection);
void close_connection(HttpConnection& connection);

}  // namespace rafter::serve
