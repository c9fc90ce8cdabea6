// The one table of what the server answers, and the router over it. /openapi.json is made of the same table.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "serve/access.h"
#include "serve/front.h"
#include "serve/http.h"

namespace rafter::serve {

// A request that has passed the checks. `rest`: of a path that ends in "/{id}", what stands there.
struct RoutedRequest {
  HttpRequest http;
  std::string rest;

  // The key it brought; one that asks for none is everybody's.
  std::string client() const;
};

using Exchange = std::shared_ptr<HttpExchange>;

struct Route {
  const char* method;
  const char* path;  // may end in "/{id}", which takes the rest of the path, slashes too
  void (*handle)(Front& front, RoutedRequest request, Exchange exchange);
  const char* summary;
  const char* request = nullptr;   // name of the body's schema (serve/openapi.h); null: no body
  const char* response = nullptr;  // name of the answer's schema; null: an object
  bool needs_key = true;
  bool streams = false;
};

std::span<const Route> routes();

class Router {
 public:
  Router(Front& front, AccessOptions access) : front_(front), access_(std::move(access)) {}

  void handle(HttpRequest request, Exchange exchange);

 private:
  Front& front_;
  Access access_;
};

}  // namespace rafter::serve
