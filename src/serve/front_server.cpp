#include "serve/front_server.h"

namespace rafter::serve {

namespace {

// For the errors that end what outlasted the drain to reach their clients.
constexpr std::chrono::milliseconds kLastWords{1000};

}  // namespace

FrontServer::FrontServer(EventLoop& loop, std::unique_ptr<Front> front, AccessOptions access)
    : loop_(loop), front_(std::move(front)), router_(*front_, std::move(access)) {}

base::Result<std::unique_ptr<FrontServer>> FrontServer::start(EventLoop& loop, ModelService& service,
                                                              decode::ModelText text,
                                                              FrontServerOptions options) {
  RAFTER_TRY(check_exposure(options.access));
  RAFTER_ASSIGN(auto front, Front::create(loop, service, std::move(text), std::move(options.front)));
  std::unique_ptr<FrontServer> server(new FrontServer(loop, std::move(front), options.access));
  RAFTER_ASSIGN(server->http_,
                HttpServer::listen(
                    loop, options.http,
                    [router = &server->router_](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
                      router->handle(std::move(request), std::move(exchange));
                    }));
  return server;
}

void FrontServer::shut_down(std::chrono::milliseconds patience, std::function<void()> done) {
  impatience_ = loop_.after(patience, [this] {
    front_->stop_answers();
    impatience_ = loop_.after(kLastWords, [this] { http_->close_all(); });
  });
  http_->drain([this, done = std::move(done)] {
    impatience_ = nullptr;
    done();
  });
}

}  // namespace rafter::serve
