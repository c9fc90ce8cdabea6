#include "hub/repository.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

namespace rafter::hub {

using base::Error;
using base::ErrorCode;
using nlohmann::json;

namespace {

constexpr int64_t kLargestListing = 64 << 20;
constexpr size_t kMostFiles = 100000;
constexpr int64_t kLargestFile = int64_t{1} << 46;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t size_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

std::string lowercase_hex(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// A file of the listing; its digest may still be unknown (empty).
base::Result<RemoteFile> parse_sibling(const json& sibling, const std::string& where) {
  RemoteFile file;
  if (sibling.is_object()) file.path = text_of(sibling, "rfilename");
  if (!is_safe_path(file.path)) {
    return Error{ErrorCode::invalid_data, "the repository lists a file whose name is not safe", where,
                 "tell its owner; nothing was written"};
  }
  file.size = size_of(sibling, "size");
  if (const auto lfs = sibling.find("lfs"); lfs != sibling.end() && lfs->is_object()) {
    file.digest.kind = DigestKind::sha256;
    file.digest.hex = text_of(*lfs, "sha256").empty() ? text_of(*lfs, "oid") : text_of(*lfs, "sha256");
    if (size_of(*lfs, "size") >= 0) file.size = size_of(*lfs, "size");
  } else {
    file.digest.kind = DigestKind::git_blob_sha1;
    file.digest.hex = text_of(sibling, "blobId");
  }
  file.digest.hex = lowercase_hex(file.digest.hex);
  if (!file.digest.hex.empty() && !is_digest(file.digest.kind, file.digest.hex)) {
    return Error{ErrorCode::invalid_data, "the repository lists a digest that is none",
                 where + ": " + file.path, ""};
  }
  if (file.size > kLargestFile) {
    return Error{ErrorCode::invalid_data, fmt::format("the repository lists a file of {} bytes", file.size),
                 where + ": " + file.path, ""};
  }
  return file;
}

// The entity tag without its quotes and weakness.
std::string plain_etag(std::string tag) {
  if (tag.starts_with("W/")) tag = tag.substr(2);
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') tag = tag.substr(1, tag.size() - 2);
  return lowercase_hex(tag);
}

}  // namespace

bool is_repository_name(const std::string& name) {
  constexpr size_t kLongest = 96;
  const size_t slash = name.find('/');
  const auto good_part = [](const std::string& part) {
    return !part.empty() && part.size() <= kLongest && part.front() != '.' && part.front() != '-' &&
           part.back() != '.' && part.back() != '-' && part.find("--") == std::string::npos &&
           part.find("..") == std::string::npos && std::all_of(part.begin(), part.end(), is_name_character);
  };
  if (slash == std::string::npos) return good_part(name);
  return good_part(name.substr(0, slash)) && good_part(name.substr(slash + 1));
}

bool is_safe_path(const std::string& path) {
  constexpr size_t kLongest = 1024, kLongestPart = 255;
  if (path.empty() || path.size() > kLongest) return false;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart) return false;
    begin = end + 1;
  }
  return std::all_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F && c != '\\' && c != ':';
  });
}

bool is_revision_name(const std::string& revision) {
  return is_safe_path(revision) && revision.front() != '-' && revision.find(' ') == std::string::npos;
}

Error status_error(const HttpResponse& response, const HubSettings& settings, const std::string& what) {
  switch (response.status) {
    case 401:
    case 403:
      return {ErrorCode::not_found,
              settings.token.empty() ? "the repository is gated or private, or does not exist"
                                     : "the access token may not read this repository",
              what,
              settings.token.empty()
                  ? "accept its terms on its page, then set HF_TOKEN to a token of your account"
                  : "accept its terms on its page, or use a token that may read it"};
    case 404: {
      const bool revision = response.header("x-error-code") == "RevisionNotFound";
      return {ErrorCode::not_found, revision ? "no such revision" : "no such repository or file", what,
              revision ? "see the repository's branches and tags" : "check the spelling: it is org/name"};
    }
    case 429:
      return {ErrorCode::io, "the server asks for fewer requests", what,
              "wait some minutes, or set HF_TOKEN"};
    default:
      return {ErrorCode::io, fmt::format("the server answered with status {}", response.status), what,
              response.status >= 500 ? "try again later" : ""};
  }
}

base::Result<HttpResponse> exchange_with_retries(HttpClient& client, const HubSettings& settings,
                                                 HttpRequest& request, const BodySink& sink,
                                                 const std::function<void(HttpRequest&)>& before_try,
                                                 const std::atomic<bool>* stopping) {
  thread_local std::minstd_rand random{std::random_device{}()};
  for (int attempt = 0;; ++attempt) {
    if (before_try) before_try(request);
    HttpFailure failure;
    const auto response = client.exchange(request, sink, failure);
    const bool retry = response
                           ? response->status == 429 || response->status == 408 || response->status >= 500
                           : failure.may_retry;
    if (!retry || attempt >= settings.retries) {
      if (response) return *response;
      return failure.error;
    }
    // Doubling, with up to half as much again at random: many clients that failed together come back apart.
    auto wait = std::chrono::milliseconds(settings.retry_milliseconds << std::min(attempt, 6));
    wait += wait * static_cast<int>(random() % 128) / 256;
    if (response) {
      const std::string after = response->header("retry-after");
      int seconds = 0;
      std::from_chars(after.data(), after.data() + after.size(), seconds);
      wait = std::max(wait, std::chrono::milliseconds(std::clamp(seconds, 0, 60) * 1000));
    }
    const auto deadline = std::chrono::steady_clock::now() + wait;
    while (std::chrono::steady_clock::now() < deadline) {
      if (stopping != nullptr && stopping->load())
        return Error{ErrorCode::interrupted, "interrupted", "", ""};
      std::this_thread::sleep_for(std::min(wait, std::chrono::milliseconds(50)));
    }
  }
}

std::string file_url(const HubSettings& settings, const RemoteRepository& repository,
                     const RemoteFile& file) {
  return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, repository.name, repository.commit,
                     escape_path(file.path));
}

namespace {

// Asks the server for the size and digest that the listing did not give.
base::Status complete_by_head(HttpClient& client, const HubSettings& settings,
                              const RemoteRepository& repository, RemoteFile& file) {
  HttpRequest request;
  request.url = file_url(settings, repository, file);
  request.head = true;
  request.token = settings.token;
  RAFTER_ASSIGN(const HttpResponse response,
                exchange_with_retries(client, settings, request, nullptr, nullptr, nullptr));
  const std::string what = repository.name + ": " + file.path;
  if (response.status != 200) return status_error(response, settings, what);
  const std::string linked = response.header("x-linked-etag");
  file.digest.hex = plain_etag(linked.empty() ? response.header("etag") : linked);
  file.digest.kind = file.digest.hex.size() == 64 ? DigestKind::sha256 : DigestKind::git_blob_sha1;
  if (!is_digest(file.digest.kind, file.digest.hex)) {
    return Error{ErrorCode::unsupported, "the server gives no digest of this file", what, ""};
  }
  if (file.size < 0) {
    const std::string size = response.header("x-linked-size");
    int64_t value = -1;
    std::from_chars(size.data(), size.data() + size.size(), value);
    file.size = value >= 0 ? value : response.content_length().value_or(-1);
  }
  if (file.size < 0 || file.size > kLargestFile) {
    return Error{ErrorCode::unsupported, "the server gives no size of this file", what, ""};
  }
  return {};
}

}  // namespace

base::Result<RemoteRepository> fetch_repository(HttpClient& client, const HubSettings& settings,
                                                const std::string& name, const std::string& revision) {
  if (!is_repository_name(name)) {
    return Error{ErrorCode::invalid_argument, "not a repository's name", name,
                 "it is org/name, as in `rafter get Qwen/Qwen3-0.6B`"};
  }
  if (!is_revision_name(revision)) {
    return Error{ErrorCode::invalid_argument, "not a branch, tag or commit", revision, ""};
  }
  HttpRequest request;
  std::string escaped = escape_path(revision);
  for (size_t at = 0; (at = escaped.find('/', at)) != std::string::npos;) escaped.replace(at, 1, "%2F");
  request.url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings.endpoint, name, escaped);
  request.token = settings.token;
  request.largest_body = kLargestListing;
  std::string body;
  const auto sink = [&](const HttpResponse&, std::span<const std::byte> bytes) {
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  };
  RAFTER_ASSIGN(
      const HttpResponse response,
      exchange_with_retries(client, settings, request, sink, [&](HttpRequest&) { body.clear(); }, nullptr));
  if (response.status != 200) return status_error(response, settings, name + " at " + revision);

  const json listing = json::parse(body, nullptr, /*allow_exceptions=*/false);
  RemoteRepository repository;
  repository.name = name;
  if (listing.is_object()) repository.commit = text_of(listing, "sha");
  const auto siblings = listing.is_object() ? listing.find("siblings") : listing.end();
  if (!is_commit(repository.commit) || siblings == listing.end() || !siblings->is_array() ||
      siblings->size() > kMostFiles) {
    return Error{ErrorCode::invalid_data, "the answer is no listing of a repository", request.url,
                 "check HF_ENDPOINT"};
  }
  std::set<std::string> seen;
  for (const json& sibling : *siblings) {
    RAFTER_ASSIGN(RemoteFile file, parse_sibling(sibling, name));
    if (!seen.insert(file.path).second) continue;
    repository.files.push_back(std::move(file));
  }
  return repository;
}

base::Status complete_files(HttpClient& client, const HubSettings& settings, RemoteRepository& repository) {
  for (RemoteFile& file : repository.files) {
    if (file.digest.hex.empty() || file.size < 0) {
      RAFTER_TRY(complete_by_head(client, settings, repository, file));
    }
  }
  return {};
}

}  // namespace rafter::hub
