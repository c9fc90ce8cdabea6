#include "text/jinja_text.h"

#include <algorithm>

namespace rafter::text::jinja {

Text::Text(std::string bytes, bool from_input) : bytes_(std::move(bytes)) {
  if (from_input) mark_input(0, bytes_.size());
}

void Text::mark_input(size_t begin, size_t end) {
  if (begin == end) return;
  if (!input_.empty() && input_.back().end == begin) {
    input_.back().end = end;
  } else {
    input_.push_back({begin, end});
  }
}

bool Text::is_input(size_t at) const {
  auto after =
      std::upper_bound(input_.begin(), input_.end(), at,
                       [](size_t position, const ByteRange& range) { return position < range.begin; });
  return after != input_.begin() && at < std::prev(after)->end;
}

void Text::append(const Text& other, size_t begin, size_t end) {
  const size_t start = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  if (other.input_.empty()) return;
  auto range = std::lower_bound(other.input_.begin(), other.input_.end(), begin,
                                [](const ByteRange& r, size_t position) { return r.end <= position; });
  for (; range != other.input_.end() && range->begin < end; ++range) {
    mark_input(start + std::max(range->begin, begin) - begin, start + std::min(range->end, end) - begin);
  }
}

void Text::append_as(std::string_view bytes, const Text& source, size_t at) {
  const size_t start = bytes_.size();
  bytes_ += bytes;
  if (!source.input_.empty() && source.is_input(at)) mark_input(start, bytes_.size());
}

Text Text::slice(size_t begin, size_t end) const {
  Text piece;
  piece.append(*this, begin, end);
  return piece;
}

}  // namespace rafter::text::jinja
