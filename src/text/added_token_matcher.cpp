#include "text/added_token_matcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/unicode.h"

namespace rafter::text {
namespace {

constexpr size_t kLongestContent = 1024;  // bounds the steps per byte of text

bool is_space_at(std::string_view text, size_t position) {
  return position < text.size() && (classify(char_at(text, position).code_point) & kSpace) != 0;
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word_character(char_before(text, begin).code_point)) ||
         (end < text.size() && is_word_character(char_at(text, end).code_point));
}

size_t skip_spaces_back(std::string_view text, size_t position, size_t limit) {
  while (position > limit) {
    const Char before = char_before(text, position);
    if ((classify(before.code_point) & kSpace) == 0) break;
    position -= before.length;
  }
  return position;
}

// The end of the white space at a position. Remembers the last run, since many tokens may swallow the same
// one.
class SpaceRuns {
 public:
  explicit SpaceRuns(std::string_view text) : text_(text) {}

  size_t end_from(size_t position) {
    if (position < begin_ || position > end_) {
      begin_ = end_ = position;
      while (is_space_at(text_, end_)) end_ += char_at(text_, end_).length;
    }
    return end_;
  }

 private:
  std::string_view text_;
  size_t begin_ = 1;
  size_t end_ = 0;
};

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() { root_.fill(-1); }

base::Status AddedTokenMatcher::add(std::string_view content, const AddedToken& token,
                                    const std::string& where) {
  if (content.size() > kLongestContent) {
    return base::Error{base::ErrorCode::unsupported,
                       fmt::format("added token {} has {} bytes; at most {} are supported", token.id,
                                   content.size(), kLongestContent),
                       where, ""};
  }
  auto new_node = [&](uint8_t byte, int32_t sibling) {
    nodes_.push_back({-1, sibling, -1, byte});
    return static_cast<int32_t>(nodes_.size() - 1);
  };
  int32_t& first = root_[static_cast<uint8_t>(content[0])];
  if (first < 0) first = new_node(static_cast<uint8_t>(content[0]), -1);
  int32_t node = first;
  for (char character : content.substr(1)) {
    const auto byte = static_cast<uint8_t>(character);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = new_node(byte, nodes_[static_cast<size_t>(node)].first_child);
      nodes_[static_cast<size_t>(node)].first_child = next;
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back({token.id, token.special, token.lstrip, token.rstrip, token.single_word});
  return {};
}

int32_t AddedTokenMatcher::child(int32_t node, uint8_t byte) const {
  int32_t next = nodes_[static_cast<size_t>(node)].first_child;
  while (next >= 0 && nodes_[static_cast<size_t>(next)].byte != byte) {
    next = nodes_[static_cast<size_t>(next)].next_sibling;
  }
  return next;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_match(std::string_view text) const {
  Match match;
  int32_t node = root_[static_cast<uint8_t>(text[0])];
  for (size_t length = 1; node >= 0; ++length) {
    if (nodes_[static_cast<size_t>(node)].token >= 0)
      match = {nodes_[static_cast<size_t>(node)].token, length};
    if (length == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[length]));
  }
  return match;
}

void AddedTokenMatcher::split(std::string_view text, bool match_special,
                              std::vector<Segment>& segments) const {
  segments.clear();
  size_t done = 0;  // end of the last segment
  SpaceRuns space_runs(text);
  for (size_t position = 0; !tokens_.empty() && position < text.size();) {
    if (root_[static_cast<uint8_t>(text[position])] < 0) {
      ++position;
      continue;
    }
    const Match match = longest_match(text.substr(position));
    if (match.token < 0) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position += match.length;
    const Attributes& token = tokens_[static_cast<size_t>(match.token)];
    if (token.special && !match_special) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip && begin > done) begin = skip_spaces_back(text, begin, done);
    if (token.rstrip) end = space_runs.end_from(end);
    if (begin > done) segments.push_back({text.substr(done, begin - done), -1});
    segments.push_back({text.substr(begin, end - begin), token.id});
    // The search itself goes on behind the match, not behind the white space it swallowed: a token made of
    // white space is still found there, and the text after it starts anew.
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), -1});
}

}  // namespace rafter::text
