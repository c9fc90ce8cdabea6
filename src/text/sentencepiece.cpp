#include "text/sentencepiece.h"

#include <bit>

#include <fmt/format.h>

#include "text/tokenizer.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

// A cursor over the fields of a protocol-buffer message.
class Message {
 public:
  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // of a varint or a fixed number
    std::string_view bytes;  // of a string or a message
  };

  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  // False: malformed.
  bool next(Field& field) {
    uint64_t tag = 0;
    if (!varint(tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
    field = {static_cast<uint32_t>(tag >> 3), 0, {}};
    switch (tag & 7) {
      case 0:
        return varint(field.value);
      case 1:
        return fixed(8, field.value);
      case 2: {
        uint64_t size = 0;
        if (!varint(size) || size > rest_.size()) return false;
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        return fixed(4, field.value);
      default:
        return false;
    }
  }

 private:
  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(size_t size, uint64_t& value) {
    if (rest_.size() < size) return false;
    value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
};

template <typename Read>
bool read_fields(std::string_view bytes, Read read) {
  Message message(bytes);
  Message::Field field;
  while (!message.at_end()) {
    if (!message.next(field) || !read(field)) return false;
  }
  return true;
}

// SentencePiece { piece = 1; score = 2; type = 3 }
bool read_piece(std::string_view bytes, SentencePieceModel& model) {
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  const bool good = read_fields(bytes, [&](const Message::Field& field) {
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) type = field.value;
    return true;
  });
  if (!good || type < 1 || type > 6 || model.pieces.size() >= static_cast<size_t>(kMaxTokens)) return false;
  model.pieces.push_back(std::move(piece));
  model.scores.push_back(score);
  model.types.push_back(static_cast<SentencePieceType>(type));
  return true;
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  model.remove_extra_spaces = true;  // the defaults of the format
  uint64_t algorithm = 1;
  // TrainerSpec { model_type = 3; bos_id = 41; eos_id = 42 }
  const auto read_trainer = [&](const Message::Field& field) {
    if (field.number == 3) algorithm = field.value;
    if (field.number == 41) model.bos = static_cast<int32_t>(field.value);
    if (field.number == 42) model.eos = static_cast<int32_t>(field.value);
    return true;
  };
  // NormalizerSpec { precompiled_charsmap = 2; add_dummy_prefix = 3; remove_extra_whitespaces = 4;
  //                  escape_whitespaces = 5 }
  const auto read_rules = [&](const Message::Field& field) {
    if (field.number == 2) model.charsmap = field.bytes;
    if (field.number == 3) model.add_space_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_spaces = field.value != 0;
    if (field.number == 5) model.escape_spaces = field.value != 0;
    return true;
  };
  // ModelProto { pieces = 1; trainer_spec = 2; normalizer_spec = 3 }
  const bool good = read_fields(bytes, [&](const Message::Field& field) {
    if (field.number == 1) return read_piece(field.bytes, model);
    if (field.number == 2) return read_fields(field.bytes, read_trainer);
    if (field.number == 3) return read_fields(field.bytes, read_rules);
    return true;
  });
  if (!good || model.pieces.empty()) {
    return Error{ErrorCode::invalid_data, "not a SentencePiece model", where, ""};
  }
  if (algorithm != 1 && algorithm != 2) {
    return Error{ErrorCode::unsupported, "a SentencePiece model that is neither BPE nor Unigram", where, ""};
  }
  model.algorithm =
      algorithm == 2 ? SentencePieceModel::Algorithm::bpe : SentencePieceModel::Algorithm::unigram;
  return model;
}

TokenizerSpec spec_of_sentencepiece(const SentencePieceModel& model, bool add_bos, bool add_eos) {
  TokenizerSpec spec;
  if (!model.charsmap.empty()) spec.normalizer.emplace_back(PrecompiledStep{model.charsmap, true});
  if (model.remove_extra_spaces) {
    spec.normalizer.emplace_back(ReplaceStep{"\\A +| +\\z", true, ""});
    spec.normalizer.emplace_back(ReplaceStep{" {2,}", true, " "});
  }
  if (model.add_space_prefix) spec.normalizer.emplace_back(PrependStep{" "});
  if (model.escape_spaces) spec.normalizer.emplace_back(ReplaceStep{" ", false, "\u2581"});

  std::vector<std::string> pieces = model.pieces;
  std::vector<bool> is_text(pieces.size());
  std::optional<int32_t> unknown;
  bool byte_fallback = false;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const SentencePieceType type = model.types[id];
    is_text[id] = type == SentencePieceType::normal || type == SentencePieceType::user_defined;
    if (type == SentencePieceType::unused) pieces[id].clear();
    if (type == SentencePieceType::byte) byte_fallback = true;
    if (type == SentencePieceType::unknown) unknown = static_cast<int32_t>(id);
    const bool is_special = type == SentencePieceType::control || type == SentencePieceType::unknown;
    if ((!is_special && type != SentencePieceType::user_defined) || pieces[id].empty()) continue;
    AddedToken added;
    added.id = static_cast<int32_t>(id);
    added.content = pieces[id];
    added.special = is_special;
    spec.added.push_back(std::move(added));
  }
  if (model.algorithm == SentencePieceModel::Algorithm::bpe) {
    BpeSpec bpe;
    bpe.scores = model.scores;
    bpe.mergeable = is_text;
    bpe.byte_fallback = byte_fallback;
    bpe.fuse_unknown = true;
    if (unknown) bpe.unknown_piece = pieces[static_cast<size_t>(*unknown)];
    bpe.pieces = std::move(pieces);
    spec.model = std::move(bpe);
  } else {
    UnigramSpec unigram;
    unigram.unknown_id = unknown;
    unigram.byte_fallback = byte_fallback;
    unigram.scores.assign(model.scores.begin(), model.scores.end());
    // Only text is cut into pieces; the score of an unknown one counts from the lowest of those.
    unigram.is_text = is_text;
    unigram.pieces = std::move(pieces);
    spec.model = std::move(unigram);
  }
  spec.decoder.emplace_back(ReplaceDecoder{"\u2581", false, " "});
  spec.decoder.emplace_back(ByteFallbackDecoder{});
  spec.decoder.emplace_back(FuseDecoder{});
  if (model.add_space_prefix) spec.decoder.emplace_back(StripDecoder{' ', 1, 0});
  const auto exists = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < model.pieces.size(); };
  if (add_bos && exists(model.bos)) spec.prefix.push_back(model.bos);
  if (add_eos && exists(model.eos)) spec.suffix.push_back(model.eos);
  return spec;
}

Result<Tokenizer> Tokenizer::from_sentencepiece(std::string_view bytes, const std::string& where) {
  RAFTER_ASSIGN(const SentencePieceModel model, parse_sentencepiece(bytes, where));
  return from_spec(spec_of_sentencepiece(model, /*add_bos=*/true, /*add_eos=*/false), where);
}

}  // namespace rafter::text
