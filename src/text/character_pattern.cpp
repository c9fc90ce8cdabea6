// CharacterAutomaton::from_pattern: a regular expression to a non-deterministic automaton, and that to sets
// of its states.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/character_automaton.h"

namespace rafter::text {
namespace {

constexpr size_t kMostNodes = 20'000;
constexpr size_t kMostWork = 4'000'000;  // state sets' members times classes of characters

struct PatternFailure {
  std::string what;
};

[[noreturn]] void refuse(std::string what) { throw PatternFailure{std::move(what)}; }

// What a node of the non-deterministic automaton does before it goes on.
struct Node {
  enum class Kind { split, begin, end, characters } kind = Kind::split;
  CodePointSet set;           // of Kind::characters
  std::vector<int32_t> next;  // of Kind::split any number, else one
};

struct Fragment {
  int32_t first, last;  // `last` is a split without a way on
};

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) {
    while (!pattern.empty()) {
      const base::Utf8Step step = base::decode_utf8(pattern);
      text_ += step.code_point;
      pattern.remove_prefix(step.length);
    }
  }

  Fragment read() {
    const Fragment all = alternatives(0);
    if (at_ < text_.size()) refuse("has a ) without a (");
    return all;
  }
  std::vector<Node> nodes;

 private:
  bool more() const { return at_ < text_.size(); }
  bool next_is(char32_t c) const { return more() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  char32_t take_any() {
    if (!more()) refuse("ends too early");
    return text_[at_++];
  }

  int32_t add(Node::Kind kind, CodePointSet set = {}) {
    if (nodes.size() >= kMostNodes) refuse("is too large");
    nodes.push_back({kind, std::move(set), {}});
    return static_cast<int32_t>(nodes.size()) - 1;
  }
  void link(int32_t from, int32_t to) { nodes[static_cast<size_t>(from)].next.push_back(to); }
  Fragment one(Node::Kind kind, CodePointSet set = {}) {
    const int32_t first = add(kind, std::move(set)), last = add(Node::Kind::split);
    link(first, last);
    return {first, last};
  }
  Fragment nothing() {
    const int32_t node = add(Node::Kind::split);
    return {node, node};
  }
  Fragment then(Fragment a, Fragment b) {
    link(a.last, b.first);
    return {a.first, b.last};
  }

  Fragment alternatives(int depth) {
    if (depth > 64) refuse("has groups nested too deep");
    const int32_t first = add(Node::Kind::split), last = add(Node::Kind::split);
    do {
      const Fragment one = sequence(depth);
      link(first, one.first);
      link(one.last, last);
    } while (take('|'));
    return {first, last};
  }

  Fragment sequence(int depth) {
    Fragment all = nothing();
    while (more() && !next_is('|') && !next_is(')')) {
      const size_t begin = at_;
      Fragment part = term(depth);
      all = then(all, repeated(part, begin, depth));
    }
    return all;
  }

  Fragment term(int depth) {
    const char32_t c = take_any();
    switch (c) {
      case '^':
        return one(Node::Kind::begin);
      case '$':
        return one(Node::Kind::end);
      case '(':
        return group(depth);
      case '[':
        return one(Node::Kind::characters, bracket());
      case '.':
        return one(Node::Kind::characters,
                   CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement());
      case '\\':
        return one(Node::Kind::characters, escape(false));
      case '*':
      case '+':
      case '?':
        refuse("has a quantifier with nothing to repeat");
      default:
        return one(Node::Kind::characters, CodePointSet::single(c));
    }
  }

  Fragment group(int depth) {
    if (take('?')) {
      const bool is_named =
          next_is('<') && at_ + 1 < text_.size() && text_[at_ + 1] != '=' && text_[at_ + 1] != '!';
      if (is_named) {
        while (take_any() != '>') {
        }
      } else if (!take(':')) {
        refuse("looks around");
      }
    }
    const Fragment inner = alternatives(depth + 1);
    if (!take(')')) refuse("has a ( without a )");
    return inner;
  }

  std::optional<int> number() {
    std::optional<int> value;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min(value.value_or(0) * 10 + static_cast<int>(text_[at_++] - '0'), 1'000'000);
    }
    return value;
  }

  // A quantifier behind what was read from `begin` on, if there is one. Whether it is greedy does not matter.
  Fragment repeated(Fragment part, size_t begin, int depth) {
    int least = 1;
    std::optional<int> most = 1;
    if (take('*')) {
      least = 0, most.reset();
    } else if (take('+')) {
      most.reset();
    } else if (take('?')) {
      least = 0;
    } else if (next_is('{')) {
      const size_t brace = at_++;
      const std::optional<int> low = number();
      const bool has_comma = low && take(',');
      most = has_comma ? number() : low;
      if (!low || !take('}')) {  // an ordinary character
        at_ = brace + 1;
        return then(part, one(Node::Kind::characters, CodePointSet::single('{')));
      }
      least = *low;
    } else {
      return part;
    }
    if (most && *most < least) refuse("has a {n,m} with m less than n");
    take('?');
    const size_t end = at_;
    const auto again = [&] {  // reads the part once more
      at_ = begin;
      const Fragment copy = term(depth);
      at_ = end;
      return copy;
    };
    Fragment all = nothing();
    bool is_used = false;
    const auto copy = [&] { return std::exchange(is_used, true) ? again() : part; };
    for (int i = 0; i < least; ++i) all = then(all, copy());
    if (!most) {
      const Fragment loop = copy();
      const int32_t hub = add(Node::Kind::split), last = add(Node::Kind::split);
      link(hub, loop.first);
      link(loop.last, hub);
      link(hub, last);
      return then(all, {hub, last});
    }
    const int32_t last = add(Node::Kind::split);
    for (int i = least; i < *most; ++i) {
      link(all.last, last);
      all = then(all, copy());
    }
    link(all.last, last);
    return {all.first, last};
  }

  char32_t hexadecimal(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t c = take_any(), lower = c | 0x20;
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + (lower - 'a' + 10);
      } else {
        refuse("has a bad hexadecimal escape");
      }
    }
    return value;
  }

  char32_t unicode_escape() {
    if (take('{')) {
      char32_t value = 0;
      while (!next_is('}')) value = std::min<char32_t>(value * 16 + hexadecimal(1), 0x110000);
      take_any();
      return value;
    }
    const char32_t high = hexadecimal(4);
    if (high < 0xD800 || high > 0xDBFF || !take('\\') || !take('u')) return high;
    return 0x10000 + ((high - 0xD800) << 10) + (hexadecimal(4) - 0xDC00);
  }

  CodePointSet escape(bool in_bracket) {
    const CodePointSet digits({{'0', '9'}}), words({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    const CodePointSet spaces({{'\t', '\r'},
                               {' ', ' '},
                               {0xA0, 0xA0},
                               {0x1680, 0x1680},
                               {0x2000, 0x200A},
                               {0x2028, 0x2029},
                               {0x202F, 0x202F},
                               {0x205F, 0x205F},
                               {0x3000, 0x3000},
                               {0xFEFF, 0xFEFF}});
    const char32_t c = take_any();
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return digits.complement();
      case 'w':
        return words;
      case 'W':
        return words.complement();
      case 's':
        return spaces;
      case 'S':
        return spaces.complement();
      case 't':
        return CodePointSet::single('\t');
      case 'n':
        return CodePointSet::single('\n');
      case 'r':
        return CodePointSet::single('\r');
      case 'f':
        return CodePointSet::single('\f');
      case 'v':
        return CodePointSet::single('\v');
      case 'x':
        return CodePointSet::single(hexadecimal(2));
      case 'u':
        return CodePointSet::single(unicode_escape());
      case 'b':
        if (in_bracket) return CodePointSet::single('\b');
        break;
      case '0':
        if (!more() || text_[at_] < '0' || text_[at_] > '9') return CodePointSet::single(0);
        break;
      default:
        break;
    }
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter) refuse(fmt::format("uses \\{}", static_cast<char>(c)));
    return CodePointSet::single(c);
  }

  CodePointSet bracket_item() { return take('\\') ? escape(true) : CodePointSet::single(take_any()); }

  CodePointSet bracket() {
    const bool is_complement = take('^');
    CodePointSet set;
    while (!take(']')) {
      const CodePointSet low = bracket_item();
      const bool is_range = next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set = set.unite(low);
        continue;
      }
      take('-');
      const CodePointSet high = bracket_item();
      const auto is_one = [](const CodePointSet& one) {
        return one.ranges().size() == 1 && one.ranges()[0].low == one.ranges()[0].high;
      };
      if (!is_one(low) || !is_one(high) || high < low) refuse("has a bad range between brackets");
      set = set.unite(CodePointSet({{low.ranges()[0].low, high.ranges()[0].high}}));
    }
    return is_complement ? set.complement() : set;
  }

  std::u32string text_;
  size_t at_ = 0;
};

}  // namespace

// Sets of nodes, as the states of a deterministic automaton.
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view pattern) {
    PatternReader reader(pattern);
    const Fragment all = reader.read();
    nodes_ = std::move(reader.nodes);
    first_ = all.first;
    last_ = all.last;
    classify();
  }

  CharacterAutomaton run() {
    std::vector<int32_t> start = closure({first_}, true, false);
    // A match may begin later: the first node again, but not at the beginning of the string.
    merge(start, closure({first_}, false, false));
    number_of(start, true);
    for (size_t i = 0; i < sets_.size(); ++i) expand(i);
    return std::move(result_);
  }

 private:
  using Set = std::vector<int32_t>;

  // Classes of characters that no node tells apart.
  void classify() {
    std::set<char32_t> cuts = {0};
    for (const Node& node : nodes_) {
      for (const CodePointRange& range : node.set.ranges()) cuts.insert({range.low, range.high + 1});
    }
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const auto after = std::next(cut);
      CodePointSet part({{*cut, after == cuts.end() ? 0x10FFFF : *after - 1}});
      if (!part.empty()) classes_.push_back(std::move(part));
    }
  }

  Set closure(const Set& from, bool at_begin, bool at_end) {
    std::vector<bool> seen(nodes_.size());
    work_ += nodes_.size() / 64;
    Set pending = from, result;
    for (int32_t node : from) seen[static_cast<size_t>(node)] = true;
    while (!pending.empty()) {
      const int32_t at = pending.back();
      pending.pop_back();
      result.push_back(at);
      if (++work_ > kMostWork) refuse("takes too long to compile");
      const Node& node = nodes_[static_cast<size_t>(at)];
      const bool passes = node.kind == Node::Kind::split || (node.kind == Node::Kind::begin && at_begin) ||
                          (node.kind == Node::Kind::end && at_end);
      if (!passes) continue;
      for (int32_t next : node.next) {
        if (!seen[static_cast<size_t>(next)]) pending.push_back(next);
        seen[static_cast<size_t>(next)] = true;
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  static void merge(Set& into, const Set& other) {
    into.insert(into.end(), other.begin(), other.end());
    std::sort(into.begin(), into.end());
    into.erase(std::unique(into.begin(), into.end()), into.end());
  }
  bool has_matched(const Set& set) const { return std::binary_search(set.begin(), set.end(), last_); }

  // What has matched may go on as it likes: one state for all of it.
  int32_t number_of(Set set, bool is_start) {
    const bool is_free = has_matched(set);
    if (is_free) set = {last_};
    const auto [found, is_new] = numbers_.try_emplace({set, is_start}, static_cast<int32_t>(sets_.size()));
    if (!is_new) return found->second;
    if (sets_.size() >= CharacterAutomaton::kMostStates) refuse("is too large");
    CharacterAutomaton::State state;
    state.is_free = is_free;
    state.accepts = is_free || has_matched(closure(set, is_start, true));
    result_.states_.push_back(std::move(state));
    sets_.push_back(std::move(set));
    return found->second;
  }

  void expand(size_t index) {
    if (result_.states_[index].is_free) return;
    std::map<int32_t, std::vector<CodePointRange>> edges;  // by where they lead
    for (const CodePointSet& characters : classes_) {
      const char32_t c = characters.ranges()[0].low;
      Set next = {first_};
      for (int32_t at : sets_[index]) {
        const Node& node = nodes_[static_cast<size_t>(at)];
        if (++work_ > kMostWork) refuse("takes too long to compile");
        if (node.kind == Node::Kind::characters && node.set.contains(c)) next.push_back(node.next[0]);
      }
      merge(next, {});
      const int32_t to = number_of(closure(next, false, false), false);
      edges[to].insert(edges[to].end(), characters.ranges().begin(), characters.ranges().end());
    }
    for (auto& [to, ranges] : edges) {
      result_.states_[index].edges.emplace_back(CodePointSet(std::move(ranges)), to);
    }
  }

  std::vector<Node> nodes_;
  int32_t first_ = 0, last_ = 0;
  std::vector<CodePointSet> classes_;
  std::map<std::pair<Set, bool>, int32_t> numbers_;
  std::vector<Set> sets_;
  CharacterAutomaton result_;
  size_t work_ = 0;
};

base::Result<CharacterAutomaton> CharacterAutomaton::from_pattern(std::string_view pattern) {
  try {
    return PatternCompiler(pattern).run();
  } catch (const PatternFailure& failure) {
    return base::Error{base::ErrorCode::unsupported, failure.what, "", ""};
  }
}

}  // namespace rafter::text
