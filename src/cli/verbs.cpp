#include "cli/verb.h"

namespace rafter::cli {

std::span<const Verb* const> verbs() {
  static constexpr const Verb* kVerbs[] = {
      &kGenerateVerb, &kChatVerb, &kGetVerb,      &kModelsVerb,     &kScanVerb,  &kAddVerb,  &kGcVerb,
      &kRenderVerb,   &kPlanVerb, &kRooflineVerb, &kPerplexityVerb, &kEmbedVerb, &kSynthVerb};
  return kVerbs;
}

}  // namespace rafter::cli
