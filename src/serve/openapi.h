// GET /openapi.json: made of the route table, so that it cannot say anything else than what is served.
#pragma once

#include <span>

#include "serve/proto/json.h"
#include "serve/routes.h"

namespace rafter::serve {

Json openapi_json(std::span<const Route> routes);

// The schemas that routes name: {"ChatRequest": {…}, …}.
Json openapi_schemas();

}  // namespace rafter::serve
