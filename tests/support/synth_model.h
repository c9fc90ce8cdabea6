// Small synthetic checkpoints for tests.
#pragma once

#include <string>

#include "base/check.h"
#include "lab/synth.h"

namespace rafter::testing {

// Writes one into `folder`; returns its path.
inline std::string write_synth_model(const std::string& shape, const std::string& format,
                                     const std::string& folder) {
  lab::SynthOptions options;
  options.shape = shape;
  options.format = format;
  options.folder = folder;
  options.force = true;
  auto summary = lab::run_synth_blocking(options);
  RAFTER_CHECK(summary.ok(), "{}", summary.error().message());
  return summary->path;
}

}  // namespace rafter::testing
