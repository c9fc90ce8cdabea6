// Small synthetic checkpoints for tests.
#pragma once

#include <string>

#include "cli/synth_writer.h"

namespace rafter::testing {

// Writes one into `folder` (which exists); returns its path.
inline std::string write_synth_model(const std::string& shape, const std::string& format,
                                     const std::string& folder) {
  cli::SynthJob job;
  job.shape = cli::find_synth_shape(shape).value();
  job.scheme = cli::find_synth_scheme(format).value();
  job.folder = folder;
  job.on_progress = [](int64_t) { return base::Status(); };
  const bool gguf = job.scheme->container == cli::SynthContainer::gguf;
  const base::Status status = gguf ? cli::write_synth_gguf(job) : cli::write_synth_folder(job);
  RAFTER_CHECK(status.ok(), "{}", status.error().message());
  return gguf ? folder + "/" + cli::synth_gguf_name(job) : folder;
}

}  // namespace rafter::testing
