// Who may ask: keys, and the checks that keep a web page in somebody's browser from using the server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::serve {

struct AccessOptions {
  std::string host = "127.0.0.1";
  std::vector<std::string> keys;
  bool no_auth = false;                      // "I know that anybody who reaches the port may use it"
  std::vector<std::string> allowed_origins;  // besides this machine's own pages; "*": any
};

// Error (invalid_argument): a host that others can reach, without a key; an origin that is none.
base::Status check_exposure(const AccessOptions& options);

bool is_loopback(std::string_view host);  // "localhost", "127.0.0.1", "::1", without a port

class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  // A server on the loopback interface is asked for under its loopback names; another name in `Host` is a
  // page that had its own name point here (DNS rebinding).
  bool host_allowed(std::string_view host_header) const;
  // No origin: not a browser. Else this machine's own pages, the server's own, and what is on the list.
  bool origin_allowed(std::string_view origin, std::string_view host_header) const;
  // `Authorization: Bearer KEY` or `x-api-key: KEY`, compared in constant time. True without keys.
  bool key_allowed(std::string_view authorization, std::string_view api_key) const;

 private:
  AccessOptions options_;
};

}  // namespace rafter::serve
