#include "text/tokenizer.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/added_token_matcher.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/quote.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

constexpr size_t kLongestText = 1u << 30;

struct AddedEntry {
  std::string content;
  std::string bytes;  // what decoding gives
};

class BpeSink : public PieceSink {
 public:
  BpeSink(const BpeModel& model, std::vector<int32_t>& ids) : model_(model), ids_(ids) {}
  void piece(std::string_view bytes) override { model_.encode_word(bytes, workspace_, ids_); }

 private:
  const BpeModel& model_;
  std::vector<int32_t>& ids_;
  BpeModel::Workspace workspace_;
};

}  // namespace

struct Tokenizer::State {
  BpeModel model;
  std::vector<NormalizerStep> normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokenMatcher raw_matcher;         // of tokens looked for in the raw text
  AddedTokenMatcher normalized_matcher;  // of tokens looked for in normalized text
  std::map<int32_t, AddedEntry> added;
  std::map<std::string, int32_t, std::less<>> added_ids;
  std::vector<bool> is_special;  // [id]
  int32_t vocab_size = 0;
  std::vector<int32_t> prefix, suffix;

  Status add_tokens(const std::vector<AddedToken>& tokens, const std::string& where);
  Status add_token(const AddedToken& token, const std::string& where);
  Status check_around(const std::vector<int32_t>& ids, const char* name, const std::string& where) const;
  Status encode_raw(std::string_view text, bool match_special, BpeSink& sink,
                    std::vector<int32_t>& ids) const;
};

Status Tokenizer::State::add_tokens(const std::vector<AddedToken>& tokens, const std::string& where) {
  // Of tokens with the same content the last one's attributes hold.
  std::map<std::string_view, size_t> last;
  for (size_t i = 0; i < tokens.size(); ++i) last[tokens[i].content] = i;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].content.empty() && last[tokens[i].content] == i) RAFTER_TRY(add_token(tokens[i], where));
  }
  return {};
}

Status Tokenizer::State::add_token(const AddedToken& token, const std::string& where) {
  if (token.id < 0 || token.id >= kMaxTokens) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("added token {} has id {}, outside 0 to {}", quote(token.content), token.id,
                             kMaxTokens - 1),
                 where, ""};
  }
  if (!base::is_valid_utf8(token.content)) {
    return Error{ErrorCode::invalid_data, fmt::format("added token {} is not valid UTF-8", token.id), where,
                 ""};
  }
  if (const int32_t other = model.find_piece(token.content); other >= 0 && other != token.id) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("added token {} has id {}, but the vocabulary gives it id {}",
                             quote(token.content), token.id, other),
                 where, ""};
  }
  const std::string bytes = alphabet_to_bytes(token.content).value_or(token.content);
  const bool in_vocabulary = token.id < model.size() && !model.bytes(token.id).empty();
  const auto other = added.find(token.id);
  if ((in_vocabulary && model.bytes(token.id) != bytes) || other != added.end()) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("added token {} has id {}, which is {} already", quote(token.content), token.id,
                             quote(other != added.end() ? other->second.content : model.piece(token.id))),
                 where, ""};
  }
  std::string storage;
  const std::string_view wanted =
      token.normalized ? normalize(normalizer, token.content, storage) : token.content;
  RAFTER_TRY((token.normalized ? normalized_matcher : raw_matcher).add(wanted, token, where));
  added[token.id] = {token.content, bytes};
  added_ids[token.content] = token.id;
  vocab_size = std::max(vocab_size, token.id + 1);
  is_special.resize(static_cast<size_t>(vocab_size));
  is_special[static_cast<size_t>(token.id)] = token.special;
  return {};
}

Status Tokenizer::State::check_around(const std::vector<int32_t>& ids, const char* name,
                                      const std::string& where) const {
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return Error{ErrorCode::invalid_data, fmt::format("the {} token {} is not in the vocabulary", name, id),
                   where, ""};
    }
  }
  return {};
}

Result<Tokenizer> Tokenizer::from_bpe(const BpeSpec& spec, const std::string& where) {
  auto state = std::make_shared<State>();
  RAFTER_ASSIGN(state->model, BpeModel::build(spec, where));
  RAFTER_ASSIGN(state->pre_tokenizer, PreTokenizer::compile(spec.pre_tokenizer, where));
  state->normalizer = spec.normalizer;
  state->vocab_size = state->model.size();
  state->is_special.resize(static_cast<size_t>(state->vocab_size));
  RAFTER_TRY(state->add_tokens(spec.added, where));
  RAFTER_TRY(state->check_around(spec.prefix, "beginning-of-text", where));
  RAFTER_TRY(state->check_around(spec.suffix, "end-of-text", where));
  state->prefix = spec.prefix;
  state->suffix = spec.suffix;
  return Tokenizer(std::move(state));
}

// The order is that of the `tokenizers` library: raw added tokens, then for each stretch between them on its
// own the normalizer, normalized added tokens, pre-tokens, and the model.
Status Tokenizer::State::encode_raw(std::string_view text, bool match_special, BpeSink& sink,
                                    std::vector<int32_t>& ids) const {
  std::vector<Segment> raw_segments, segments;
  std::string storage;
  raw_matcher.split(text, match_special, raw_segments);
  for (const Segment& raw : raw_segments) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    normalized_matcher.split(normalize(normalizer, raw.text, storage), match_special, segments);
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
      } else {
        RAFTER_TRY(pre_tokenizer.split(segment.text, sink));
      }
    }
  }
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special,
                                               SpecialTokens special) const {
  if (text.size() > kLongestText) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a text of {} bytes is too long to tokenize at once", text.size()), "",
                 "cut it"};
  }
  std::string repaired;
  if (!base::is_valid_utf8(text)) {
    repaired = base::replace_malformed_utf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  if (add_special) ids = state_->prefix;
  BpeSink sink(state_->model, ids);
  RAFTER_TRY(state_->encode_raw(text, special == SpecialTokens::match, sink, ids));
  if (add_special) ids.insert(ids.end(), state_->suffix.begin(), state_->suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  }
  return base::replace_malformed_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= state_->vocab_size) return {};
  if (id < state_->model.size() && !state_->model.bytes(id).empty()) return state_->model.bytes(id);
  const auto added = state_->added.find(id);
  return added == state_->added.end() ? std::string_view() : added->second.bytes;
}

std::string Tokenizer::piece(int32_t id) const {
  const auto added = state_->added.find(id);
  if (added != state_->added.end()) return added->second.content;
  return id >= 0 && id < state_->model.size() ? state_->model.piece(id) : std::string();
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < state_->vocab_size && state_->is_special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  if (const auto added = state_->added_ids.find(content); added != state_->added_ids.end())
    return added->second;
  const int32_t id = state_->model.find_piece(content);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

int32_t Tokenizer::vocab_size() const { return state_->vocab_size; }
const std::vector<int32_t>& Tokenizer::prefix() const { return state_->prefix; }
const std::vector<int32_t>& Tokenizer::suffix() const { return state_->suffix; }

}  // namespace rafter::text
