#include "text/decoder.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  size_t at = what.empty() ? std::string::npos : text.find(what);
  if (at == std::string::npos) return;
  std::string result;
  size_t end = 0;
  for (; at != std::string::npos; at = text.find(what, end)) {
    result.append(text, end, at - end).append(by);
    end = at + what.size();
  }
  text = result.append(text, end);
}

// "<0xE4>" by Rust's rules of a hexadecimal number, which may have a plus sign.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(token[3] == '+' ? 4 : 3, token[3] == '+' ? 1 : 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    const char lower = static_cast<char>(c | 0x20);
    if (!is_digit && (lower < 'a' || lower > 'f')) return std::nullopt;
    value = value * 16 + (is_digit ? c - '0' : lower - 'a' + 10);
  }
  return static_cast<char>(value);
}

std::string join(const Tokens& tokens, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += separator;
    text += tokens[i];
  }
  return text;
}

std::string byte_level_bytes(const std::string& token) { return alphabet_to_bytes(token).value_or(token); }

// Spaces that English does not want.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : kRules) replace_all(text, what, by);
}

void run_step(const ByteLevelDecoder&, Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += byte_level_bytes(token);
  tokens = {base::replace_malformed_utf8(bytes)};
}

// A run of byte tokens is their text, or if that is malformed one U+FFFD for each of them.
void run_step(const ByteFallbackDecoder&, Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto end_run = [&] {
    if (bytes.empty()) return;
    if (base::is_valid_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
    } else {
      end_run();
      result.push_back(std::move(token));
    }
  }
  end_run();
  tokens = std::move(result);
}

void run_step(const FuseDecoder&, Tokens& tokens) { tokens = {join(tokens, "")}; }

void run_step(const StripDecoder& step, Tokens& tokens) {
  std::string content;
  base::append_utf8(content, step.content);
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (size_t i = 0; i < step.start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
    for (size_t i = 0; i < step.stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
    token = std::string(rest);
  }
}

void run_step(const MetaspaceDecoder& step, Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    replace_all(tokens[i], step.replacement, i == 0 && step.drops_first ? "" : " ");
  }
}

void run_step(const WordPieceDecoder& step, Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) {
      if (tokens[i].starts_with(step.prefix)) {
        tokens[i].erase(0, step.prefix.size());
      } else {
        tokens[i].insert(0, " ");
      }
    }
    if (step.cleanup) clean_up(tokens[i]);
  }
}

void run_step(const CtcDecoder& step, Tokens& tokens) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_all(token, step.pad_token, "");
    if (step.cleanup) {
      clean_up(token);
      replace_all(token, step.word_delimiter, " ");
    }
  }
  std::erase(tokens, "");
}

void run_step(const WordSuffixDecoder& step, Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    replace_all(tokens[i], step.suffix, i + 1 == tokens.size() ? "" : " ");
  }
}

}  // namespace

std::string Decoder::replaced(const Replace& replace, const std::string& text) {
  std::vector<TextSpan> matches;
  if (!replace.pattern.find_all(text, matches).ok()) return text;
  std::string result;
  size_t end = 0;
  for (const TextSpan& match : matches) {
    result.append(text, end, match.begin - end).append(replace.content);
    end = match.end;
  }
  return result.append(text, end);
}

void Decoder::run(const Step& step, std::vector<std::string>& tokens) {
  std::visit(
      [&](const auto& kind) {
        if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, Replace>) {
          for (std::string& token : tokens) token = replaced(kind, token);
        } else {
          run_step(kind, tokens);
        }
      },
      step);
}

Result<Decoder> Decoder::compile(const TokenizerSpec& spec, const std::string& where) {
  Decoder decoder;
  decoder.joins_with_spaces_ = spec.joins_with_spaces;
  for (const DecoderStep& step : spec.decoder) {
    if (const auto* replace = std::get_if<ReplaceDecoder>(&step)) {
      RAFTER_ASSIGN(Pattern pattern, Pattern::compile(replace->pattern, replace->is_regex, where));
      if (replace->content.size() > 1024) {
        return Error{ErrorCode::unsupported, "a replacement of over 1024 bytes", where, ""};
      }
      decoder.steps_.emplace_back(Replace{std::move(pattern), replace->content});
      continue;
    }
    if (std::holds_alternative<ByteFallbackDecoder>(step)) decoder.has_byte_tokens_ = true;
    std::visit(
        [&](const auto& plain) {
          if constexpr (std::is_constructible_v<Step, std::decay_t<decltype(plain)>>) {
            decoder.steps_.emplace_back(plain);
          }
        },
        step);
  }
  decoder.choose_streaming(spec.decoder);
  return decoder;
}

// The shapes that let every token be bytes of its own: ByteLevel alone; Metaspace alone; literal Replaces,
// then ByteFallback, Fuse and the Strip of spaces at the start, each at most once and in this order.
void Decoder::choose_streaming(const std::vector<DecoderStep>& steps) {
  if (joins_with_spaces_) return;
  if (steps.size() == 1 && std::holds_alternative<ByteLevelDecoder>(steps[0])) {
    streaming_ = Streaming::bytes;
    return;
  }
  if (steps.size() == 1 && std::holds_alternative<MetaspaceDecoder>(steps[0])) {
    streaming_ = Streaming::bytes;
    drops_in_first_only_ = true;
    dropped_spaces_ = std::get<MetaspaceDecoder>(steps[0]).drops_first ? SIZE_MAX : 0;
    return;
  }
  int stage = 0;
  size_t dropped = 0;
  for (const DecoderStep& step : steps) {
    int next = 4;
    if (const auto* replace = std::get_if<ReplaceDecoder>(&step); replace != nullptr && !replace->is_regex)
      next = 0;
    if (std::holds_alternative<ByteFallbackDecoder>(step)) next = 1;
    if (std::holds_alternative<FuseDecoder>(step)) next = 2;
    if (const auto* strip = std::get_if<StripDecoder>(&step)) {
      if (strip->content == ' ' && strip->stop == 0 && stage == 2) next = 3;
      dropped = strip->start;
    }
    if (next == 4 || next < stage || (next == stage && next > 0)) return;
    stage = next;
  }
  streaming_ = Streaming::bytes;
  dropped_spaces_ = dropped;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (tokens.empty()) return {};
  for (const Step& step : steps_) run(step, tokens);
  return base::replace_malformed_utf8(join(tokens, joins_with_spaces_ ? " " : ""));
}

bool Decoder::is_byte_token(std::string_view token) const {
  return has_byte_tokens_ && byte_of(token).has_value();
}

std::string Decoder::bytes_of(std::string token) const {
  if (joins_with_spaces_) return " " + token;
  if (steps_.size() == 1 && std::holds_alternative<ByteLevelDecoder>(steps_[0]))
    return byte_level_bytes(token);
  if (streaming_ == Streaming::window) {
    // Behind a token that has no part in it.
    std::vector<std::string> two = {"", std::move(token)};
    for (const Step& step : steps_) run(step, two);
    return join(two, "");
  }
  for (const Step& step : steps_) {
    if (const auto* replace = std::get_if<Replace>(&step)) token = replaced(*replace, token);
    if (const auto* space = std::get_if<MetaspaceDecoder>(&step)) replace_all(token, space->replacement, " ");
    if (std::holds_alternative<ByteFallbackDecoder>(step)) {
      if (const auto byte = byte_of(token)) token = std::string(1, *byte);
    }
  }
  return token;
}

}  // namespace rafter::text
