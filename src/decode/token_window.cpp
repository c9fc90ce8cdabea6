#include "decode/token_window.h"

#include "base/check.h"

namespace rafter::decode {

size_t TokenWindow::begin_of(size_t size) const {
  return length_ == 0 || size <= length_ ? 0 : size - length_;
}

void TokenWindow::update(std::span<const int32_t> history) {
  RAFTER_CHECK(history.size() >= size_, "the history shrank from {} to {}", size_, history.size());
  const size_t begin = begin_of(history.size());
  for (size_t i = begin_of(size_); i < begin && i < size_; ++i) remove(history[i]);
  for (size_t i = begin > size_ ? begin : size_; i < history.size(); ++i) ++counts_[history[i]];
  size_ = history.size();
}

void TokenWindow::remove(int32_t token) {
  auto entry = counts_.find(token);
  if (entry != counts_.end() && --entry->second == 0) counts_.erase(entry);
}

}  // namespace rafter::decode
