// What the server's own answers thought, for clients that send the answers back without it: a template that
// writes the reasoning of earlier turns then makes the prompt that was computed already, and the model reads
// what it was trained to read.
//
// The rule: an answer's reasoning is put back where a conversation of the same client (one API key; all
// requests without a key are one client) has the same messages in front of the answer, reasoning aside, and
// the answer says and calls the same, ids and the white space around its text aside. Messages that bring a
// reasoning of their own keep it. In memory, within a limit of bytes, the least recently used given up first.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "serve/proto/json.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// Safe on any thread.
class ReasoningStore {
 public:
  explicit ReasoningStore(size_t most_bytes = 16 << 20) : most_bytes_(most_bytes) {}

  // Where a client's conversation stands: a digest of its messages, reasoning aside.
  struct Place {
    std::string client;
    std::array<uint64_t, 2> digest = {};
    bool operator<(const Place& other) const {
      return client != other.client ? client < other.client : digest < other.digest;
    }
  };
  // `messages`: normalised (proto/messages.h).
  static Place place_of(std::string client, const Json& messages);

  // An answer to the conversation that stands at `place`. Nothing is kept of one without reasoning.
  void put(const Place& place, const Answer& answer);
  // Puts reasoning back into the messages; returns into how many.
  int restore(const std::string& client, Json& messages);

  size_t size() const;
  size_t bytes() const;

 private:
  struct Entry {
    std::string reasoning;
    std::list<Place>::iterator age;
  };
  void erase(std::map<Place, Entry>::iterator entry);

  mutable std::mutex mutex_;  // of all that follows
  size_t most_bytes_, bytes_ = 0;
  std::map<Place, Entry> entries_;
  std::list<Place> ages_;  // the least recently used first
};

}  // namespace rafter::serve
