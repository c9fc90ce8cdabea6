// Answers whose time grows with what is asked.
#include "serve/handlers.h"

namespace rafter::serve::handlers {

void answer_aside(Front& front, Exchange exchange, size_t bytes, std::function<base::Result<Json>()> work,
                  Json (*error_body)(const ApiError&)) {
  const auto refused = [error_body](const base::Error& error) {
    const ApiError shown = api_error(error);
    return error_response(shown, error_body(shown));
  };
  const bool taken = front.loop().run_aside(
      [&front, exchange, work = std::move(work), refused]() mutable {
        const base::Result<Json> result = work();
        work = nullptr;
        auto response = std::make_shared<HttpResponse>(result.ok() ? HttpResponse{200, to_text(*result)}
                                                                   : refused(result.error()));
        front.loop().post(
            [exchange = std::move(exchange), response] { exchange->respond(std::move(*response)); });
      },
      bytes);
  if (!taken) exchange->respond(refused(too_many_to_read()));
}

}  // namespace rafter::serve::handlers
