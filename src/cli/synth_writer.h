// Writing a synthetic checkpoint: a folder of safetensors with its side files, or one GGUF file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/synth_shape.h"

namespace rafter::cli {

struct SynthJob {
  const SynthShape* shape = nullptr;
  const SynthScheme* scheme = nullptr;
  std::string folder;
  uint64_t seed = 0;
  // Called with the bytes of each portion written; an error stops the work and leaves no half file behind.
  std::function<base::Status(int64_t)> on_progress;
};

// Bytes of all weights.
int64_t synth_weight_bytes(const SynthJob& job);

// "llama3-tiny-q4_0.gguf"
std::string synth_gguf_name(const SynthJob& job);

// Files in the folder that the new checkpoint replaces or that would be read together with it: paths, by
// name.
std::vector<std::string> files_in_the_way(const SynthJob& job);

// Writes everything, synced. config.json comes last: a folder without it is no checkpoint.
// Errors: io, and what on_progress returned.
base::Status write_synth_folder(const SynthJob& job);
base::Status write_synth_gguf(const SynthJob& job);

}  // namespace rafter::cli
