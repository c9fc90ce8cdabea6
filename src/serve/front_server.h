// The front process of `rafter serve`: listener, router and handlers over a model service.
#pragma once

#include <memory>

#include "serve/http_server.h"
#include "serve/routes.h"

namespace rafter::serve {

struct FrontServerOptions {
  HttpOptions http;
  AccessOptions access;
  FrontOptions front;
};

class FrontServer {
 public:
  // Listening when it returns. Errors: invalid_argument (exposed without a key; an unknown format), io (the
  // port is taken).
  static base::Result<std::unique_ptr<FrontServer>> start(EventLoop& loop, ModelService& service,
                                                          decode::ModelText text, FrontServerOptions options);

  uint16_t port() const { return http_->port(); }
  HttpServer& http() { return *http_; }
  Front& front() { return *front_; }

  // Takes no more connections and lets answers end, for so long; then closes what is left. `done` runs once.
  void shut_down(std::chrono::milliseconds patience, std::function<void()> done);

 private:
  FrontServer(EventLoop& loop, std::unique_ptr<Front> front, AccessOptions access);

  EventLoop& loop_;
  std::unique_ptr<Front> front_;
  Router router_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Timer> impatience_;
};

}  // namespace rafter::serve
