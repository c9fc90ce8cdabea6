#include "serve/proto/reasoning_store.h"

#include <string_view>

#include <xxhash.h>

namespace rafter::serve {
namespace {

constexpr size_t kEntryOverhead = 256;  // bytes of the containers, roughly

using Digest = std::array<uint64_t, 2>;

// Each message's digest goes on from that of the messages in front of it.
void extend(Digest& digest, std::string_view text) {
  const XXH128_hash_t next = XXH3_128bits_withSeed(text.data(), text.size(), digest[0]);
  digest = {next.low64 ^ digest[1], next.high64};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string_view text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? std::string_view(found->get_ref<const std::string&>())
                                                     : std::string_view();
}

// A call's arguments in one form, whatever the order of their members.
std::string canonical(const Json& arguments) {
  return nlohmann::json(arguments).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void extend_with_call(Digest& digest, std::string_view name, const Json& arguments) {
  extend(digest, "call");
  extend(digest, name);
  extend(digest, canonical(arguments));
}

void extend_with_message(Digest& digest, const Json& message) {
  extend(digest, text_in(message, "role"));
  extend(digest, trimmed(text_in(message, "content")));
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  for (const Json& call : *calls)
    extend_with_call(digest, text_in(call["function"], "name"), call["function"]["arguments"]);
}

}  // namespace

ReasoningStore::Place ReasoningStore::place_of(std::string client, const Json& messages) {
  Place place{std::move(client), {}};
  for (const Json& message : messages) extend_with_message(place.digest, message);
  return place;
}

void ReasoningStore::erase(std::map<Place, Entry>::iterator entry) {
  bytes_ -= entry->second.reasoning.size() + 2 * entry->first.client.size() + kEntryOverhead;
  ages_.erase(entry->second.age);
  entries_.erase(entry);
}

void ReasoningStore::put(const Place& before, const Answer& answer) {
  if (answer.reasoning.empty()) return;
  Place place = before;
  extend(place.digest, "assistant");
  extend(place.digest, trimmed(answer.content));
  for (const AnswerCall& call : answer.calls) {
    const auto arguments = parse_json(call.arguments);
    if (!arguments.ok()) return;
    extend_with_call(place.digest, call.name, *arguments);
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(place); known != entries_.end()) erase(known);
  const size_t size = answer.reasoning.size() + 2 * place.client.size() + kEntryOverhead;
  if (size > most_bytes_) return;
  while (bytes_ + size > most_bytes_) erase(entries_.find(ages_.front()));
  ages_.push_back(place);
  entries_.emplace(std::move(place), Entry{answer.reasoning, std::prev(ages_.end())});
  bytes_ += size;
}

size_t ReasoningStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t ReasoningStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int ReasoningStore::restore(const std::string& client, Json& messages) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return 0;
  int restored = 0;
  Place place{client, {}};
  for (Json& message : messages) {
    extend_with_message(place.digest, message);
    if (message["role"] != "assistant" || message.contains("reasoning_content")) continue;
    const auto found = entries_.find(place);
    if (found == entries_.end()) continue;
    message["reasoning_content"] = found->second.reasoning;
    ages_.splice(ages_.end(), ages_, found->second.age);
    ++restored;
  }
  return restored;
}

}  // namespace rafter::serve
