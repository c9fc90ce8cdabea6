// A server on the loopback interface that speaks the hub's protocol, with faults where a test wants them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rafter::testing {

struct HubFile {
  std::string path;
  std::string content;
  bool large = false;  // kept in the store of large files: SHA-256, behind a redirect
};

struct HubRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;  // names in lower case
};

// How one answer goes wrong. The default is a good answer.
struct HubFault {
  int status = 0;                  // answer with this instead
  std::string extra_headers = {};  // "Retry-After: 1\r\n"
  int64_t cut_after = -1;          // close the connection after that many bytes of the body
  int64_t flip_byte = -1;          // change that byte of the body
  bool ignore_range = false;       // answer 200 with everything
  std::string redirect = {};       // 302 to this
  std::string body = {};           // with a status: this body
  std::string raw = {};            // these bytes instead of any answer
  int delay_milliseconds = 0;      // before each 64 KiB of the body
  int64_t extra_bytes = 0;         // more than the length says, the length left out
};

class HubServer {
 public:
  HubServer();
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string endpoint() const;  // "http://127.0.0.1:PORT"
  int port() const { return port_; }

  // A repository with one commit under `revision`.
  void add(const std::string& name, const std::string& commit, std::vector<HubFile> files,
           const std::string& revision = "main");

  // Called for every request, with how often its target was asked for before. Set it before the first.
  std::function<HubFault(const HubRequest&, int)> fault;
  // Rewrites the listing's JSON; may be empty.
  std::function<std::string(std::string)> listing;
  // Nobody may read without "Bearer TOKEN" when set.
  std::string token;

  std::vector<HubRequest> requests() const;
  // Requests whose target contains `part`.
  int count(const std::string& part) const;
  int64_t body_bytes_sent() const { return sent_; }

  static std::string sha256(const std::string& content);
  static std::string git_sha1(const std::string& content);

 private:
  struct Repository {
    std::string commit, revision;
    std::vector<HubFile> files;
  };

  void accept_loop();
  void serve(int connection);
  void answer(int connection, const HubRequest& request, int nth);
  void send_content(int connection, const HubRequest& request, const HubFault& fault,
                    const std::string& content, const std::string& etag);
  std::string listing_of(const Repository& repository) const;
  std::string tree_of(const Repository& repository) const;

  int socket_ = -1, port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> sent_{0};
  std::map<std::string, Repository> repositories_;
  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
  std::map<std::string, int> counts_;
  std::vector<std::thread> connections_;
  std::thread accepting_;
};

}  // namespace rafter::testing
