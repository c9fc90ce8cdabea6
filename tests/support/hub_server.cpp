#include "tests/support/hub_server.h"

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "hub/digest.h"

namespace rafter::testing {
namespace {

constexpr size_t kChunk = 64 << 10;

bool send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::string hash(hub::DigestKind kind, const std::string& content) {
  hub::Hasher hasher(kind, static_cast<int64_t>(content.size()));
  hasher.add(std::as_bytes(std::span(content)));
  return hasher.finish();
}

// "/a/b?x=y" → "/a/b"
std::string path_of(const std::string& target) { return target.substr(0, target.find('?')); }

std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::string HubServer::sha256(const std::string& content) { return hash(hub::DigestKind::sha256, content); }
std::string HubServer::git_sha1(const std::string& content) {
  return hash(hub::DigestKind::git_blob_sha1, content);
}

HubServer::HubServer() {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  RAFTER_CHECK(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind");
  RAFTER_CHECK(::listen(socket_, 64) == 0, "listen");
  socklen_t length = sizeof(address);
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_loop(); });
}

HubServer::~HubServer() {
  stopping_ = true;
  accepting_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(socket_);
}

std::string HubServer::endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

void HubServer::add(const std::string& name, const std::string& commit, std::vector<HubFile> files,
                    const std::string& revision) {
  const std::lock_guard lock(mutex_);
  repositories_[name] = {commit, revision, std::move(files)};
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int HubServer::count(const std::string& part) const {
  int count = 0;
  for (const HubRequest& request : requests())
    count += request.target.find(part) != std::string::npos ? 1 : 0;
  return count;
}

void HubServer::accept_loop() {
  while (!stopping_) {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, 20) <= 0) continue;
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    connections_.emplace_back([this, connection] {
      serve(connection);
      ::close(connection);
    });
  }
}

void HubServer::serve(int connection) {
  std::string head;
  char byte = 0;
  while (!head.ends_with("\r\n\r\n")) {
    pollfd ready{connection, POLLIN, 0};
    if (::poll(&ready, 1, 50) == 0) {
      if (stopping_) return;
      continue;
    }
    if (::recv(connection, &byte, 1, 0) != 1) return;
    head += byte;
  }
  HubRequest request;
  const size_t space = head.find(' '), second = head.find(' ', space + 1);
  request.method = head.substr(0, space);
  request.target = head.substr(space + 1, second - space - 1);
  size_t at = head.find("\r\n") + 2;
  while (at + 2 < head.size()) {
    const size_t end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  int nth = 0;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    nth = counts_[request.target]++;
  }
  answer(connection, request, nth);
}

std::string HubServer::listing_of(const Repository& repository) const {
  nlohmann::json siblings = nlohmann::json::array();
  for (const HubFile& file : repository.files) {
    nlohmann::json sibling = {
        {"rfilename", file.path}, {"size", file.content.size()}, {"blobId", git_sha1(file.content)}};
    if (file.large)
      sibling["lfs"] = {
          {"sha256", sha256(file.content)}, {"size", file.content.size()}, {"pointerSize", 134}};
    siblings.push_back(sibling);
  }
  return nlohmann::json{{"id", "org/name"}, {"sha", repository.commit}, {"siblings", siblings}}.dump();
}

// The other listing, which the hub's own tool asks for.
std::string HubServer::tree_of(const Repository& repository) const {
  nlohmann::json entries = nlohmann::json::array();
  for (const HubFile& file : repository.files) {
    nlohmann::json entry = {{"type", "file"},
                            {"path", file.path},
                            {"size", file.content.size()},
                            {"oid", git_sha1(file.content)}};
    if (file.large) {
      entry["lfs"] = {{"oid", sha256(file.content)}, {"size", file.content.size()}, {"pointerSize", 134}};
    }
    entries.push_back(entry);
  }
  return entries.dump();
}

void HubServer::answer(int connection, const HubRequest& request, int nth) {
  const HubFault trouble = fault ? fault(request, nth) : HubFault{};
  if (!trouble.raw.empty()) {
    send_all(connection, trouble.raw);
    return;
  }
  const auto plain = [&](int status, const std::string& headers, const std::string& body) {
    send_all(connection, fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                                     status, body.size(), headers) +
                             (request.method == "HEAD" ? "" : body));
  };
  if (trouble.status != 0) return plain(trouble.status, trouble.extra_headers, trouble.body);
  if (!trouble.redirect.empty()) return plain(302, "Location: " + trouble.redirect + "\r\n", "");
  const std::string path = unescaped(path_of(request.target));
  // The store of large files wants no token, as the real one refuses any.
  if (path.starts_with("/store/")) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, repository] : repositories_) {
      for (const HubFile& file : repository.files) {
        if (path == "/store/" + sha256(file.content)) {
          return send_content(connection, request, trouble, file.content, "\"" + sha256(file.content) + "\"");
        }
      }
    }
    return plain(404, "", "");
  }
  const auto authorization = request.headers.find("authorization");
  if (!token.empty() &&
      (authorization == request.headers.end() || authorization->second != "Bearer " + token)) {
    return plain(401, "X-Error-Code: GatedRepo\r\n", "");
  }
  std::map<std::string, Repository> repositories;
  {
    const std::lock_guard lock(mutex_);
    repositories = repositories_;
  }
  for (const auto& [name, repository] : repositories) {
    const std::string api = "/api/models/" + name + "/revision/";
    if (path.starts_with(api)) {
      const std::string revision = path.substr(api.size());
      if (revision != repository.revision && revision != repository.commit) {
        return plain(404, "X-Error-Code: RevisionNotFound\r\n", "{}");
      }
      const std::string body = listing_of(repository);
      return plain(200, "Content-Type: application/json\r\n", listing ? listing(body) : body);
    }
    if (path == "/api/models/" + name + "/tree/" + repository.commit) {
      return plain(200, "Content-Type: application/json\r\n", tree_of(repository));
    }
    for (const char* revision : {repository.commit.c_str(), repository.revision.c_str()}) {
      const std::string prefix = "/" + name + "/resolve/" + revision + "/";
      if (!path.starts_with(prefix)) continue;
      for (const HubFile& file : repository.files) {
        if (file.path != path.substr(prefix.size())) continue;
        const std::string commit = "X-Repo-Commit: " + repository.commit + "\r\n";
        if (file.large) {
          return plain(
              302,
              fmt::format("{}X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nLocation: "
                          "http://localhost:{}/store/{}\r\n",
                          commit, sha256(file.content), file.content.size(), port_, sha256(file.content)),
              "");
        }
        HubFault with_commit = trouble;
        with_commit.extra_headers += commit;
        return send_content(connection, request, with_commit, file.content,
                            "\"" + git_sha1(file.content) + "\"");
      }
    }
  }
  plain(404, "X-Error-Code: RepoNotFound\r\n", "");
}

void HubServer::send_content(int connection, const HubRequest& request, const HubFault& fault_now,
                             const std::string& content, const std::string& etag) {
  size_t begin = 0, end = content.size();
  std::string status = "200 OK", range_header;
  const auto range = request.headers.find("range");
  if (range != request.headers.end() && !fault_now.ignore_range) {
    const auto condition = request.headers.find("if-range");
    const std::string text = range->second.substr(6);  // "bytes="
    const size_t dash = text.find('-');
    begin = std::stoul(text.substr(0, dash));
    if (dash + 1 < text.size()) end = std::min(end, std::stoul(text.substr(dash + 1)) + 1);
    if (condition != request.headers.end() && condition->second != etag) {
      begin = 0, end = content.size();
    } else if (begin >= content.size()) {
      send_all(connection, "HTTP/1.1 416 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      return;
    } else {
      status = "206 Partial";
      range_header = fmt::format("Content-Range: bytes {}-{}/{}\r\n", begin, end - 1, content.size());
    }
  }
  std::string body = content.substr(begin, end - begin);
  if (fault_now.flip_byte >= static_cast<int64_t>(begin) && fault_now.flip_byte < static_cast<int64_t>(end)) {
    body[static_cast<size_t>(fault_now.flip_byte) - begin] ^= 1;
  }
  const std::string length =
      fault_now.extra_bytes > 0 ? "" : fmt::format("Content-Length: {}\r\n", body.size());
  if (fault_now.extra_bytes > 0) body += std::string(static_cast<size_t>(fault_now.extra_bytes), 'x');
  std::string head = fmt::format("HTTP/1.1 {}\r\n{}ETag: {}\r\n{}{}Connection: close\r\n\r\n", status, length,
                                 etag, range_header, fault_now.extra_headers);
  if (!send_all(connection, head) || request.method == "HEAD") return;
  size_t sending = body.size();
  if (fault_now.cut_after >= 0) sending = std::min(sending, static_cast<size_t>(fault_now.cut_after));
  for (size_t at = 0; at < sending && !stopping_; at += kChunk) {
    if (fault_now.delay_milliseconds > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(fault_now.delay_milliseconds));
    }
    const size_t count = std::min(kChunk, sending - at);
    if (!send_all(connection, std::string_view(body).substr(at, count))) return;
    sent_ += static_cast<int64_t>(count);
  }
}

}  // namespace rafter::testing
