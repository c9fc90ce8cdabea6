// The HTTP listener: connections, their limits and their timeouts. It knows nothing of routes.
//
//   RAFTER_ASSIGN(auto server, HttpServer::listen(loop, options, handler));
//   loop.run_blocking();
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "serve/event_loop.h"
#include "serve/http.h"

namespace rafter::serve {

struct HttpLimits {
  uint32_t header_bytes = 64 << 10;
  uint64_t body_bytes = 64 << 20;
  uint64_t all_bodies_bytes = 256 << 20;          // of requests that are being read at once
  size_t unsent_bytes = 1 << 20;                  // of one answer, that the client does not take
  size_t connections = 4096;                      // a few more are told that they are too many
  std::chrono::milliseconds header_time{15'000};  // from a request's first byte to its header's end
  std::chrono::milliseconds body_stall{30'000};   // without a byte of the body
  std::chrono::milliseconds body_time{600'000};   // from its first byte to its last
  std::chrono::milliseconds idle_time{600'000};   // between requests
  std::chrono::milliseconds write_stall{60'000};  // without the client taking a byte
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any that is free
  HttpLimits limits;
};

// Error (invalid_argument): what is neither an IP address nor localhost.
base::Status check_address(const std::string& host);

class HttpServer {
 public:
  // Bound and accepting when it returns. Errors: invalid_argument (the host is no address), io (the port is
  // taken: says by what, if that can be known).
  static base::Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, const HttpOptions& options,
                                                          HttpHandler handler);
  ~HttpServer();

  uint16_t port() const;
  size_t connections() const;

  // No more connections; those that wait for a request are closed, the others after their answer. `done` runs
  // on the loop when none is left.
  void drain(std::function<void()> done);
  // Closes what is left.
  void close_all();

  struct State;

 private:
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace rafter::serve
