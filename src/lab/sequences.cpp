#include "lab/sequences.h"

#include <algorithm>

namespace rafter::lab {

Sequences::~Sequences() {
  for (int32_t sequence : sequences_) engine_.release_sequence(sequence);
}

base::Status Sequences::grow_to(int64_t length) {
  while (static_cast<int>(sequences_.size()) < count_) {
    RAFTER_ASSIGN(const int32_t sequence, engine_.create_sequence());
    sequences_.push_back(sequence);
  }
  for (size_t i = 0; i < sequences_.size(); ++i) {
    for (int64_t at = length_; at < length;) {
      rows_.clear();
      const int64_t end = std::min<int64_t>(length, at + engine_.options().row_capacity);
      for (; at < end; ++at) rows_.push_back({token(i, at), static_cast<int32_t>(at), sequences_[i]});
      RAFTER_TRY(engine_.step(rows_));
    }
  }
  length_ = std::max(length_, length);
  return {};
}

base::Status Sequences::step() {
  rows_.clear();
  for (size_t i = 0; i < sequences_.size(); ++i)
    rows_.push_back({token(i, length_), static_cast<int32_t>(length_), sequences_[i], true});
  RAFTER_TRY(engine_.step(rows_));
  for (int32_t sequence : sequences_) engine_.truncate(sequence, length_);
  return {};
}

int32_t Sequences::token(size_t sequence, int64_t position) const {
  return static_cast<int32_t>((position * 7919 + static_cast<int64_t>(sequence) * 104729 + 1) %
                              engine_.vocabulary_size());
}

}  // namespace rafter::lab
