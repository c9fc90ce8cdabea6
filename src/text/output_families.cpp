// The table of families, and the choice of one by a model's chat template.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "text/output_family.h"
#include "text/quote.h"

namespace rafter::text {
namespace output {
namespace {

bool mentions_channel(std::string_view source) {
  return contains(source, "<|channel>") && contains(source, "<channel|>");
}
bool mentions_think(std::string_view source) { return contains(source, "</think>"); }
bool mentions_bracketed_think(std::string_view source) { return contains(source, "[/THINK]"); }

constexpr ReasoningTags kReasoningTags[] = {
    {"channel", mentions_channel, "<|channel>", "<channel|>", "thought\n", 0, true},
    {"think", mentions_think, "<think>", "</think>", "\n", 2, true},
    {"bracketed-think", mentions_bracketed_think, "[THINK]", "[/THINK]", "\n", 2, true},
};

}  // namespace

const Family kNoFamily{"none", nullptr, {}};

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {&kGemma4, &kQwen35, &kMiniCpm5, &kMistral, &kDeepSeek,
                                                &kSmolLm, &kHermes, &kLlama3,   &kNoFamily};
  return kFamilies;
}

std::span<const ReasoningTags> reasoning_tags() { return kReasoningTags; }

}  // namespace output

namespace {

base::Error unknown_name(const char* what, std::string_view name, const std::vector<std::string>& names) {
  return {base::ErrorCode::invalid_argument, fmt::format("no {} {}", what, quote(name)), "",
          fmt::format("one of auto, {}", fmt::join(names, ", "))};
}

}  // namespace

const char* OutputFormat::family_name() const { return family->name; }
const char* OutputFormat::reasoning_name() const { return reasoning ? reasoning->name : "none"; }

std::vector<std::string> output_family_names() {
  std::vector<std::string> names;
  for (const output::Family* family : output::families()) names.emplace_back(family->name);
  return names;
}

std::vector<std::string> reasoning_names() {
  std::vector<std::string> names;
  for (const output::ReasoningTags& tags : output::reasoning_tags()) names.emplace_back(tags.name);
  names.emplace_back("none");
  return names;
}

base::Result<OutputFormat> choose_output_format(std::string_view template_source, std::string_view family,
                                                std::string_view reasoning) {
  OutputFormat format{nullptr, nullptr};
  for (const output::Family* candidate : output::families()) {
    const bool fits = family == "auto"
                          ? candidate->recognises != nullptr && candidate->recognises(template_source)
                          : family == candidate->name;
    if (fits && format.family == nullptr) format.family = candidate;
  }
  if (format.family == nullptr && family != "auto")
    return unknown_name("tool-call format", family, output_family_names());
  if (format.family == nullptr) format.family = &output::kNoFamily;
  for (const output::ReasoningTags& tags : output::reasoning_tags()) {
    const bool fits = reasoning == "auto" ? tags.recognises(template_source) : reasoning == tags.name;
    if (fits && format.reasoning == nullptr) format.reasoning = &tags;
  }
  if (format.reasoning == nullptr && reasoning != "auto" && reasoning != "none")
    return unknown_name("reasoning format", reasoning, reasoning_names());
  return format;
}

std::vector<std::string> kept_markers(const OutputFormat& format) {
  std::vector<std::string> markers = format.family->special_tokens;
  if (format.reasoning != nullptr && format.reasoning->are_special_tokens) {
    markers.emplace_back(format.reasoning->open);
    markers.emplace_back(format.reasoning->close);
  }
  return markers;
}

std::string_view reasoning_open(const OutputFormat& format) {
  return format.reasoning != nullptr ? format.reasoning->open : std::string_view();
}

std::string_view reasoning_close(const OutputFormat& format) {
  return format.reasoning != nullptr ? format.reasoning->close : std::string_view();
}

std::string reasoning_ending(const OutputFormat& format) {
  if (format.reasoning == nullptr) return {};
  const std::string close(format.reasoning->close);
  return format.reasoning->newlines_after > 0 ? "\n" + close + "\n\n" : close;
}

OutputStart output_start(const OutputFormat& format, std::string_view rendered_prompt) {
  if (format.reasoning == nullptr) return OutputStart::content;
  const output::ReasoningTags& tags = *format.reasoning;
  const size_t open = rendered_prompt.rfind(tags.open);
  if (open == std::string_view::npos) return OutputStart::content;
  const std::string_view rest = rendered_prompt.substr(open + tags.open.size());
  if (rest.empty()) return OutputStart::reasoning_opened;
  // Anything else behind the tag is a message that mentions it.
  const bool is_heading = rest == tags.heading || rest.find_first_not_of(" \t\r\n") == std::string_view::npos;
  return is_heading ? OutputStart::reasoning : OutputStart::content;
}

}  // namespace rafter::text
