#include "text/token_index.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/json_characters.h"
#include "text/token_trie.h"

namespace rafter::text {
namespace {

using Configuration = GrammarMachine::Configuration;

// In front of a marker's number: no UTF-8 has such a byte.
constexpr char kMarkerByte = '\xFF';
constexpr size_t kMostMarkers = 255;

// Tokens inside a JSON string: what of them stays in it is the same for every schema that leaves the
// characters free, and found once. The rest close the string, or can be in none.
constexpr uint16_t kNoContent = UINT16_MAX;

// Reads a trie's bytes. `visit(node, configuration)` is called for each node that can be read and returns
// whether to go on below it.
template <typename Visit>
void walk(const TokenTrie& trie, GrammarMachine& machine, Configuration from, Visit visit) {
  std::vector<Configuration> path(static_cast<size_t>(trie.longest()) + 1, GrammarMachine::kDead);
  path[0] = from;
  for (int32_t node = 0; node < trie.size();) {
    const TokenTrie::Node& place = trie[node];
    const Configuration here = machine.advance(path[place.depth - 1u], place.byte);
    path[place.depth] = here;
    node = here != GrammarMachine::kDead && visit(node, here) ? node + 1 : place.subtree_end;
  }
}

}  // namespace

struct TokenIndex::Data {
  Tokenizer tokenizer;
  std::vector<int32_t> end_tokens;
  TokenTrie trie;
  TokenTrie closing;                      // only tokens that close a string they begin in
  std::vector<bool> closes;               // [node]: such a token ends in its subtree
  std::vector<uint16_t> node_characters;  // [node]: in a string, it ends between characters, after so many
  std::vector<uint16_t> characters;       // [i of ids()]: in a string, it begins so many and stays there
  std::vector<TokenBits> content;         // [n]: tokens that stay in a string and begin at most n characters
  std::vector<std::pair<uint16_t, int32_t>> longest;  // (characters, id) of those that the limits leave out
  std::vector<int32_t> not_first;                     // what they write depends on whether they are the first
  uint16_t most_characters = 0;
  struct Marker {
    std::string text, bytes;
    int32_t id;
  };
  std::vector<Marker> markers;

  explicit Data(Tokenizer value) : tokenizer(std::move(value)) {}
  void read_content();
  void count_content();
  void find_markers(const std::vector<std::string>& texts);
  TokenBits content_up_to(int32_t limit) const;
  void add_within(int32_t node, int32_t limit, TokenBits& bits) const;
};

void TokenIndex::Data::find_markers(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const auto id = tokenizer.token_id(text);
    const bool is_end = id && std::find(end_tokens.begin(), end_tokens.end(), *id) != end_tokens.end();
    if (!id || !tokenizer.is_special(*id) || is_end || markers.size() == kMostMarkers) continue;
    markers.push_back({text, {kMarkerByte, static_cast<char>(markers.size() + 1)}, *id});
  }
}

// Every token read as the inside of a string.
void TokenIndex::Data::read_content() {
  ByteGrammar grammar;
  const int32_t body = add_free_string_body(grammar, 0, ByteGrammar::kUnlimited);
  RAFTER_CHECK(grammar.trim(body));
  GrammarMachine machine(grammar, body);
  closes.assign(static_cast<size_t>(trie.size()), false);
  node_characters.assign(static_cast<size_t>(trie.size()), kNoContent);
  characters.assign(trie.ids().size(), kNoContent);
  std::vector<uint16_t> begun(static_cast<size_t>(trie.longest()) + 1);
  std::vector<int32_t> path(begun.size());
  std::vector<bool> between(begun.size(), true);
  std::vector<std::pair<std::string_view, int32_t>> closing_tokens;
  walk(trie, machine, machine.start(), [&](int32_t node, Configuration here) {
    const TokenTrie::Node& place = trie[node];
    const size_t depth = place.depth;
    path[depth] = node;
    if (machine.is_complete(here)) {
      for (size_t i = 1; i <= depth; ++i) closes[static_cast<size_t>(path[i])] = true;
      for (int32_t below = node; below < place.subtree_end; ++below)
        closes[static_cast<size_t>(below)] = true;
      for (int32_t i = place.tokens_begin; i < trie.tokens_end(node); ++i) {
        const int32_t id = trie.ids()[static_cast<size_t>(i)];
        closing_tokens.emplace_back(tokenizer.token_bytes(id), id);
      }
      return false;
    }
    begun[depth] = static_cast<uint16_t>(begun[depth - 1] + (between[depth - 1] ? 1 : 0));
    between[depth] = here == machine.start();
    if (between[depth]) node_characters[static_cast<size_t>(node)] = begun[depth];
    for (int32_t i = place.tokens_begin; i < trie.own_end(node); ++i) {
      characters[static_cast<size_t>(i)] = begun[depth];
    }
    return true;
  });
  closing = TokenTrie(std::move(closing_tokens));
}

void TokenIndex::Data::count_content() {
  constexpr size_t kMostMasks = 64;  // 2 MiB of a vocabulary of 262,144; beyond, few tokens are too long
  std::vector<std::vector<int32_t>> tokens;  // [characters]
  for (size_t i = 0; i < characters.size(); ++i) {
    if (characters[i] == kNoContent) continue;
    if (tokens.size() <= characters[i]) tokens.resize(characters[i] + 1u);
    tokens[characters[i]].push_back(trie.ids()[i]);
  }
  most_characters = static_cast<uint16_t>(tokens.empty() ? 0 : tokens.size() - 1);
  TokenBits bits(tokenizer.vocab_size());
  for (const std::vector<int32_t>& some : tokens) {
    for (int32_t id : some) bits.set(id);
    if (content.size() < kMostMasks) content.push_back(bits);
  }
  if (content.empty()) content.push_back(bits);
  content.push_back(bits);  // without a limit
  for (size_t n = kMostMasks; n < tokens.size(); ++n) {
    for (int32_t id : tokens[n]) longest.emplace_back(static_cast<uint16_t>(n), id);
  }
}

TokenBits TokenIndex::Data::content_up_to(int32_t limit) const {
  if (limit >= most_characters) return content.back();
  const auto n = static_cast<size_t>(limit);
  if (n + 1 < content.size()) return content[n];
  TokenBits bits = content.back();
  for (const auto& [count, id] : longest) {
    if (count > limit) bits.reset(id);
  }
  return bits;
}

// The tokens below a node that go on in the string in which the node ends between characters.
void TokenIndex::Data::add_within(int32_t node, int32_t limit, TokenBits& bits) const {
  const uint16_t before = node_characters[static_cast<size_t>(node)];
  for (int32_t i = trie[node].tokens_begin; i < trie.tokens_end(node); ++i) {
    const uint16_t count = characters[static_cast<size_t>(i)];
    if (count != kNoContent && count - before <= limit) bits.set(trie.ids()[static_cast<size_t>(i)]);
  }
}

base::Result<TokenIndex> TokenIndex::from(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                                          const std::vector<std::string>& markers) {
  const auto unsupported = [](std::string what) {
    return base::Error{base::ErrorCode::unsupported, std::move(what), "constrained output",
                       "the model's tokenizer cannot be held to a grammar"};
  };
  if (tokenizer.decoder().streaming() != Decoder::Streaming::bytes) {
    return unsupported("what a token writes depends on the tokens around it");
  }
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  std::vector<bool> is_written(256, false);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    const bool is_end = std::find(end_tokens.begin(), end_tokens.end(), id) != end_tokens.end();
    if (bytes.empty() || is_end || tokenizer.is_special(id) || bytes.find(kMarkerByte) != bytes.npos)
      continue;
    tokens.emplace_back(bytes, id);
    if (bytes.size() == 1) is_written[static_cast<uint8_t>(bytes[0])] = true;
  }
  for (int byte = ' '; byte <= '~'; ++byte) {
    if (!is_written[static_cast<size_t>(byte)]) {
      return unsupported(fmt::format("no token is the character '{}' alone", static_cast<char>(byte)));
    }
  }
  // A character that is begun must be completed: without tokens for single bytes only whole ones count.
  const bool has_bytes =
      std::all_of(is_written.begin() + 0x80, is_written.begin() + 0xC0, [](bool b) { return b; });
  if (!has_bytes) std::erase_if(tokens, [](const auto& token) { return !base::is_valid_utf8(token.first); });

  auto data = std::make_shared<Data>(tokenizer);
  data->end_tokens.assign(end_tokens.begin(), end_tokens.end());
  if (tokenizer.decoder().drops_in_first_only() && tokenizer.decoder().dropped_spaces() > 0) {
    for (const auto& [bytes, id] : tokens) {
      const size_t text = bytes.find_first_not_of(' ');
      if (text != std::string_view::npos && bytes.find(' ', text) != std::string_view::npos) {
        data->not_first.push_back(id);
      }
    }
  }
  data->find_markers(markers);
  for (const Data::Marker& marker : data->markers) tokens.emplace_back(marker.bytes, marker.id);
  data->trie = TokenTrie(std::move(tokens));
  data->read_content();
  data->count_content();
  return TokenIndex(std::move(data));
}

TokenBits TokenIndex::allowed(GrammarMachine& machine, Configuration from) const {
  const Data& data = *data_;
  const auto add_own = [](const TokenTrie& trie, int32_t node, TokenBits& bits) {
    for (int32_t i = trie[node].tokens_begin; i < trie.own_end(node); ++i)
      bits.set(trie.ids()[static_cast<size_t>(i)]);
  };
  const int32_t free = machine.free_characters(from);
  TokenBits bits = free >= 0 ? data.content_up_to(free) : TokenBits(vocab_size());
  if (free >= 0) {
    walk(data.closing, machine, from, [&](int32_t node, Configuration) {
      add_own(data.closing, node, bits);
      return true;
    });
  } else {
    int32_t string_end = 0;  // up to here the tokens that stay in a string are in already
    walk(data.trie, machine, from, [&](int32_t node, Configuration here) {
      if (node < string_end && !data.closes[static_cast<size_t>(node)]) return false;
      add_own(data.trie, node, bits);
      const int32_t limit = machine.free_characters(here);
      if (node >= string_end && limit >= 0 && data.node_characters[static_cast<size_t>(node)] != kNoContent) {
        data.add_within(node, limit, bits);
        string_end = data.trie[node].subtree_end;
      }
      return true;
    });
  }
  if (from == machine.start()) {
    for (int32_t id : data.not_first) bits.reset(id);
  }
  if (machine.is_complete(from)) {
    for (int32_t id : data.end_tokens) {
      if (id >= 0 && id < bits.size()) bits.set(id);
    }
  }
  return bits;
}

std::string TokenIndex::marked(std::string_view text) const {
  std::string bytes;
  while (!text.empty()) {
    const Data::Marker* longest = nullptr;
    for (const Data::Marker& marker : data_->markers) {
      if (text.starts_with(marker.text) && (longest == nullptr || marker.text.size() > longest->text.size()))
        longest = &marker;
    }
    bytes += longest != nullptr ? std::string_view(longest->bytes) : text.substr(0, 1);
    text.remove_prefix(longest != nullptr ? longest->text.size() : 1);
  }
  return bytes;
}

std::string_view TokenIndex::writes(int32_t id) const {
  if (id < 0 || id >= vocab_size() || is_end(id)) return {};
  if (!data_->tokenizer.is_special(id)) return data_->tokenizer.token_bytes(id);
  for (const Data::Marker& marker : data_->markers) {
    if (marker.id == id) return marker.bytes;
  }
  return {};
}
bool TokenIndex::is_end(int32_t id) const {
  return std::find(data_->end_tokens.begin(), data_->end_tokens.end(), id) != data_->end_tokens.end();
}
int32_t TokenIndex::vocab_size() const { return data_->tokenizer.vocab_size(); }

}  // namespace rafter::text
