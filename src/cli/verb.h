// A verb of the command line: one source file defines its flags and what it does; cli/verbs.cpp lists them
// all.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace rafter::cli {

// Runs after the flags were read. An error's code decides the exit code.
using Action = std::function<base::Status()>;

struct Verb {
  const char* name;
  const char* summary;   // one line of the overview
  const char* examples;  // lines of "rafter …", shown below the flags
  // Adds the verb's flags to its own CLI::App and returns what runs after they were read.
  Action (*define)(CLI::App& app);
  bool hidden = false;  // from the overview: started by the program itself
};

extern const Verb kServeVerb, kGenerateVerb, kChatVerb, kEmbedVerb, kGetVerb, kModelsVerb, kScanVerb,
    kAddVerb, kGcVerb, kTokenizeVerb, kDetokenizeVerb, kRenderVerb, kPlanVerb, kPerplexityVerb, kRooflineVerb,
    kSynthVerb, kDoctorVerb, kBenchVerb, kEvalsVerb, kFitVerb, kWorkerVerb;

// In the order of the overview.
std::span<const Verb* const> verbs();

}  // namespace rafter::cli
