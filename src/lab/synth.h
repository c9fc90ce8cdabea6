// `rafter synth`: a checkpoint of random weights with the exact tensor names, shapes and storage of a named
// real model, so that speed, memory and byte accounting can be tested where the real weights cannot be had.
//
//   RAFTER_ASSIGN(const SynthSummary summary, run_synth_blocking({.shape = "llama3-8b", .format = "mlx4",
//                                                                 .folder = "out"}));
//
// mlx4, mlx8, mlx-mixed, bf16: a folder of safetensors (lab/synth_shapes.h and lab/synth_tensors.h have the
// tables). q4_0, q8_0, q4_k, q5_k, q6_k: SHAPE-FORMAT.gguf in the folder. The same seed gives the same bytes
// on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::lab {

struct SynthOptions {
  std::string shape, format;
  std::string folder;
  uint64_t seed = 0;
  int64_t group = 64;                   // columns that share a scale in the MLX formats: 32, 64 or 128
  bool force = false;                   // take a folder that is not empty and replace the checkpoint in it
  int64_t shard_bytes = 5'000'000'000;  // most tensor bytes in a safetensors file
};

// Told after every portion of weights, `total` bytes at the end; an error it returns stops the work.
using SynthProgress = std::function<base::Status(int64_t done_bytes, int64_t total_bytes)>;

struct SynthSummary {
  std::string path;                // what to open: the folder, or the GGUF file
  std::vector<std::string> files;  // names in the folder
  int64_t bytes = 0;               // of all files
  int64_t parameters = 0;          // logical weight elements, a tied head counted once
  int64_t streamed_bytes = 0;      // matrices that a decode step reads; norms are left out
  double seconds = 0;              // the sync to disk included
};

// Nothing is left behind when it fails, and the folder is no checkpoint before it is whole (config.json comes
// last). Memory: some megabytes whatever the shape.
// Errors: invalid_argument (unknown shape, format or group; not a folder), io (folder not empty; no room,
// with the numbers), the progress function's.
base::Result<SynthSummary> run_synth_blocking(const SynthOptions& options,
                                              const SynthProgress& progress = {});

}  // namespace rafter::lab
