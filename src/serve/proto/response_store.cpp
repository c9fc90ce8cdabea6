#include "serve/proto/response_store.h"

namespace rafter::serve {

void ResponseStore::put(const std::string& id, StoredResponse response, int64_t now) {
  // A value in memory takes several times its text; the bound is on the text.
  const size_t bytes = to_text(response.response).size() + to_text(response.messages).size();
  const std::lock_guard lock(mutex_);
  erase_locked(id);
  if (bytes > most_bytes_) return;
  order_.push_back(id);
  entries_[id] = {std::make_shared<const StoredResponse>(std::move(response)), bytes, now + seconds_,
                  std::prev(order_.end())};
  bytes_ += bytes;
  while (bytes_ > most_bytes_) erase_locked(std::string(order_.front()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id, int64_t now) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  if (found->second.expires <= now) {
    erase_locked(id);
    return nullptr;
  }
  order_.splice(order_.end(), order_, found->second.place);
  return found->second.response;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return erase_locked(id);
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

bool ResponseStore::erase_locked(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  bytes_ -= found->second.bytes;
  order_.erase(found->second.place);
  entries_.erase(found);
  return true;
}

}  // namespace rafter::serve
