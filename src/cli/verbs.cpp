#include "cli/verb.h"

namespace rafter::cli {

std::span<const Verb* const> verbs() {
  static constexpr const Verb* kVerbs[] = {&kGenerateVerb, &kChatVerb, &kModelsVerb, &kScanVerb,
                                           &kAddVerb,      &kPlanVerb, &kRenderVerb, &kSynthVerb};
  return kVerbs;
}

}  // namespace rafter::cli
