#include <algorithm>

#include "serve/routes.h"

namespace rafter::serve {
namespace {

// An exchange whose answers carry more headers.
class WithHeaders : public HttpExchange {
 public:
  WithHeaders(Exchange inner, HttpHeaders headers) : inner_(std::move(inner)), headers_(std::move(headers)) {}

  void respond(HttpResponse response) override {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    inner_->respond(std::move(response));
  }
  void begin(int status, const std::string& content_type, const HttpHeaders& headers) override {
    HttpHeaders all = headers;
    all.insert(all.end(), headers_.begin(), headers_.end());
    inner_->begin(status, content_type, all);
  }
  void write(std::string_view text) override { inner_->write(text); }
  void end() override { inner_->end(); }
  void abort() override { inner_->abort(); }
  bool closed() const override { return inner_->closed(); }
  void on_closed(std::function<void()> work) override { inner_->on_closed(std::move(work)); }

 private:
  Exchange inner_;
  HttpHeaders headers_;
};

std::string_view stem_of(const Route& route) {
  std::string_view path = route.path;
  constexpr std::string_view kRest = "{id}";
  if (path.ends_with(kRest)) path.remove_suffix(kRest.size());
  return path;
}

bool matches(const Route& route, std::string_view path) {
  const std::string_view stem = stem_of(route);
  if (stem.size() == std::string_view(route.path).size()) return path == stem;
  return path.starts_with(stem) && path.size() > stem.size();
}

enum class ErrorShape { openai, anthropic, ollama };

ErrorShape shape_of(std::string_view path) {
  if (path.starts_with("/v1/messages")) return ErrorShape::anthropic;
  return path.starts_with("/api/") ? ErrorShape::ollama : ErrorShape::openai;
}

Json error_json(const ApiError& error, ErrorShape shape) {
  if (shape == ErrorShape::anthropic) return anthropic_error(error);
  if (shape == ErrorShape::ollama) return {{"error", error.message}};
  return openai_error(error);
}

// What curl sends without being told, and what the protocols say.
bool is_json_type(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type.empty() || type == "application/json" || type == "text/json" || type == "text/plain" ||
         type == "application/x-www-form-urlencoded" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

}  // namespace

void Router::handle(HttpRequest request, Exchange exchange) {
  ++front_.counts().requests;
  const std::string_view origin = request.header("origin"), host = request.header("host");
  const ErrorShape shape = shape_of(request.path);
  const auto refuse = [&](ApiError error, HttpHeaders headers = {}) {
    ++front_.counts().responses[error.status];
    HttpResponse response = error_response(error, error_json(error, shape));
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    exchange->respond(std::move(response));
  };
  if (!access_.host_allowed(host))
    return refuse({403, "this host name is not served", "permission_error", "host_not_allowed"});
  if (!access_.origin_allowed(origin, host))
    return refuse({403, "this origin may not use the server (--allowed-origins)", "permission_error",
                   "origin_not_allowed"});
  if (!origin.empty()) {
    exchange = std::make_shared<WithHeaders>(
        std::move(exchange),
        HttpHeaders{{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}});
  }
  if (request.method == "OPTIONS") {
    return exchange->respond(
        {204,
         "",
         "",
         {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
          {"Access-Control-Allow-Headers", request.headers.contains("access-control-request-headers")
                                               ? request.headers.at("access-control-request-headers")
                                               : "Content-Type, Authorization"},
          {"Access-Control-Max-Age", "600"}}});
  }

  std::string allowed;
  const Route* found = nullptr;
  for (const Route& route : routes()) {
    if (!matches(route, request.path)) continue;
    const bool fits = request.method == route.method ||
                      (request.method == "HEAD" && std::string_view(route.method) == "GET");
    if (fits && found == nullptr) found = &route;
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  const bool needs_key = found == nullptr || found->needs_key;
  if (needs_key && !access_.key_allowed(request.header("authorization"), request.header("x-api-key")))
    return refuse({401, "invalid api key", "authentication_error", "invalid_api_key"});
  if (allowed.empty()) return refuse({404, "not found", "not_found_error", "not_found"});
  if (found == nullptr)
    return refuse({405, "method not allowed", "invalid_request_error", "method_not_allowed"},
                  {{"Allow", allowed}});
  if (found->request != nullptr && !is_json_type(request.header("content-type")))
    return refuse(
        {415, "the body must be application/json", "invalid_request_error", "unsupported_media_type"});
  if (!request.header("content-encoding").empty() && request.header("content-encoding") != "identity")
    return refuse({415, "compressed bodies are not read", "invalid_request_error", "unsupported_media_type"});
  // Other upgrades are offers, which may be left unanswered.
  if (request.header("upgrade").find("websocket") != std::string_view::npos)
    return refuse({426, "this route is no websocket", "invalid_request_error", "upgrade_not_supported"});
  std::string rest = request.path.substr(stem_of(*found).size());
  found->handle(front_, {std::move(request), std::move(rest)}, std::move(exchange));
}

}  // namespace rafter::serve
