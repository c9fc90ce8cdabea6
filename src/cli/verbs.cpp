#include "cli/verb.h"

namespace rafter::cli {

std::span<const Verb* const> verbs() {
  static constexpr const Verb* kVerbs[] = {&kGenerateVerb,   &kChatVerb, &kModelsVerb,
                                           &kScanVerb,       &kAddVerb,  &kTokenizeVerb,
                                           &kDetokenizeVerb, &kPlanVerb, &kSynthVerb};
  return kVerbs;
}

}  // namespace rafter::cli
