#include "text/gguf_pre_tokenizer.h"

#include <fmt/format.h>

#include "text/quote.h"
#include "text/split_scanner.h"

namespace rafter::text {
namespace {

// Digits: one numeric character at a time is cut out first, then GPT-2's pattern.
enum class Kind {
  gpt2,
  digits_then_gpt2,
  llama3,
  qwen2,
  qwen35,
  minicpm5,
  o200k,
  tekken,
  deepseek_v3,
  deepseek_coder,
  deepseek_llm,
  legacy
};

struct Entry {
  std::string_view name;
  Kind kind;
  bool normalizes = false;  // to form C
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr Entry kEntries[] = {
    {"llama3", Kind::llama3, false, true, true},
    {"llama-v3", Kind::llama3, false, true, true},
    {"llama-bpe", Kind::llama3, false, true, true},
    {"falcon3", Kind::llama3, false, true, true},
    {"falcon-h1", Kind::llama3, false, true, true},
    {"pixtral", Kind::llama3, false, true, true},
    {"lfm2", Kind::llama3, false, true, true},
    {"qwen2", Kind::qwen2, true},
    {"deepseek-r1-qwen", Kind::qwen2},
    {"qwen35", Kind::qwen35, true},
    {"gpt-2", Kind::gpt2},
    {"mpt", Kind::gpt2},
    {"olmo", Kind::gpt2},
    {"jais", Kind::gpt2},
    {"phi-2", Kind::gpt2},
    {"smollm", Kind::digits_then_gpt2},
    {"starcoder", Kind::digits_then_gpt2},
    {"refact", Kind::digits_then_gpt2},
    {"command-r", Kind::digits_then_gpt2},
    {"gpt-4o", Kind::o200k},
    {"llama4", Kind::o200k},
    {"tekken", Kind::tekken, false, true, true},
    {"minicpm5", Kind::minicpm5, false, true, false},
    {"deepseek-v3", Kind::deepseek_v3},
    {"deepseek-coder", Kind::deepseek_coder},
    {"deepseek-llm", Kind::deepseek_llm},
    {"default", Kind::legacy},
};

// Letters with case as the first DeepSeek vocabularies list them. Characters that a normal form would change
// are escaped.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D})"
    R"(ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ)"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekIdeographs = R"([一-龥\x{800}-一가-\x{D7FF}]+)";

SplitStep split_on(std::string_view pattern) { return SplitStep{std::string(pattern)}; }
SplitStep split_on(SplitScanner scanner) { return split_on(pattern_of_scanner(scanner)); }

std::vector<PreTokenizerStep> steps_of(Kind kind) {
  const ByteLevelStep bytes{.add_prefix_space = false, .use_regex = false};
  const ByteLevelStep bytes_and_gpt2{.add_prefix_space = false, .use_regex = true};
  switch (kind) {
    case Kind::gpt2:
      return {bytes_and_gpt2};
    case Kind::digits_then_gpt2:
      return {DigitsStep{.individual = true}, bytes_and_gpt2};
    case Kind::llama3:
      return {split_on(SplitScanner::llama3), bytes};
    case Kind::qwen2:
      return {split_on(SplitScanner::qwen2), bytes};
    case Kind::qwen35:
      return {split_on(SplitScanner::qwen35), bytes};
    case Kind::minicpm5:
      return {split_on(SplitScanner::digit_groups), split_on(SplitScanner::minicpm5), bytes};
    case Kind::o200k:
      return {split_on(SplitScanner::o200k), bytes};
    case Kind::tekken:
      return {split_on(SplitScanner::tekken), bytes};
    case Kind::deepseek_v3:
      return {split_on(SplitScanner::digit_groups), split_on(SplitScanner::ideographs),
              split_on(SplitScanner::deepseek), bytes};
    case Kind::deepseek_coder:
      return {split_on("[\r\n]"),       split_on(R"(\s?\p{L}+)"),
              split_on(R"(\s?\p{P}+)"), split_on(kDeepseekIdeographs),
              split_on(R"(\p{N})"),     bytes};
    case Kind::deepseek_llm:
      return {split_on("[\r\n]"),
              split_on(kDeepseekLetters),
              split_on("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"),
              split_on("\\s+$"),
              split_on(kDeepseekIdeographs),
              split_on(R"(\p{N}+)"),
              bytes};
    case Kind::legacy:
      return {split_on(R"([\p{P}\$\+<=>\^~\|]+)"), split_on(SplitScanner::gpt2), split_on(R"(\p{N}+)"),
              split_on("[0-9][0-9][0-9]"), bytes};
  }
  return {};
}

}  // namespace

base::Result<GgufPreTokenizer> pre_tokenizer_from_gguf_name(std::string_view name) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name != name) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
      continue;
    }
    GgufPreTokenizer result;
    result.steps = steps_of(entry.kind);
    if (entry.normalizes) result.normalizer.push_back(NormalFormStep{NormalForm::nfc});
    result.ignore_merges = entry.ignore_merges;
    result.add_bos = entry.add_bos;
    return result;
  }
  return base::Error{base::ErrorCode::unsupported,
                     fmt::format("pre-tokenizer {} is not supported", quote(name)), "tokenizer.ggml.pre",
                     fmt::format("known: {}", known)};
}

}  // namespace rafter::text
