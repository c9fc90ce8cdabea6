// Text: a template string that remembers, byte by byte, whether it came from the render's inputs. The
// prompt's control tokens may only be recognised where the template itself wrote them; see chat_template.h,
// Rendered::input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rafter::text {

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

namespace jinja {

// Valid UTF-8 with the byte ranges that inputs contributed: sorted, apart, never empty.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, bool from_input = false);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<ByteRange>& input() const { return input_; }
  bool is_input(size_t at) const;

  void append(std::string_view template_bytes) { bytes_ += template_bytes; }
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t end);
  // Appends `bytes`, which is what byte `at` of `source` became (an escape, another case).
  void append_as(std::string_view bytes, const Text& source, size_t at);
  void reserve(size_t bytes) { bytes_.reserve(bytes); }

  Text slice(size_t begin, size_t end) const;
  std::string take_bytes() && { return std::move(bytes_); }
  std::vector<ByteRange> take_input() && { return std::move(input_); }

 private:
  void mark_input(size_t begin, size_t end);

  std::string bytes_;
  std::vector<ByteRange> input_;
};

}  // namespace jinja
}  // namespace rafter::text
