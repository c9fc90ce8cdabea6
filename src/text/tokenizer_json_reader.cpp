#include "text/tokenizer_json_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/quote.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using json = nlohmann::json;

constexpr size_t kDeepest = 64;
constexpr size_t kMostValues =
    4u << 20;  // outside the vocabulary and the merges; real files have some thousands

// A score as the `tokenizers` library reads it: its parser rounds twice, first the digits to a double, then
// its product with a power of ten. Sums of scores tie or not by the last bit, so it matters. `text` is a JSON
// number.
double score_of(std::string_view text) {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool in_fraction = false, is_full = false;
  size_t at = text.starts_with('-') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      in_fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    is_full = is_full || digits > (UINT64_MAX - digit) / 10;
    if (!is_full) {
      digits = digits * 10 + digit;
      if (in_fraction) --exponent;
    } else if (!in_fraction) {
      ++exponent;
    }
  }
  if (at < text.size()) {
    const bool is_negative = text[at + 1] == '-';
    int64_t written = 0;
    for (size_t i = at + 1; i < text.size() && written < 10000; ++i) {
      if (text[i] >= '0' && text[i] <= '9') written = written * 10 + (text[i] - '0');
    }
    exponent += is_negative ? -written : written;
  }
  double value = static_cast<double>(digits);
  constexpr int64_t kLargestPower = 308;
  while (exponent < 0 && value != 0) {
    const int64_t step = std::min(-exponent, kLargestPower);
    value /= std::pow(10.0, static_cast<double>(step));
    exponent += step;
  }
  if (exponent > 0) value *= std::pow(10.0, static_cast<double>(exponent));
  return text.starts_with('-') ? -value : value;
}

// Receives the parser's events. A handler that returns false stops the parser; `error_` then says why.
class DocumentHandler {
 public:
  explicit DocumentHandler(TokenizerDocument& document) : document_(document) {}

  const std::string& error() const { return error_; }

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(json::number_integer_t value) {
    return vocab_id(value) || score(static_cast<double>(value)) || scalar(value);
  }
  bool number_unsigned(json::number_unsigned_t value) {
    return vocab_id(value > INT64_MAX ? -1 : static_cast<int64_t>(value)) ||
           score(static_cast<double>(value)) || scalar(value);
  }
  bool number_float(json::number_float_t value, const std::string& text) {
    return score(score_of(text)) || scalar(value);
  }
  bool binary(json::binary_t&) { return fail("binary data"); }

  bool string(std::string& value) {
    if (mode_ == Mode::merges) return add_merge(value);
    if (mode_ == Mode::merge_pair) {
      pair_.push_back(std::move(value));
      return pair_.size() <= 2 || fail("a merge of more than two pieces");
    }
    if (mode_ == Mode::scored_piece && !has_piece_) {
      document_.scores.emplace_back(std::move(value), 0);
      has_piece_ = true;
      return document_.scores.size() <= kMostValues || fail("too many pieces");
    }
    return scalar(std::move(value));
  }

  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }

  bool start_object(size_t) {
    if (mode_ != Mode::document) return fail(unexpected());
    if (at_model_key("vocab")) {
      mode_ = Mode::vocab;
      document_.has_vocab = true;
      return (document_.vocab.empty() && !document_.has_scores) || fail("a second vocabulary");
    }
    return open(json::object());
  }

  bool end_object() {
    if (mode_ == Mode::vocab) {
      mode_ = Mode::document;
      return true;
    }
    open_.pop_back();
    return true;
  }

  bool start_array(size_t) {
    if (mode_ == Mode::merges) {
      mode_ = Mode::merge_pair;
      pair_.clear();
      return true;
    }
    if (mode_ == Mode::scores) {
      mode_ = Mode::scored_piece;
      has_piece_ = has_score_ = false;
      return true;
    }
    if (mode_ != Mode::document) return fail(unexpected());
    if (at_model_key("vocab")) {
      mode_ = Mode::scores;
      const bool is_first = !document_.has_vocab && !document_.has_scores;
      document_.has_scores = true;
      return is_first || fail("a second vocabulary");
    }
    if (at_model_key("merges")) {
      mode_ = Mode::merges;
      document_.has_merges = true;
      return document_.merges.empty() || fail("a second list of merges");
    }
    return open(json::array());
  }

  bool end_array() {
    if (mode_ == Mode::merges) {
      mode_ = Mode::document;
      return true;
    }
    if (mode_ == Mode::scores) {
      mode_ = Mode::document;
      return true;
    }
    if (mode_ == Mode::scored_piece) {
      mode_ = Mode::scores;
      return has_score_ || fail(unexpected());
    }
    if (mode_ == Mode::merge_pair) {
      mode_ = Mode::merges;
      if (pair_.size() != 2) return fail("a merge that is not of two pieces");
      document_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      return true;
    }
    open_.pop_back();
    return true;
  }

  // The parser's own message quotes what it read, of any length.
  bool parse_error(size_t position, const std::string&, const json::exception& exception) {
    const std::string_view message = exception.what();
    return fail(fmt::format("not valid JSON at byte {}: {}", position,
                            message.substr(0, message.find("; last read"))));
  }

 private:
  enum class Mode { document, vocab, scores, scored_piece, merges, merge_pair };

  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  std::string unexpected() const {
    if (mode_ == Mode::vocab) return fmt::format("vocabulary entry {} is not an id", quote(key_));
    if (mode_ == Mode::scores || mode_ == Mode::scored_piece) {
      return fmt::format("vocabulary entry {} is not a piece with a score",
                         document_.scores.size() - (has_piece_ && mode_ == Mode::scored_piece ? 1 : 0));
    }
    return "a merge that is not text";
  }

  bool at_model_key(std::string_view name) const {
    return open_.size() == 2 && model_ == open_[1] && key_ == name;
  }

  // False if this is not an entry of the vocabulary.
  bool vocab_id(int64_t value) {
    if (mode_ != Mode::vocab) return false;
    document_.vocab.emplace_back(std::move(key_), value);
    return true;
  }

  // False if this is not the score of a piece.
  bool score(double value) {
    if (mode_ != Mode::scored_piece || !has_piece_ || has_score_) return false;
    document_.scores.back().second = value;
    return has_score_ = true;
  }

  bool scalar(json value) {
    if (mode_ != Mode::document) return fail(unexpected());
    if (open_.empty()) return fail("not a JSON object");
    return add(std::move(value)) != nullptr;
  }

  bool open(json value) {
    if (open_.size() >= kDeepest) return fail(fmt::format("JSON nested over {} deep", kDeepest));
    if (open_.empty()) {
      if (!value.is_object()) return fail("not a JSON object");
      document_.rest = std::move(value);
      open_.push_back(&document_.rest);
      return true;
    }
    json* added = add(std::move(value));
    if (added == nullptr) return false;
    if (open_.size() == 1 && key_ == "model") model_ = added;
    open_.push_back(added);
    return true;
  }

  // The last of equal keys holds, as everywhere. Null: too many values.
  json* add(json value) {
    if (++values_ > kMostValues) {
      fail(fmt::format("more than {} JSON values", kMostValues));
      return nullptr;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& place = parent[key_];
    place = std::move(value);
    return &place;
  }

  bool add_merge(const std::string& merge) {
    if (merge.starts_with("#version")) return true;
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      return fail(fmt::format("merge {} is not two pieces with a space between", document_.merges.size()));
    }
    document_.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    return true;
  }

  TokenizerDocument& document_;
  std::vector<json*> open_;  // the containers around the place being read
  const json* model_ = nullptr;
  std::string key_;
  size_t values_ = 0;
  Mode mode_ = Mode::document;
  std::vector<std::string> pair_;
  bool has_piece_ = false, has_score_ = false;  // of the scored piece being read
  std::string error_;
};

}  // namespace

Result<TokenizerDocument> read_tokenizer_document(std::string_view text, const std::string& where) {
  TokenizerDocument document;
  DocumentHandler handler(document);
  if (!json::sax_parse(text.begin(), text.end(), &handler)) {
    return Error{ErrorCode::invalid_data, handler.error(), where, ""};
  }
  return document;
}

}  // namespace rafter::text
