#include "text/tokenizer_json_steps.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "text/base64.h"
#include "text/quote.h"

namespace rafter::text {
namespace {

using base::Result;
using base::Status;

constexpr size_t kMostSteps = 64;  // in all, however they are nested
constexpr size_t kLongestText = 1024;

struct PatternEntry {
  std::string pattern;
  bool is_regex;
};

// {"String": …} or {"Regex": …}
Result<PatternEntry> read_pattern(const JsonPlace& place) {
  const bool is_regex = place["Regex"].value().is_string();
  const JsonPlace pattern = place[is_regex ? "Regex" : "String"];
  if (!pattern.value().is_string()) return place.invalid("neither a Regex nor a String");
  return PatternEntry{pattern.value().get<std::string>(), is_regex};
}

// A text that may take the place of a character, and is short for that.
Result<std::string> read_short_text(const JsonPlace& component, const char* name, const char* fallback) {
  RAFTER_ASSIGN(std::string text, component.text(name, fallback));
  if (text.size() > kLongestText) {
    return component[name].unsupported(
        fmt::format("a text of {} bytes; at most {} are supported", text.size(), kLongestText));
  }
  return text;
}

Result<char32_t> read_character(const JsonPlace& component, const char* name, const char* fallback) {
  RAFTER_ASSIGN(const std::string text, component.text(name, fallback));
  const base::Utf8Step step = base::decode_utf8(text);
  if (!step.valid || step.length != text.size()) return component[name].invalid("not one character");
  return step.code_point;
}

Result<SplitBehavior> read_behavior(const JsonPlace& component, const char* fallback) {
  static const std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  RAFTER_ASSIGN(const std::string name, component.text("behavior", fallback));
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  return component["behavior"].unsupported(fmt::format("{} is not supported", quote(name)));
}

template <typename Step>
Status add_step(std::vector<Step>& steps, Step step, const JsonPlace& component) {
  if (steps.size() >= kMostSteps) return component.unsupported(fmt::format("more than {} steps", kMostSteps));
  steps.push_back(std::move(step));
  return {};
}

Result<NormalizerStep> read_normalizer_step(const JsonPlace& component) {
  const std::string type = component.type();
  if (type == "NFC") return NormalizerStep(NormalFormStep{NormalForm::nfc});
  if (type == "NFD") return NormalizerStep(NormalFormStep{NormalForm::nfd});
  if (type == "NFKC") return NormalizerStep(NormalFormStep{NormalForm::nfkc});
  if (type == "NFKD") return NormalizerStep(NormalFormStep{NormalForm::nfkd});
  if (type == "Lowercase") return NormalizerStep(LowercaseStep{});
  if (type == "StripAccents") return NormalizerStep(StripAccentsStep{});
  if (type == "Nmt") return NormalizerStep(NmtStep{});
  if (type == "ByteLevel") return NormalizerStep(ByteAlphabetStep{});
  if (type == "Strip") {
    StripSpaceStep step;
    RAFTER_ASSIGN(step.left, component.flag("strip_left", true));
    RAFTER_ASSIGN(step.right, component.flag("strip_right", true));
    return NormalizerStep(std::move(step));
  }
  if (type == "Prepend") {
    RAFTER_ASSIGN(std::string text, read_short_text(component, "prepend", ""));
    return NormalizerStep(PrependStep{std::move(text)});
  }
  if (type == "Replace") {
    RAFTER_ASSIGN(PatternEntry entry, read_pattern(component["pattern"]));
    RAFTER_ASSIGN(std::string content, read_short_text(component, "content", ""));
    return NormalizerStep(ReplaceStep{std::move(entry.pattern), entry.is_regex, std::move(content)});
  }
  if (type == "Precompiled") {
    RAFTER_ASSIGN(const std::string text, component.text("precompiled_charsmap", ""));
    std::optional<std::string> bytes = decode_base64(text);
    if (!bytes) return component["precompiled_charsmap"].invalid("not base64");
    return NormalizerStep(PrecompiledStep{std::move(*bytes), false});
  }
  if (type == "BertNormalizer") {
    BertNormalizerStep step;
    RAFTER_ASSIGN(step.clean_text, component.flag("clean_text", true));
    RAFTER_ASSIGN(step.handle_chinese_chars, component.flag("handle_chinese_chars", true));
    RAFTER_ASSIGN(step.lowercase, component.flag("lowercase", true));
    RAFTER_ASSIGN(step.strip_accents, component.flag("strip_accents", step.lowercase));
    return NormalizerStep(std::move(step));
  }
  return component.unsupported_type();
}

// The rules of the fields that older files have instead of prepend_scheme.
Result<PrependScheme> read_prepend_scheme(const JsonPlace& component) {
  RAFTER_ASSIGN(const std::string scheme, component.text("prepend_scheme", ""));
  RAFTER_ASSIGN(const bool adds, component.flag("add_prefix_space", true));
  if (scheme.empty()) return adds ? PrependScheme::always : PrependScheme::never;
  if (scheme == "always") return PrependScheme::always;
  if (scheme == "first") return PrependScheme::first;
  if (scheme == "never") return PrependScheme::never;
  return component["prepend_scheme"].unsupported(fmt::format("{} is not supported", quote(scheme)));
}

Result<std::string> read_replacement(const JsonPlace& component) {
  RAFTER_ASSIGN(const char32_t character, read_character(component, "replacement", "\u2581"));
  std::string text;
  base::append_utf8(text, character);
  return text;
}

Result<PreTokenizerStep> read_pre_tokenizer_step(const JsonPlace& component) {
  const std::string type = component.type();
  if (type == "Split") {
    RAFTER_ASSIGN(PatternEntry entry, read_pattern(component["pattern"]));
    SplitStep step{std::move(entry.pattern), entry.is_regex, SplitBehavior::isolated, false};
    RAFTER_ASSIGN(step.behavior, read_behavior(component, ""));
    RAFTER_ASSIGN(step.inverted, component.flag("invert", false));
    return PreTokenizerStep(std::move(step));
  }
  if (type == "Digits") {
    DigitsStep step;
    RAFTER_ASSIGN(step.individual, component.flag("individual_digits", false));
    return PreTokenizerStep(std::move(step));
  }
  if (type == "ByteLevel") {
    ByteLevelStep step;
    RAFTER_ASSIGN(step.add_prefix_space, component.flag("add_prefix_space", true));
    RAFTER_ASSIGN(step.use_regex, component.flag("use_regex", true));
    return PreTokenizerStep(std::move(step));
  }
  if (type == "Metaspace") {
    MetaspaceStep step;
    RAFTER_ASSIGN(step.replacement, read_replacement(component));
    RAFTER_ASSIGN(step.scheme, read_prepend_scheme(component));
    RAFTER_ASSIGN(step.split, component.flag("split", true));
    return PreTokenizerStep(std::move(step));
  }
  if (type == "Punctuation") {
    RAFTER_ASSIGN(const SplitBehavior behavior, read_behavior(component, "Isolated"));
    return PreTokenizerStep(CharKindStep{CharKind::punctuation, behavior});
  }
  if (type == "Whitespace") return PreTokenizerStep(WordsStep{});
  if (type == "WhitespaceSplit")
    return PreTokenizerStep(CharKindStep{CharKind::white_space, SplitBehavior::removed});
  if (type == "CharDelimiterSplit") {
    RAFTER_ASSIGN(const char32_t delimiter, read_character(component, "delimiter", ""));
    SplitStep step{"", false, SplitBehavior::removed, false};
    base::append_utf8(step.pattern, delimiter);
    return PreTokenizerStep(std::move(step));
  }
  if (type == "UnicodeScripts") return PreTokenizerStep(ScriptsStep{});
  if (type == "FixedLength") {
    RAFTER_ASSIGN(const int64_t length, component.count("length", 5, INT32_MAX));
    return PreTokenizerStep(FixedLengthStep{static_cast<size_t>(length)});
  }
  return component.unsupported_type();
}

// `single` is a list of special tokens and one sequence; each special token stands for a list of ids.
Status read_template(const JsonPlace& component, TokenizerSpec& spec) {
  std::vector<int32_t> prefix, suffix;
  int sequences = 0;
  RAFTER_TRY(component.each("single", [&](const JsonPlace& part) -> Status {
    if (part["Sequence"].value().is_object()) {
      ++sequences;
      return {};
    }
    RAFTER_ASSIGN(const std::string name, part["SpecialToken"].text("id", ""));
    return component["special_tokens"][name.c_str()].each("ids", [&](const JsonPlace& id) -> Status {
      RAFTER_ASSIGN(const int32_t token, read_token_id(id));
      (sequences == 0 ? prefix : suffix).push_back(token);
      return {};
    });
  }));
  if (sequences != 1) {
    return component["single"].unsupported(fmt::format("a template with {} sequences", sequences));
  }
  // A later processor works on what an earlier one made.
  spec.prefix.insert(spec.prefix.begin(), prefix.begin(), prefix.end());
  spec.suffix.insert(spec.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// The second element of ["[CLS]", 101].
Result<int32_t> read_named_id(const JsonPlace& component, const char* name) {
  int32_t id = -1;
  RAFTER_TRY(component.each(name, [&](const JsonPlace& element) -> Status {
    if (element.value().is_string()) return {};
    RAFTER_ASSIGN(id, read_token_id(element));
    return {};
  }));
  if (id < 0) return component[name].invalid("no token id");
  return id;
}

Result<DecoderStep> read_decoder_step(const JsonPlace& component) {
  const std::string type = component.type();
  if (type == "ByteLevel") return DecoderStep(ByteLevelDecoder{});
  if (type == "ByteFallback") return DecoderStep(ByteFallbackDecoder{});
  if (type == "Fuse") return DecoderStep(FuseDecoder{});
  if (type == "Strip") {
    StripDecoder step;
    RAFTER_ASSIGN(step.content, read_character(component, "content", " "));
    RAFTER_ASSIGN(const int64_t start, component.count("start", 0, INT32_MAX));
    RAFTER_ASSIGN(const int64_t stop, component.count("stop", 0, INT32_MAX));
    step.start = static_cast<size_t>(start);
    step.stop = static_cast<size_t>(stop);
    return DecoderStep(std::move(step));
  }
  if (type == "Replace") {
    RAFTER_ASSIGN(PatternEntry entry, read_pattern(component["pattern"]));
    RAFTER_ASSIGN(std::string content, read_short_text(component, "content", ""));
    return DecoderStep(ReplaceDecoder{std::move(entry.pattern), entry.is_regex, std::move(content)});
  }
  if (type == "Metaspace") {
    MetaspaceDecoder step;
    RAFTER_ASSIGN(step.replacement, read_replacement(component));
    RAFTER_ASSIGN(const PrependScheme scheme, read_prepend_scheme(component));
    step.drops_first = scheme != PrependScheme::never;
    return DecoderStep(std::move(step));
  }
  if (type == "WordPiece") {
    WordPieceDecoder step;
    RAFTER_ASSIGN(step.prefix, read_short_text(component, "prefix", "##"));
    RAFTER_ASSIGN(step.cleanup, component.flag("cleanup", true));
    return DecoderStep(std::move(step));
  }
  if (type == "CTC") {
    CtcDecoder step;
    RAFTER_ASSIGN(step.pad_token, read_short_text(component, "pad_token", "<pad>"));
    RAFTER_ASSIGN(step.word_delimiter, read_short_text(component, "word_delimiter_token", "|"));
    RAFTER_ASSIGN(step.cleanup, component.flag("cleanup", true));
    return DecoderStep(std::move(step));
  }
  if (type == "BPEDecoder") {
    RAFTER_ASSIGN(std::string suffix, read_short_text(component, "suffix", "</w>"));
    return DecoderStep(WordSuffixDecoder{std::move(suffix)});
  }
  return component.unsupported_type();
}

}  // namespace

Result<int32_t> read_token_id(const JsonPlace& place) {
  const nlohmann::json& value = place.value();
  if (!value.is_number_integer() || value < 0 || value >= kMaxTokens) {
    return place.invalid(fmt::format("a token id must be an integer from 0 to {}", kMaxTokens - 1));
  }
  return value.get<int32_t>();
}

Status read_normalizer(const JsonPlace& component, TokenizerSpec& spec) {
  if (component.is_null()) return {};
  if (component.type() == "Sequence") {
    return component.each("normalizers", [&](const JsonPlace& part) { return read_normalizer(part, spec); });
  }
  // Files of some old tokenizers have an empty map, which changes nothing.
  if (component.type() == "Precompiled" && component["precompiled_charsmap"].is_null()) return {};
  RAFTER_ASSIGN(NormalizerStep step, read_normalizer_step(component));
  return add_step(spec.normalizer, std::move(step), component);
}

Status read_pre_tokenizer(const JsonPlace& component, TokenizerSpec& spec) {
  if (component.is_null()) return {};
  if (component.type() == "Sequence") {
    return component.each("pretokenizers",
                          [&](const JsonPlace& part) { return read_pre_tokenizer(part, spec); });
  }
  if (component.type() == "BertPreTokenizer") {
    RAFTER_TRY(add_step(spec.pre_tokenizer,
                        PreTokenizerStep(CharKindStep{CharKind::white_space, SplitBehavior::removed}),
                        component));
    return add_step(spec.pre_tokenizer,
                    PreTokenizerStep(CharKindStep{CharKind::punctuation, SplitBehavior::isolated}),
                    component);
  }
  RAFTER_ASSIGN(PreTokenizerStep step, read_pre_tokenizer_step(component));
  return add_step(spec.pre_tokenizer, std::move(step), component);
}

Status read_post_processor(const JsonPlace& component, TokenizerSpec& spec) {
  if (component.is_null()) return {};
  const std::string type = component.type();
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "TemplateProcessing") return read_template(component, spec);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    RAFTER_ASSIGN(const int32_t cls, read_named_id(component, "cls"));
    RAFTER_ASSIGN(const int32_t sep, read_named_id(component, "sep"));
    spec.prefix.insert(spec.prefix.begin(), cls);
    spec.suffix.push_back(sep);
    return {};
  }
  if (type != "Sequence") return component.unsupported_type();
  return component.each("processors", [&](const JsonPlace& part) { return read_post_processor(part, spec); });
}

Status read_decoder(const JsonPlace& component, TokenizerSpec& spec) {
  if (component.is_null()) {
    spec.joins_with_spaces = spec.decoder.empty();
    return {};
  }
  if (component.type() == "Sequence") {
    return component.each("decoders", [&](const JsonPlace& part) -> Status {
      RAFTER_TRY(read_decoder(part, spec));
      spec.joins_with_spaces = false;
      return {};
    });
  }
  RAFTER_ASSIGN(DecoderStep step, read_decoder_step(component));
  return add_step(spec.decoder, std::move(step), component);
}

}  // namespace rafter::text
