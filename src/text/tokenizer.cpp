#include "text/tokenizer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/added_token_matcher.h"
#include "text/bpe.h"
#include "text/character_bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/quote.h"
#include "text/unigram.h"
#include "text/word_piece.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

constexpr size_t kLongestText = 1u << 30;

class IdSink : public PieceSink {
 public:
  IdSink(const WordModel& model, WordWorkspace& workspace, std::vector<int32_t>& ids)
      : model_(model), workspace_(workspace), ids_(ids) {}

  bool piece(std::string_view text) override {
    outcome_ = model_.encode_word(text, workspace_, ids_);
    if (outcome_ != WordOutcome::done) culprit_ = quote(text);
    return outcome_ == WordOutcome::done;
  }

  Status status() const {
    if (outcome_ == WordOutcome::done) return {};
    const char* reason = outcome_ == WordOutcome::too_long
                             ? "{} is too long for one word"
                             : "the vocabulary cannot write {} and has no token for what is unknown";
    return Error{ErrorCode::invalid_argument, fmt::format(fmt::runtime(reason), culprit_), "", ""};
  }

 private:
  const WordModel& model_;
  WordWorkspace& workspace_;
  std::vector<int32_t>& ids_;
  WordOutcome outcome_ = WordOutcome::done;
  std::string culprit_;
};

// Byte-level BPE has a model of its own: its pre-tokenizer hands on bytes, not their names.
bool reads_bytes(const TokenizerSpec& spec) {
  const auto* bpe = std::get_if<BpeSpec>(&spec.model);
  if (bpe == nullptr || !bpe->scores.empty() || bpe->byte_fallback || !bpe->continuing_prefix.empty() ||
      !bpe->word_suffix.empty()) {
    return false;
  }
  const auto is_byte_level = [](const PreTokenizerStep& step) {
    return std::holds_alternative<ByteLevelStep>(step);
  };
  const std::vector<PreTokenizerStep>& steps = spec.pre_tokenizer;
  return std::count_if(steps.begin(), steps.end(), is_byte_level) == 1 && is_byte_level(steps.back());
}

template <typename Model, typename Spec>
Result<std::unique_ptr<WordModel>> build_as(const Spec& spec, const std::string& where) {
  RAFTER_ASSIGN(Model model, Model::build(spec, where));
  return std::unique_ptr<WordModel>(std::make_unique<Model>(std::move(model)));
}

Result<std::unique_ptr<WordModel>> build_model(const TokenizerSpec& spec, const std::string& where) {
  if (const auto* bpe = std::get_if<BpeSpec>(&spec.model)) {
    return reads_bytes(spec) ? build_as<BpeModel>(*bpe, where) : build_as<CharacterBpeModel>(*bpe, where);
  }
  if (const auto* unigram = std::get_if<UnigramSpec>(&spec.model))
    return build_as<UnigramModel>(*unigram, where);
  if (const auto* pieces = std::get_if<WordPieceSpec>(&spec.model))
    return build_as<WordPieceModel>(*pieces, where);
  return build_as<WordLevelModel>(std::get<WordLevelSpec>(spec.model), where);
}

// Workspaces that no call uses now. A word cache lives on in them from one text to the next.
class WorkspacePool {
 public:
  class Loan {
   public:
    explicit Loan(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Loan() { pool_.put(std::move(workspace_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    WordWorkspace& operator*() { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<WordWorkspace> workspace_;
  };

 private:
  static constexpr size_t kMostIdle = 16;

  std::unique_ptr<WordWorkspace> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<WordWorkspace>();
    std::unique_ptr<WordWorkspace> workspace = std::move(idle_.back());
    idle_.pop_back();
    return workspace;
  }
  void put(std::unique_ptr<WordWorkspace> workspace) {
    workspace->release_large();
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(workspace));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<WordWorkspace>> idle_;
};

}  // namespace

struct Tokenizer::State {
  std::unique_ptr<WordModel> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  bool is_byte_level = false;            // decoding is putting bytes together
  AddedTokenMatcher raw_matcher;         // of tokens looked for in the raw text
  AddedTokenMatcher normalized_matcher;  // of tokens looked for in normalized text
  std::map<int32_t, std::string> added;
  std::map<std::string, int32_t, std::less<>> added_ids;
  std::map<int32_t, std::string>
      normalized_contents;  // of added tokens, where they differ: decoding gives those
  std::set<std::string> special_contents;
  std::vector<bool> is_special;     // [id]
  TokenBytes bytes;                 // [id], of decoding it
  std::vector<bool> is_byte_token;  // [id]
  int32_t vocab_size = 0;
  std::vector<int32_t> prefix, suffix;
  mutable WorkspacePool workspaces;

  Status add_tokens(const std::vector<AddedToken>& tokens, const std::string& where);
  Status add_token(const AddedToken& token, const std::string& where);
  Status check_around(const std::vector<int32_t>& ids, const char* name, const std::string& where) const;
  std::string piece(int32_t id) const;
  std::string decoded_piece(int32_t id) const;
  void decode_pieces();
  Status encode_raw(std::string_view text, bool match_special, IdSink& sink, std::vector<int32_t>& ids) const;
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
  if (const int32_t other = model->find_piece(token.content); other >= 0 && other != token.id) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("added token {} has id {}, but the vocabulary gives it id {}",
                             quote(token.content), token.id, other),
                 where, ""};
  }
  const std::string present = piece(token.id);
  if (!present.empty() && (present != token.content || added.contains(token.id))) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("added token {} has id {}, which is {} already", quote(token.content), token.id,
                             quote(present)),
                 where, ""};
  }
  NormalizedText normalized;
  if (token.normalized) {
    RAFTER_TRY(normalizer.apply(token.content, normalized));
  } else {
    normalized.text = token.content;
  }
  // What normalizes to nothing is never found.
  if (!normalized.text.empty()) {
    RAFTER_TRY((token.normalized ? normalized_matcher : raw_matcher).add(normalized.text, token, where));
  }
  added[token.id] = token.content;
  if (normalized.text != token.content) normalized_contents[token.id] = normalized.text;
  if (token.special) special_contents.insert(token.content);
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

std::string Tokenizer::State::piece(int32_t id) const {
  const auto found = added.find(id);
  if (found != added.end()) return found->second;
  return id >= 0 && id < model->size() ? model->piece(id) : std::string();
}

std::string Tokenizer::State::decoded_piece(int32_t id) const {
  const auto found = normalized_contents.find(id);
  return found != normalized_contents.end() ? found->second : piece(id);
}

// Whether a token is special is decided by its text: a vocabulary may have it twice.
void Tokenizer::State::decode_pieces() {
  is_byte_token.resize(static_cast<size_t>(vocab_size));
  for (int32_t id = 0; id < vocab_size; ++id) {
    std::string text = decoded_piece(id);
    if (special_contents.contains(text)) is_special[static_cast<size_t>(id)] = true;
    if (text.empty()) {
      bytes.append("");
      continue;
    }
    is_byte_token[static_cast<size_t>(id)] = decoder.is_byte_token(text);
    bytes.append(decoder.bytes_of(std::move(text)));
  }
}

Result<Tokenizer> Tokenizer::from_spec(const TokenizerSpec& spec, const std::string& where) {
  auto state = std::make_shared<State>();
  RAFTER_ASSIGN(state->model, build_model(spec, where));
  const auto pieces = reads_bytes(spec) ? PreTokenizer::Pieces::bytes : PreTokenizer::Pieces::text;
  RAFTER_ASSIGN(state->pre_tokenizer, PreTokenizer::compile(spec.pre_tokenizer, pieces, where));
  RAFTER_ASSIGN(state->normalizer, Normalizer::compile(spec.normalizer, where));
  RAFTER_ASSIGN(state->decoder, Decoder::compile(spec, where));
  state->is_byte_level =
      spec.decoder.size() == 1 && std::holds_alternative<ByteLevelDecoder>(spec.decoder[0]);
  state->vocab_size = state->model->size();
  state->is_special.resize(static_cast<size_t>(state->vocab_size));
  RAFTER_TRY(state->add_tokens(spec.added, where));
  RAFTER_TRY(state->check_around(spec.prefix, "beginning-of-text", where));
  RAFTER_TRY(state->check_around(spec.suffix, "end-of-text", where));
  state->prefix = spec.prefix;
  state->suffix = spec.suffix;
  state->decode_pieces();
  return Tokenizer(std::move(state));
}

// The order is that of the `tokenizers` library: raw added tokens, then for each stretch between them on its
// own the normalizer, normalized added tokens, pre-tokens, and the model.
Status Tokenizer::State::encode_raw(std::string_view text, bool match_special, IdSink& sink,
                                    std::vector<int32_t>& ids) const {
  std::vector<Segment> raw_segments, segments;
  NormalizedText normalized;
  raw_matcher.split(text, match_special, raw_segments);
  for (const Segment& raw : raw_segments) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    RAFTER_TRY(normalizer.apply(raw.text, normalized));
    const size_t first_bytes = raw.text.data() == text.data() ? normalized.first_bytes : 0;
    normalized_matcher.split(normalized.text, match_special, segments);
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
      } else {
        const auto begin = static_cast<size_t>(segment.text.data() - normalized.text.data());
        RAFTER_TRY(pre_tokenizer.split(segment.text, first_bytes - std::min(first_bytes, begin), sink));
        RAFTER_TRY(sink.status());
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
  WorkspacePool::Loan workspace(state_->workspaces);
  IdSink sink(*state_->model, *workspace, ids);
  RAFTER_TRY(state_->encode_raw(text, special == SpecialTokens::match, sink, ids));
  if (add_special) ids.insert(ids.end(), state_->suffix.begin(), state_->suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  std::string bytes;
  for (int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    if (state_->is_byte_level) {
      bytes += token_bytes(id);
    } else if (std::string token = state_->decoded_piece(id); !token.empty()) {
      tokens.push_back(std::move(token));
    }
  }
  return state_->is_byte_level ? base::replace_malformed_utf8(bytes)
                               : state_->decoder.decode(std::move(tokens));
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return id >= 0 && id < state_->vocab_size ? state_->bytes[id] : std::string_view();
}

std::string Tokenizer::piece(int32_t id) const { return state_->piece(id); }

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < state_->vocab_size && state_->is_special[static_cast<size_t>(id)];
}

bool Tokenizer::is_byte_token(int32_t id) const {
  return id >= 0 && id < state_->vocab_size && state_->is_byte_token[static_cast<size_t>(id)];
}

bool Tokenizer::has_byte_tokens() const { return state_->decoder.has_byte_tokens(); }

const Decoder& Tokenizer::decoder() const { return state_->decoder; }

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  if (const auto added = state_->added_ids.find(content); added != state_->added_ids.end())
    return added->second;
  const int32_t id = state_->model->find_piece(content);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

int32_t Tokenizer::vocab_size() const { return state_->vocab_size; }
const std::vector<int32_t>& Tokenizer::prefix() const { return state_->prefix; }
const std::vector<int32_t>& Tokenizer::suffix() const { return state_->suffix; }

}  // namespace rafter::text
