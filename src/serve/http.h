// HTTP as handlers see it: a request that was read whole, and an exchange through which it is answered, at
// once or piece by piece. Everything runs on the event loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rafter::serve {

struct HttpRequest {
  std::string method;                          // "GET"
  std::string path;                            // "/v1/models", percent-decoded, without the query
  std::string query;                           // behind the "?", as it came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  // Empty if it was not sent.
  std::string_view header(const std::string& lower_case_name) const;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};
};

const char* http_reason(int status);  // "Not Found"

// One request's answer. Ends with respond() or end(); one that is dropped without either closes the
// connection. Calls after the client went away do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void respond(HttpResponse response) = 0;

  // An answer in pieces. Each is sent as soon as the client takes it. A client that reads slower than pieces
  // come is given up once kMostUnsent bytes wait: on_closed.
  virtual void begin(int status, const std::string& content_type, const HttpHeaders& headers) = 0;
  virtual void write(std::string_view text) = 0;
  virtual void end() = 0;
  // Ends the connection without ending the answer: the client sees that something is missing.
  virtual void abort() = 0;

  virtual bool closed() const = 0;
  // Called at most once, if the client goes away (or is given up) before the answer ended.
  virtual void on_closed(std::function<void()> work) = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpExchange>)>;

// The path and the query of a request's target; nothing if its percent-encoding is malformed.
std::optional<std::pair<std::string, std::string>> split_target(std::string_view target);

}  // namespace rafter::serve
