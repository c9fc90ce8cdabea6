// One HTTP exchange at a time, with redirects that never carry a token to another host.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace rafter::hub {

struct HttpRequest {
  std::string url;
  bool head = false;
  std::string token;                        // sent as a bearer to the first host (and redirects within it)
  std::optional<int64_t> range_begin;       // bytes begin …
  std::optional<int64_t> range_end;         // … end − 1
  std::string if_range;                     // the entity tag that a range must still belong to
  int64_t largest_body = int64_t{1} << 50;  // more than this ends the exchange with an error
};

struct HttpResponse {
  int status = 0;
  // Of the last response, and x-linked-… of the redirects before it; names in lower case.
  std::map<std::string, std::string> headers;
  std::string final_url;

  std::string header(const std::string& name) const;  // "" when absent
  // Content-Range "bytes FROM-TO/TOTAL"; nothing if absent or malformed.
  struct Range {
    int64_t begin = 0, end = 0, total = -1;  // end is one past the last; −1: not told
  };
  std::optional<Range> content_range() const;
  std::optional<int64_t> content_length() const;
};

// Takes the body of a response of status 200 or 206, piece by piece; false ends the exchange. The response is
// complete but for its body. Bodies of other statuses are not shown to it.
using BodySink = std::function<bool(const HttpResponse&, std::span<const std::byte>)>;

// How an exchange failed, beyond a status: whether another try may do better.
struct HttpFailure {
  base::Error error;
  bool may_retry = false;
};

// A connection that is kept between exchanges. One thread at a time.
class HttpClient {
 public:
  // `stopping`: ends a running exchange within a second. May be null.
  explicit HttpClient(const std::atomic<bool>* stopping);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Follows up to 5 redirects. HTTPS with verification, or HTTP where the request itself says so; a redirect
  // never goes from HTTPS to HTTP. `failure` says why there is no response: connection, time-outs (15 s to
  // connect, 30 s without a byte), a body cut short, an oversized header or body, the sink's refusal.
  std::optional<HttpResponse> exchange(const HttpRequest& request, const BodySink& sink,
                                       HttpFailure& failure);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https", "example.org", 443 of a URL; empty host when it is none that this program speaks.
struct UrlParts {
  std::string scheme, host, path;
  int port = 0;
};
UrlParts split_url(const std::string& url);

// Bytes that a path segment of a URL cannot hold, escaped; '/' is kept.
std::string escape_path(const std::string& path);

}  // namespace rafter::hub
