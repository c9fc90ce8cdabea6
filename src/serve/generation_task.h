// One request for text, from its body to the last byte of its answer, for every protocol: it is prepared on a
// helper thread (serve/prepared_request.h), the service generates, the collector makes events of tokens, the
// protocol's Reply makes bytes of events. A client that goes away cancels it.
#pragma once

#include <memory>

#include "serve/prepared_request.h"

namespace rafter::serve {

void start_generation(Front& front, std::string body, std::shared_ptr<HttpExchange> exchange,
                      AskReader reader);

}  // namespace rafter::serve
