// Answers of /v1/responses that later requests may refer to: in memory, for an hour, the least recently used
// given up first. Safe on any thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/proto/json.h"

namespace rafter::serve {

struct StoredResponse {
  Json response;             // as it was sent
  Json messages;             // the conversation up to and with its answer, as chat has it
  std::string instructions;  // carried forward; not among the messages
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t most_bytes = 32 << 20, int64_t seconds = 3600)
      : most_bytes_(most_bytes), seconds_(seconds) {}

  // `now`: seconds, of any clock. What is larger than the store is not kept.
  void put(const std::string& id, StoredResponse response, int64_t now);
  // Null if it is not there any more.
  std::shared_ptr<const StoredResponse> find(const std::string& id, int64_t now);
  bool erase(const std::string& id);

  size_t size() const;
  size_t bytes() const;
  size_t most_bytes() const { return most_bytes_; }
  int64_t seconds() const { return seconds_; }

 private:
  struct Entry {
    std::shared_ptr<const StoredResponse> response;
    size_t bytes = 0;
    int64_t expires = 0;
    std::list<std::string>::iterator place;
  };

  bool erase_locked(const std::string& id);

  const size_t most_bytes_;
  const int64_t seconds_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  std::map<std::string, Entry> entries_;
  std::list<std::string> order_;  // the least recently used first
};

}  // namespace rafter::serve
