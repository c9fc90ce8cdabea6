#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "text/quote.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json_reader.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;
using json = nlohmann::json;

constexpr size_t kMaxSteps = 64;

// Builds a BpeSpec from the components. A component's place in the file ("pre_tokenizer.pretokenizers[1]") is
// part of its errors.
class SpecReader {
 public:
  SpecReader(TokenizerDocument document, const std::string& file)
      : document_(std::move(document)), file_(file) {}

  Result<BpeSpec> run() {
    RAFTER_TRY(read_version());
    RAFTER_TRY(read_model());
    RAFTER_TRY(read_added_tokens());
    RAFTER_TRY(read_normalizer(member(document_.rest, "normalizer"), "normalizer"));
    RAFTER_TRY(read_pre_tokenizer(member(document_.rest, "pre_tokenizer"), "pre_tokenizer"));
    RAFTER_TRY(read_post_processor(member(document_.rest, "post_processor"), "post_processor"));
    RAFTER_TRY(read_decoder(member(document_.rest, "decoder"), "decoder"));
    return std::move(spec_);
  }

 private:
  static const json& member(const json& object, const char* name) {
    static const json kNull;
    if (!object.is_object()) return kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }

  static std::string text(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

  static bool flag(const json& object, const char* name, bool fallback) {
    const json& value = member(object, name);
    return value.is_boolean() ? value.get<bool>() : fallback;
  }

  Error invalid(const std::string& what, const std::string& key) const {
    return Error{ErrorCode::invalid_data, what, fmt::format("{}: {}", file_, key), ""};
  }
  Error unsupported(const std::string& what, const std::string& key) const {
    return Error{ErrorCode::unsupported, what, fmt::format("{}: {}", file_, key), ""};
  }
  Error unsupported_type(const json& component, const std::string& key) const {
    return unsupported(component.is_null()
                           ? fmt::format("a tokenizer without a {} is not supported", key)
                           : fmt::format("type {} is not supported", quote(text(member(component, "type")))),
                       key);
  }

  Result<int32_t> token_id(const json& value, const std::string& key) const {
    if (!value.is_number_integer() || value < 0 || value >= kMaxTokens) {
      return invalid(fmt::format("a token id must be an integer from 0 to {}", kMaxTokens - 1), key);
    }
    return value.get<int32_t>();
  }

  // Visits the elements of an array that is a member of `component`.
  template <typename Visit>
  Status each(const json& component, const char* name, const std::string& key, Visit visit) const {
    const json& list = member(component, name);
    if (!list.is_array()) return invalid("not an array", fmt::format("{}.{}", key, name));
    if (list.size() > kMaxSteps)
      return unsupported(fmt::format("{} elements are too many", list.size()), key);
    for (size_t i = 0; i < list.size(); ++i)
      RAFTER_TRY(visit(list[i], fmt::format("{}.{}[{}]", key, name, i)));
    return {};
  }

  Status read_version() const {
    const json& version = member(document_.rest, "version");
    if (version.is_null() || version == "1.0") return {};
    return unsupported("only version \"1.0\" is supported", "version");
  }

  Status read_model();
  Status read_vocabulary();
  Status read_added_tokens();
  Status check_added_ids() const;
  Status read_normalizer(const json& component, const std::string& key);
  Status read_pre_tokenizer(const json& component, const std::string& key);
  Status read_split(const json& component, const std::string& key);
  Status read_post_processor(const json& component, const std::string& key);
  Status read_template(const json& component, const std::string& key);
  Status read_decoder(const json& component, const std::string& key) const;

  TokenizerDocument document_;
  const std::string& file_;
  BpeSpec spec_;
};

Status SpecReader::read_model() {
  const json& model = member(document_.rest, "model");
  if (!model.is_object()) return invalid("not an object", "model");
  // Old files leave the type out; merges make it BPE.
  const json& type = member(model, "type");
  if (!(type == "BPE" || (type.is_null() && document_.has_merges))) return unsupported_type(model, "model");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text(member(model, name)).empty())
      return unsupported("not supported", fmt::format("model.{}", name));
  }
  if (flag(model, "byte_fallback", false)) return unsupported("not supported", "model.byte_fallback");
  const json& dropout = member(model, "dropout");
  if (!dropout.is_null() && dropout != 0)
    return unsupported("random merges are not supported", "model.dropout");
  if (!document_.has_vocab) return invalid("not an object", "model.vocab");
  if (!document_.has_merges) return invalid("not an array", "model.merges");
  if (const json& unknown = member(model, "unk_token"); unknown.is_string())
    spec_.unknown_piece = text(unknown);
  spec_.fuse_unknown = flag(model, "fuse_unk", false);
  spec_.ignore_merges = flag(model, "ignore_merges", false);
  spec_.merges = std::move(document_.merges);
  return read_vocabulary();
}

Status SpecReader::read_vocabulary() {
  int64_t largest = -1;
  for (const auto& [piece, id] : document_.vocab) {
    if (id < 0 || id >= kMaxTokens) {
      return invalid(fmt::format("id {} of {} is outside 0 to {}", id, quote(piece), kMaxTokens - 1),
                     "model.vocab");
    }
    largest = std::max(largest, id);
  }
  spec_.pieces.resize(static_cast<size_t>(largest + 1));
  for (auto& [piece, id] : document_.vocab) {
    std::string& place = spec_.pieces[static_cast<size_t>(id)];
    if (piece.empty()) return invalid(fmt::format("id {} is an empty piece", id), "model.vocab");
    if (!place.empty())
      return invalid(fmt::format("{} and {} have the same id {}", quote(place), quote(piece), id),
                     "model.vocab");
    place = std::move(piece);
  }
  return {};
}

Status SpecReader::read_added_tokens() {
  const json& list = member(document_.rest, "added_tokens");
  if (list.is_null()) return {};
  if (!list.is_array()) return invalid("not an array", "added_tokens");
  if (list.size() > static_cast<size_t>(kMaxTokens)) return invalid("too many tokens", "added_tokens");
  for (size_t i = 0; i < list.size(); ++i) {
    const json& entry = list[i];
    const std::string key = fmt::format("added_tokens[{}]", i);
    if (!member(entry, "content").is_string()) return invalid("a token without content", key);
    AddedToken token;
    RAFTER_ASSIGN(token.id, token_id(member(entry, "id"), key));
    token.content = text(member(entry, "content"));
    token.special = flag(entry, "special", false);
    token.normalized = flag(entry, "normalized", !token.special);
    token.lstrip = flag(entry, "lstrip", false);
    token.rstrip = flag(entry, "rstrip", false);
    token.single_word = flag(entry, "single_word", false);
    spec_.added.push_back(std::move(token));
  }
  return check_added_ids();
}

// The `tokenizers` library does not take the id of an added token from the file: it looks it up in the
// vocabulary, or counts on. A file whose ids differ from that would mean different ids to different programs.
Status SpecReader::check_added_ids() const {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const AddedToken& token : spec_.added) ids[token.content] = -1;
  for (size_t id = 0; id < spec_.pieces.size(); ++id) {
    if (const auto found = ids.find(spec_.pieces[id]); found != ids.end())
      found->second = static_cast<int32_t>(id);
  }
  const auto vocabulary = static_cast<int32_t>(document_.vocab.size());
  int32_t next = vocabulary;
  for (size_t i = 0; i < spec_.added.size(); ++i) {
    const AddedToken& token = spec_.added[i];
    if (token.content.empty()) continue;
    int32_t& expected = ids[token.content];
    if (expected < 0) expected = next;
    if (token.id != expected) {
      return invalid(fmt::format("{} has id {}, but by its place in the file it is {}", quote(token.content),
                                 token.id, expected),
                     fmt::format("added_tokens[{}]", i));
    }
    next = std::max(next, expected + 1);
  }
  return {};
}

Status SpecReader::read_normalizer(const json& component, const std::string& key) {
  if (component.is_null()) return {};
  const json& type = member(component, "type");
  if (type == "NFC") {
    spec_.normalizer.push_back(NormalizerStep::nfc);
    return {};
  }
  if (type != "Sequence") return unsupported_type(component, key);
  return each(component, "normalizers", key,
              [&](const json& part, const std::string& part_key) { return read_normalizer(part, part_key); });
}

Status SpecReader::read_pre_tokenizer(const json& component, const std::string& key) {
  const json& type = member(component, "type");
  if (type == "Sequence") {
    return each(component, "pretokenizers", key, [&](const json& part, const std::string& part_key) {
      return read_pre_tokenizer(part, part_key);
    });
  }
  if (type == "Split") return read_split(component, key);
  if (type == "Digits") {
    spec_.pre_tokenizer.push_back(DigitsStep{flag(component, "individual_digits", false)});
  } else if (type == "ByteLevel") {
    spec_.pre_tokenizer.push_back(
        ByteLevelStep{flag(component, "add_prefix_space", true), flag(component, "use_regex", true)});
  } else {
    return unsupported_type(component, key);
  }
  return {};
}

Status SpecReader::read_split(const json& component, const std::string& key) {
  static const std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  SplitStep step;
  const json& pattern = member(component, "pattern");
  step.is_regex = member(pattern, "Regex").is_string();
  if (!step.is_regex && !member(pattern, "String").is_string()) {
    return invalid("neither a Regex nor a String", key + ".pattern");
  }
  step.pattern = text(member(pattern, step.is_regex ? "Regex" : "String"));
  const std::string behavior = text(member(component, "behavior"));
  const auto known = std::find_if(std::begin(kBehaviors), std::end(kBehaviors),
                                  [&](const auto& entry) { return entry.first == behavior; });
  if (known == std::end(kBehaviors))
    return unsupported(fmt::format("{} is not supported", quote(behavior)), key + ".behavior");
  step.behavior = known->second;
  step.inverted = flag(component, "invert", false);
  spec_.pre_tokenizer.push_back(std::move(step));
  return {};
}

Status SpecReader::read_post_processor(const json& component, const std::string& key) {
  if (component.is_null()) return {};
  const json& type = member(component, "type");
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "TemplateProcessing") return read_template(component, key);
  if (type != "Sequence") return unsupported_type(component, key);
  return each(component, "processors", key, [&](const json& part, const std::string& part_key) {
    return read_post_processor(part, part_key);
  });
}

// `single` is a list of special tokens and one sequence; each special token stands for a list of ids.
Status SpecReader::read_template(const json& component, const std::string& key) {
  std::vector<int32_t> prefix, suffix;
  int sequences = 0;
  RAFTER_TRY(each(component, "single", key, [&](const json& part, const std::string& part_key) -> Status {
    if (member(part, "Sequence").is_object()) {
      ++sequences;
      return {};
    }
    const std::string name = text(member(member(part, "SpecialToken"), "id"));
    const json& ids = member(member(member(component, "special_tokens"), name.c_str()), "ids");
    if (!ids.is_array() || ids.size() > kMaxSteps) {
      return invalid(fmt::format("special token {} has no list of ids", quote(name)), part_key);
    }
    for (const json& value : ids) {
      RAFTER_ASSIGN(const int32_t id, token_id(value, part_key));
      (sequences == 0 ? prefix : suffix).push_back(id);
    }
    return {};
  }));
  if (sequences != 1)
    return unsupported(fmt::format("a template with {} sequences", sequences), key + ".single");
  // A later processor works on what an earlier one made.
  spec_.prefix.insert(spec_.prefix.begin(), prefix.begin(), prefix.end());
  spec_.suffix.insert(spec_.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

Status SpecReader::read_decoder(const json& component, const std::string& key) const {
  const json& type = member(component, "type");
  if (type == "ByteLevel") return {};
  const json& parts = member(component, "decoders");
  if (type == "Sequence" && parts.is_array() && parts.size() == 1)
    return read_decoder(parts[0], key + ".decoders[0]");
  return unsupported_type(component, key);
}

}  // namespace

Result<BpeSpec> parse_tokenizer_json(std::string_view text, const std::string& where) {
  RAFTER_ASSIGN(TokenizerDocument document, read_tokenizer_document(text, where));
  return SpecReader(std::move(document), where).run();
}

Result<Tokenizer> Tokenizer::from_json(std::string_view text, const std::string& where) {
  RAFTER_ASSIGN(const BpeSpec spec, parse_tokenizer_json(text, where));
  return from_bpe(spec, where);
}

}  // namespace rafter::text
