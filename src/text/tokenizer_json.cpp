#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "text/quote.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json_reader.h"
#include "text/tokenizer_json_steps.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

constexpr size_t kLongestDecoration = 64;  // bytes put before or behind every character

// Builds a TokenizerSpec from the components.
class SpecReader {
 public:
  SpecReader(TokenizerDocument document, const std::string& file)
      : document_(std::move(document)), root_(document_.rest, "", file) {}

  Result<TokenizerSpec> run() {
    RAFTER_TRY(check_version());
    RAFTER_TRY(read_model());
    RAFTER_TRY(read_added_tokens());
    RAFTER_TRY(read_normalizer(root_["normalizer"], spec_));
    RAFTER_TRY(read_pre_tokenizer(root_["pre_tokenizer"], spec_));
    RAFTER_TRY(read_post_processor(root_["post_processor"], spec_));
    RAFTER_TRY(read_decoder(root_["decoder"], spec_));
    return std::move(spec_);
  }

 private:
  Status check_version() const {
    const JsonPlace version = root_["version"];
    if (version.is_null() || version.value() == "1.0") return {};
    return version.unsupported("only version 1.0 is supported");
  }

  Status read_model();
  Status read_bpe(const JsonPlace& model);
  Status read_unigram(const JsonPlace& model);
  Status read_word_piece(const JsonPlace& model);
  Status read_word_level(const JsonPlace& model);
  Status read_vocabulary(const JsonPlace& model, std::vector<std::string>& pieces);
  Status read_added_tokens();
  Result<AddedToken> read_added_token(const JsonPlace& entry) const;
  Status check_added_ids(const JsonPlace& list) const;

  TokenizerDocument document_;
  JsonPlace root_;
  TokenizerSpec spec_;
  size_t vocabulary_size_ = 0;                  // entries of the model's vocabulary
  std::vector<std::string>* pieces_ = nullptr;  // of the model
};

// Old files leave the type out: merges make it BPE, a list of scores Unigram, the prefix of continuing pieces
// WordPiece.
std::string type_of(const JsonPlace& model, const TokenizerDocument& document) {
  if (!model["type"].is_null()) return model.type();
  if (document.has_merges) return "BPE";
  if (document.has_scores) return "Unigram";
  return model["continuing_subword_prefix"].is_null() ? "WordLevel" : "WordPiece";
}

Status SpecReader::read_model() {
  const JsonPlace model = root_["model"];
  if (!model.value().is_object()) return model.invalid("not an object");
  const std::string type = type_of(model, document_);
  if (type == "BPE") return read_bpe(model);
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordPiece") return read_word_piece(model);
  if (type == "WordLevel") return read_word_level(model);
  return model.unsupported_type();
}

Status SpecReader::read_bpe(const JsonPlace& model) {
  const JsonPlace dropout = model["dropout"];
  if (!dropout.is_null() && dropout.value() != 0)
    return dropout.unsupported("random merges are not supported");
  if (!document_.has_merges) return model["merges"].invalid("not an array");
  BpeSpec& bpe = spec_.model.emplace<BpeSpec>();
  if (!model["unk_token"].is_null()) {
    RAFTER_ASSIGN(bpe.unknown_piece, model.text("unk_token", ""));
  }
  RAFTER_ASSIGN(bpe.fuse_unknown, model.flag("fuse_unk", false));
  RAFTER_ASSIGN(bpe.byte_fallback, model.flag("byte_fallback", false));
  RAFTER_ASSIGN(bpe.ignore_merges, model.flag("ignore_merges", false));
  RAFTER_ASSIGN(bpe.continuing_prefix, model.text("continuing_subword_prefix", ""));
  RAFTER_ASSIGN(bpe.word_suffix, model.text("end_of_word_suffix", ""));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    RAFTER_ASSIGN(const std::string decoration, model.text(name, ""));
    if (decoration.size() > kLongestDecoration) return model[name].unsupported("longer than any");
  }
  bpe.merges = std::move(document_.merges);
  return read_vocabulary(model, bpe.pieces);
}

Status SpecReader::read_unigram(const JsonPlace& model) {
  if (!document_.has_scores) return model["vocab"].invalid("not an array of pieces with scores");
  if (document_.scores.size() > static_cast<size_t>(kMaxTokens))
    return model["vocab"].invalid("too many pieces");
  UnigramSpec& unigram = spec_.model.emplace<UnigramSpec>();
  for (auto& [piece, score] : document_.scores) {
    unigram.pieces.push_back(std::move(piece));
    unigram.scores.push_back(score);
  }
  if (const JsonPlace unknown = model["unk_id"]; !unknown.is_null()) {
    RAFTER_ASSIGN(unigram.unknown_id, read_token_id(unknown));
  }
  RAFTER_ASSIGN(unigram.byte_fallback, model.flag("byte_fallback", false));
  vocabulary_size_ = unigram.pieces.size();
  pieces_ = &unigram.pieces;
  return {};
}

Status SpecReader::read_word_piece(const JsonPlace& model) {
  WordPieceSpec& words = spec_.model.emplace<WordPieceSpec>();
  RAFTER_ASSIGN(words.unknown_piece, model.text("unk_token", "[UNK]"));
  RAFTER_ASSIGN(words.continuing_prefix, model.text("continuing_subword_prefix", "##"));
  if (words.continuing_prefix.size() > kLongestDecoration) {
    return model["continuing_subword_prefix"].unsupported("longer than any");
  }
  RAFTER_ASSIGN(const int64_t longest, model.count("max_input_chars_per_word", 100, INT32_MAX));
  words.longest_word = static_cast<size_t>(longest);
  return read_vocabulary(model, words.pieces);
}

Status SpecReader::read_word_level(const JsonPlace& model) {
  WordLevelSpec& words = spec_.model.emplace<WordLevelSpec>();
  RAFTER_ASSIGN(words.unknown_piece, model.text("unk_token", "<unk>"));
  return read_vocabulary(model, words.pieces);
}

Status SpecReader::read_vocabulary(const JsonPlace& model, std::vector<std::string>& pieces) {
  const JsonPlace place = model["vocab"];
  if (!document_.has_vocab) return place.invalid("not an object");
  int64_t largest = -1;
  for (const auto& [piece, id] : document_.vocab) {
    if (id < 0 || id >= kMaxTokens) {
      return place.invalid(fmt::format("id {} of {} is outside 0 to {}", id, quote(piece), kMaxTokens - 1));
    }
    largest = std::max(largest, id);
  }
  pieces.resize(static_cast<size_t>(largest + 1));
  for (auto& [piece, id] : document_.vocab) {
    std::string& slot = pieces[static_cast<size_t>(id)];
    if (piece.empty()) return place.invalid(fmt::format("id {} is an empty piece", id));
    if (!slot.empty()) {
      return place.invalid(fmt::format("{} and {} have the same id {}", quote(slot), quote(piece), id));
    }
    slot = std::move(piece);
  }
  vocabulary_size_ = document_.vocab.size();
  pieces_ = &pieces;
  return {};
}

Result<AddedToken> SpecReader::read_added_token(const JsonPlace& entry) const {
  if (!entry["content"].value().is_string()) return entry.invalid("a token without content");
  AddedToken token;
  RAFTER_ASSIGN(token.id, read_token_id(entry["id"]));
  RAFTER_ASSIGN(token.content, entry.text("content", ""));
  RAFTER_ASSIGN(token.special, entry.flag("special", false));
  RAFTER_ASSIGN(token.normalized, entry.flag("normalized", !token.special));
  RAFTER_ASSIGN(token.lstrip, entry.flag("lstrip", false));
  RAFTER_ASSIGN(token.rstrip, entry.flag("rstrip", false));
  RAFTER_ASSIGN(token.single_word, entry.flag("single_word", false));
  return token;
}

Status SpecReader::read_added_tokens() {
  const JsonPlace list = root_["added_tokens"];
  if (list.is_null()) return {};
  if (!list.value().is_array()) return list.invalid("not an array");
  if (list.value().size() > static_cast<size_t>(kMaxTokens)) return list.invalid("too many tokens");
  for (size_t i = 0; i < list.value().size(); ++i) {
    RAFTER_ASSIGN(AddedToken token, read_added_token(list.element(i)));
    spec_.added.push_back(std::move(token));
  }
  return check_added_ids(list);
}

// The `tokenizers` library does not take the id of an added token from the file: it looks it up in the
// vocabulary, or counts on. A file whose ids differ from that would mean different ids to different programs.
Status SpecReader::check_added_ids(const JsonPlace& list) const {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const AddedToken& token : spec_.added) ids[token.content] = -1;
  for (size_t id = 0; id < pieces_->size(); ++id) {
    if (const auto found = ids.find((*pieces_)[id]); found != ids.end())
      found->second = static_cast<int32_t>(id);
  }
  auto next = static_cast<int32_t>(vocabulary_size_);
  for (size_t i = 0; i < spec_.added.size(); ++i) {
    const AddedToken& token = spec_.added[i];
    if (token.content.empty()) continue;
    int32_t& expected = ids[token.content];
    if (expected < 0) expected = next;
    if (token.id != expected) {
      return list.element(i).invalid(fmt::format("{} has id {}, but by its place in the file it is {}",
                                                 quote(token.content), token.id, expected));
    }
    next = std::max(next, expected + 1);
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view text, const std::string& where) {
  RAFTER_ASSIGN(TokenizerDocument document, read_tokenizer_document(text, where));
  return SpecReader(std::move(document), where).run();
}

Result<Tokenizer> Tokenizer::from_json(std::string_view text, const std::string& where) {
  RAFTER_ASSIGN(const TokenizerSpec spec, parse_tokenizer_json(text, where));
  return from_spec(spec, where);
}

}  // namespace rafter::text
