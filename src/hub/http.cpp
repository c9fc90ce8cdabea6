#include "hub/http.h"

#include <algorithm>
#include <charconv>

#include <curl/curl.h>

#include "base/version.h"

namespace rafter::hub {
namespace {

constexpr long kConnectSeconds = 15;
constexpr long kQuietSeconds = 30;  // below the rate of the next line
constexpr long kQuietBytesPerSecond = 128;
constexpr size_t kLargestHeaders = 128 << 10;
constexpr int kMostRedirects = 5;

std::string lowercase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string trimmed(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  size_t begin = 0;
  while (begin < text.size() && blank(text[begin])) ++begin;
  return text.substr(begin);
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// What curl's callbacks work on during one request.
struct Exchange {
  const HttpRequest& request;
  const BodySink& sink;
  const std::atomic<bool>* stopping;
  CURL* curl;
  HttpResponse response;
  size_t header_bytes = 0;
  int64_t body_bytes = 0;
  bool refused = false, oversized = false;
};

size_t on_header(char* data, size_t size, size_t count, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const std::string line(data, size * count);
  exchange.header_bytes += line.size();
  if (exchange.header_bytes > kLargestHeaders) {
    exchange.oversized = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    exchange.response.headers.clear();  // of an interim response
  } else if (const size_t colon = line.find(':'); colon != std::string::npos) {
    exchange.response.headers[lowercase(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  return line.size();
}

size_t on_body(char* data, size_t size, size_t count, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const size_t bytes = size * count;
  exchange.body_bytes += static_cast<int64_t>(bytes);
  if (exchange.body_bytes > exchange.request.largest_body) {
    exchange.oversized = true;
    return 0;
  }
  long status = 0;
  curl_easy_getinfo(exchange.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return bytes;
  exchange.response.status = static_cast<int>(status);
  if (!exchange.sink || exchange.sink(exchange.response, std::as_bytes(std::span(data, bytes)))) return bytes;
  exchange.refused = true;
  return 0;
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& exchange = *static_cast<Exchange*>(context);
  return exchange.stopping != nullptr && exchange.stopping->load() ? 1 : 0;
}

bool may_retry(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // of the answer: the URL's was looked at before
      return true;
    default:
      return false;
  }
}

std::string hint_for(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return "check the network and HF_ENDPOINT; what is on disk already runs with HF_HUB_OFFLINE=1";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "the server's certificate is not trusted here; install ca-certificates";
    default:
      return "";
  }
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<HttpResponse::Range> HttpResponse::content_range() const {
  const std::string text = header("content-range");
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == std::string::npos || slash == std::string::npos || dash > slash) {
    return std::nullopt;
  }
  const auto begin = number_of(std::string_view(text).substr(kUnit.size(), dash - kUnit.size()));
  const auto last = number_of(std::string_view(text).substr(dash + 1, slash - dash - 1));
  if (!begin || !last || *last < *begin) return std::nullopt;
  const std::string_view total = std::string_view(text).substr(slash + 1);
  return Range{*begin, *last + 1, total == "*" ? -1 : number_of(total).value_or(-1)};
}

std::optional<int64_t> HttpResponse::content_length() const { return number_of(header("content-length")); }

UrlParts split_url(const std::string& url) {
  UrlParts parts;
  CURLU* parsed = curl_url();
  if (parsed == nullptr) return parts;
  if (curl_url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK) {
    const auto get = [&](CURLUPart part, unsigned flags) {
      char* text = nullptr;
      std::string value;
      if (curl_url_get(parsed, part, &text, flags) == CURLUE_OK && text != nullptr) value = text;
      curl_free(text);
      return value;
    };
    parts.scheme = get(CURLUPART_SCHEME, 0);
    if (parts.scheme == "http" || parts.scheme == "https") {
      parts.host = lowercase(get(CURLUPART_HOST, 0));
      parts.port = static_cast<int>(number_of(get(CURLUPART_PORT, CURLU_DEFAULT_PORT)).value_or(0));
      parts.path = get(CURLUPART_PATH, 0);
    }
  }
  curl_url_cleanup(parsed);
  return parts;
}

std::string escape_path(const std::string& path) {
  std::string escaped;
  for (char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '-' || c == '_' || c == '.' || c == '~';
    escaped += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

struct HttpClient::Impl {
  CURL* curl = nullptr;
  const std::atomic<bool>* stopping = nullptr;

  bool interrupted() const { return stopping != nullptr && stopping->load(); }
};

HttpClient::HttpClient(const std::atomic<bool>* stopping) : impl_(std::make_unique<Impl>()) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);  // once, thread-safe as a static
  RAFTER_CHECK(ready == CURLE_OK, "curl: {}", curl_easy_strerror(ready));
  impl_->curl = curl_easy_init();
  RAFTER_CHECK(impl_->curl != nullptr, "curl has no memory");
  impl_->stopping = stopping;
}

HttpClient::~HttpClient() { curl_easy_cleanup(impl_->curl); }

namespace {

// Sends one request and takes its response, redirects not followed.
CURLcode perform(CURL* curl, const std::string& url, bool with_token, Exchange& exchange) {
  const HttpRequest& request = exchange.request;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kQuietBytesPerSecond);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kQuietSeconds);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, (std::string("rafter/") + base::version()).c_str());
#if CURL_AT_LEAST_VERSION(7, 85, 0)
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (with_token) headers = curl_slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
  if (!request.if_range.empty())
    headers = curl_slist_append(headers, ("If-Range: " + request.if_range).c_str());
  if (request.range_begin) {
    const std::string range = fmt::format("{}-{}", *request.range_begin,
                                          request.range_end ? fmt::format("{}", *request.range_end - 1) : "");
    curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  exchange.response.status = static_cast<int>(status);
  return code;
}

base::Error failure_of(const Exchange& exchange, CURLcode code, const std::string& url) {
  if (exchange.oversized) {
    return {base::ErrorCode::invalid_data, "the server sends more than it should", url, ""};
  }
  if (exchange.refused) return {base::ErrorCode::io, "the transfer was broken off", url, ""};
  const char* what = code == CURLE_UNSUPPORTED_PROTOCOL ? "the answer is not HTTP" : curl_easy_strerror(code);
  return {base::ErrorCode::io, what, url, hint_for(code)};
}

// Where a redirect leads; empty when it is none that may be followed.
std::string redirect_target(CURL* curl, const std::string& from) {
  char* target = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &target);
  if (target == nullptr) return "";
  const UrlParts parts = split_url(target);
  const bool downgraded = split_url(from).scheme == "https" && parts.scheme != "https";
  return parts.host.empty() || downgraded ? "" : target;
}

}  // namespace

std::optional<HttpResponse> HttpClient::exchange(const HttpRequest& request, const BodySink& sink,
                                                 HttpFailure& failure) {
  const UrlParts first = split_url(request.url);
  if (first.host.empty()) {
    failure = {{base::ErrorCode::invalid_argument, "not a URL that can be fetched", request.url,
                "it begins with https:// (or http://)"},
               false};
    return std::nullopt;
  }
  std::string url = request.url;
  bool same_host = true;                      // once left, the token stays behind
  std::map<std::string, std::string> linked;  // what the hub says of a file that it redirects to a store
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    Exchange exchange{request, sink, impl_->stopping, impl_->curl, {}, 0, 0, false, false};
    const CURLcode code = perform(impl_->curl, url, same_host && !request.token.empty(), exchange);
    if (impl_->interrupted()) {
      failure = {{base::ErrorCode::interrupted, "interrupted", "", ""}, false};
      return std::nullopt;
    }
    if (code != CURLE_OK) {
      failure = {failure_of(exchange, code, url),
                 !exchange.oversized && !exchange.refused && may_retry(code)};
      return std::nullopt;
    }
    for (const auto& [name, value] : exchange.response.headers) {
      if (name.starts_with("x-linked-")) linked.try_emplace(name, value);
    }
    if (!is_redirect(exchange.response.status)) {
      exchange.response.final_url = url;
      exchange.response.headers.merge(linked);
      return std::move(exchange.response);
    }
    const std::string target = redirect_target(impl_->curl, url);
    if (target.empty()) {
      failure = {{base::ErrorCode::invalid_data, "a redirect that leads nowhere safe", url, ""}, false};
      return std::nullopt;
    }
    const UrlParts parts = split_url(target);
    same_host =
        same_host && parts.host == first.host && parts.port == first.port && parts.scheme == first.scheme;
    url = target;
  }
  failure = {
      {base::ErrorCode::invalid_data, fmt::format("more than {} redirects", kMostRedirects), request.url, ""},
      false};
  return std::nullopt;
}

}  // namespace rafter::hub
