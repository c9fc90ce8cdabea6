#include "cli/verb.h"

namespace rafter::cli {

std::span<const Verb* const> verbs() {
  static constexpr const Verb* kVerbs[] = {
      &kServeVerb,  &kGenerateVerb, &kChatVerb,  &kEmbedVerb,    &kGetVerb,        &kModelsVerb,
      &kScanVerb,   &kAddVerb,      &kGcVerb,    &kTokenizeVerb, &kDetokenizeVerb, &kRenderVerb,
      &kPlanVerb,   &kFitVerb,      &kBenchVerb, &kEvalsVerb,    &kPerplexityVerb, &kRooflineVerb,
      &kDoctorVerb, &kSynthVerb,    &kWorkerVerb};
  return kVerbs;
}

}  // namespace rafter::cli
